use crate::column::table;

table! {
    Placements,
    /// A large block that got the memory that a plan names, or the end of that.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct PlacementRow {
        /// Process.
        pub process: u32,
        /// Thread that allocated the block.
        pub thread: u32,
        /// When: just before the block's `alloc_ns`.
        pub time_ns: i64,
        /// `place`: a block gets this memory; `depart`: the program allocates other blocks than
        /// the plan has, and no more are placed.
        pub action: String,
        /// `small-pages`, `huge-pages` or `node:N`.
        #[null("`depart`")]
        pub tier: Option<String>,
        /// Where the block begins.
        #[null("`depart`")]
        pub address: Option<u64>,
        /// Its requested bytes.
        #[null("`depart`")]
        pub bytes: Option<u64>,
        /// Why the kernel refused it: an errno. The block is then where it is without a plan.
        #[null("it did not")]
        pub errno: Option<i32>,
    }
}
