use crate::column::table;
use crate::rows::Kind;

table! {
    Folded,
    /// Blocks without a row in `allocations`, by call stack and kind.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FoldedRow {
        /// Id of their call stack in `sites`.
        #[null("their stack was not recorded")]
        pub site: Option<u64>,
        /// Which call made them, as in `allocations`.
        pub kind: Kind,
        /// How many.
        pub blocks: u64,
        /// Sum of their sizes.
        pub requested_bytes: u64,
        /// How many of them were released.
        pub released: u64,
        /// Sum of the lifetimes of those that were.
        pub lifetime_ns: u64,
    }
}
