use crate::column::table;
use crate::rows::{Kind, Role};

table! {
    Allocations,
    /// A block. A `realloc` that keeps or moves a block ends one row and starts another.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AllocationRow {
        /// Process.
        pub process: u32,
        /// Thread that allocated it.
        pub thread: u32,
        /// Which call made it.
        pub kind: Kind,
        /// Where it begins, in the host's or the device's addresses; of `cuda_array` and
        /// `cuda_mipmap` the handle.
        #[null("heap block below 64 KiB that was released, unless `--addresses`; `cuda_physical`, \
            `cuda_imported_physical`")]
        pub address: Option<u64>,
        /// Requested bytes; the length of a mapping.
        pub bytes: u64,
        /// When the call that made it returned.
        pub alloc_ns: i64,
        /// When its release began (`free`) or returned (`realloc`, `munmap`, `mremap`, `MAP_FIXED`:
        /// until then they may fail, and its bytes stay live).
        #[null("live when its process or the recording ended")]
        pub free_ns: Option<i64>,
        /// Id of its call stack in `sites`.
        #[null("its stack was not recorded (`meta.recorded.stacks`)")]
        pub site: Option<u64>,
        /// n-th block of its kind in its span, from 0.
        pub ordinal: u32,
        /// Innermost span that the allocating thread was in or worked for (see `spans.parent`).
        #[null("allocated outside any span")]
        pub span: Option<u32>,
        /// What the block is to that span.
        pub role: Role,
        /// The device it is on, as its driver counts (after `CUDA_VISIBLE_DEVICES`).
        #[null("memory of the host")]
        pub device: Option<u32>,
    }
}
