use crate::column::{group, table};

table! {
    KernelEvents,
    /// Something the kernel saw of a recorded process.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct KernelEventRow {
        /// Process.
        #[null("an image without a row in `processes`: between fork and exec")]
        pub process: Option<u32>,
        /// Process id.
        pub pid: u32,
        /// Thread that was running; for `resident` not always one of the process's.
        pub tid: u32,
        /// When.
        pub time_ns: i64,
        /// What happened.
        pub event: String,
        /// Address it is about.
        #[null("the event is about none")]
        pub address: Option<u64>,
        /// Bytes it is about.
        #[null("the event is about none")]
        pub bytes: Option<u64>,
        /// A number: faults, a signal, an exit status, a result.
        #[null("the event has none")]
        pub value: Option<i64>,
        /// How long it took.
        #[null("the event has no length")]
        pub took_ns: Option<i64>,
        /// What was resident then.
        #[null("the event says nothing of resident memory")]
        pub pages: Option<Pages>,
        /// Id of the call stack of that block in `sites`.
        #[null("the event is about no block, or one whose stack was not recorded")]
        pub site: Option<u64>,
    }
}

group! {
    /// Pages in memory, in bytes, by what they are.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Pages {
        /// Anonymous memory.
        #[column("anon_bytes")]
        pub anon: u64,
        /// Pages of files.
        #[column("file_bytes")]
        pub file: u64,
        /// Shared memory, the probe's rings included.
        #[column("shmem_bytes")]
        pub shmem: u64,
        /// Swapped out: not resident.
        #[column("swap_bytes")]
        pub swap: u64,
    }
}
