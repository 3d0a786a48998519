use crate::column::table;

table! {
    Accesses,
    /// A sampled memory access, and the live block that it met.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AccessRow {
        /// Process.
        pub process: u32,
        /// Thread.
        #[null("the thread recorded no event")]
        pub thread: Option<u32>,
        /// The kernel's thread id.
        pub tid: u32,
        /// When.
        pub time_ns: i64,
        /// `load`, `store`, `other` (an access whose kind the processor does not report) or
        /// `fault`; of an instruction that the clock met also `none` (it touched no memory, or the
        /// stack by its pointer) and `unknown` (what was executed cannot be told).
        pub access: String,
        /// Where.
        #[null("it touched no memory, it is not known, or a load replaced the register that held the address, as in a chain of pointers")]
        pub address: Option<u64>,
        /// Innermost span that the thread was in then.
        #[null("it was in none, or recorded no event")]
        pub active_span: Option<u32>,
        /// Where the live block begins that it met.
        #[null("it met no live block: stacks, static data, what was freed")]
        pub block_address: Option<u64>,
        /// Its size.
        #[null("it met no live block: stacks, static data, what was freed")]
        pub block_bytes: Option<u64>,
        /// Thread that allocated it: with `block_ns` it names the block's row in `allocations`
        /// (`thread`, `alloc_ns`).
        #[null("it met no live block: stacks, static data, what was freed")]
        pub block_thread: Option<u32>,
        /// When it was allocated.
        #[null("it met no live block: stacks, static data, what was freed")]
        pub block_ns: Option<i64>,
        /// Id of its call stack in `sites`.
        #[null("it met no live block, or one whose stack was not recorded")]
        pub site: Option<u64>,
        /// Innermost span it was allocated in.
        #[null("it met no live block, or one that was allocated outside any span")]
        pub span: Option<u32>,
        /// Where the data was found: `L1`, `L2`, `L3`, `RAM`, `remote RAM`, `fill buffer`, …
        #[null("the processor does not report it")]
        pub level: Option<String>,
        /// Cycles until it was there, as the processor measured it.
        #[null("the processor does not report it")]
        pub latency_cycles: Option<u64>,
    }
}
