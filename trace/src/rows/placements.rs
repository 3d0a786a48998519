use crate::column::table;

table! {
    Placements,
    /// What became of large blocks that a plan names, or that `place learn` watched.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct PlacementRow {
        /// Process.
        pub process: u32,
        /// Thread that allocated the block; of what is moved or used, the thread that allocates another
        /// one then.
        pub thread: u32,
        /// When; of `place`, just before the block's `alloc_ns`.
        pub time_ns: i64,
        /// `place`: a block gets this memory; `out`: this range of it goes to swap, or to this node;
        /// `in`: it comes back; `use`: this block was used since the last `look`; `write`: a part of it
        /// was written since then; `look`: all that was used has been named; `depart`: the program
        /// allocates other blocks than the plan has, and no more are placed.
        pub action: String,
        /// `small-pages`, `huge-pages`, `dram` or `node:N`.
        #[null("`use`, `write`, `look` and `depart`")]
        pub tier: Option<String>,
        /// Where the block begins, or the range of it that is moved.
        #[null("`look` and `depart`")]
        pub address: Option<u64>,
        /// Its requested bytes; the bytes that are moved; the bytes of its pages that were used; of
        /// `write`, those that were written, as far as a few of its pages tell.
        #[null("`look` and `depart`")]
        pub bytes: Option<u64>,
        /// Why the kernel refused it: an errno. The block is then where it is without a plan; of what
        /// is moved, some pages have stayed where they were.
        #[null("it did not")]
        pub errno: Option<i32>,
        /// How long the move took.
        #[null("anything but `out` and `in`")]
        pub micros: Option<u32>,
    }
}
