use serde::{Deserialize, Serialize};

use crate::column::{group, table};

table! {
    Sites,
    /// A distinct allocation call stack.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct SiteRow {
        /// Names the stack, the same in every run: a hash of (build id, offset) of native frames
        /// and (file, qualified name, line) of Python frames. A file without a build id counts by
        /// its path. Names and inlined functions have no part in it: debug information changes no
        /// id. Code that the program has generated counts by its place within a page of memory.
        pub site: u64,
        /// Its innermost frame in `frames`.
        pub frame: u32,
        /// Blocks allocated there, over all processes.
        pub blocks: u64,
        /// Sum of their sizes.
        pub requested_bytes: u64,
        /// Largest sum of their live bytes at one time.
        pub peak_live_bytes: u64,
        /// Sum of their live bytes when all live bytes together peaked.
        pub live_bytes_at_peak: u64,
        /// What of these is an estimate: what the blocks that were sampled stand for.
        pub sampled_bytes_at_peak: u64,
        /// Sum of their live bytes when the program of their process ended
        /// (`processes.main_end_ns`).
        pub live_bytes_at_end: u64,
        /// What of these is an estimate: what the blocks that were sampled stand for.
        pub sampled_bytes_at_end: u64,
        /// How many blocks were live then.
        pub live_blocks_at_end: u64,
        /// What of its large blocks was never touched.
        #[null("there was no kernel side, or it reported no faults")]
        pub untouched: Option<Untouched>,
        /// Sum of their used bytes of devices when those of all processes and devices together
        /// peaked (`peak.device_used_bytes`).
        #[null("nothing on a device was allocated there")]
        pub device_bytes_at_peak: Option<u64>,
    }
}

group! {
    /// Blocks of which a part was never touched as long as they lived.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct Untouched {
        /// Blocks that `kernel_events` has an `untouched` row for.
        #[column("untouched_blocks")]
        pub blocks: u64,
        /// Sum of their sizes.
        #[column("untouched_of_bytes")]
        pub of_bytes: u64,
        /// Of these, bytes that were never touched.
        #[column("untouched_bytes")]
        pub bytes: u64,
    }
}
