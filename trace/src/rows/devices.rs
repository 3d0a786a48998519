use serde::{Deserialize, Serialize};

use crate::column::table;

table! {
    Devices,
    /// What a process had of a device. Each peak is the column's own, not at one time with the
    /// others.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct DeviceRow {
        /// Process.
        pub process: u32,
        /// The device, as its driver counts (after `CUDA_VISIBLE_DEVICES`).
        #[null("memory of the host")]
        pub device: Option<u32>,
        /// Its name.
        #[null("the driver did not report it")]
        pub name: Option<String>,
        /// All its memory.
        #[null("the driver did not report it")]
        pub total_bytes: Option<u64>,
        /// Peak of driver bytes.
        pub peak_driver_bytes: u64,
        /// When that was reached; 0 if there were none.
        pub peak_ns: i64,
        /// Most used bytes while driver bytes were at their peak.
        pub used_at_peak_bytes: u64,
        /// Peak of used bytes.
        pub peak_used_bytes: u64,
        /// Peak of what pools of the driver and graphs had reserved; among driver bytes.
        pub peak_pool_bytes: u64,
        /// Peak of the blocks that frameworks had allocated.
        #[null("no framework reported its blocks")]
        pub peak_framework_bytes: Option<u64>,
        /// Most that a framework said it had reserved.
        #[null("no framework reported its blocks")]
        pub peak_framework_reserved_bytes: Option<u64>,
        /// Peak of managed memory (`cuda_managed`).
        pub peak_managed_bytes: u64,
        /// Peak of host memory that the driver allocated (`cuda_host`).
        pub peak_host_bytes: u64,
        /// Peak of host memory that was registered (`cuda_registered`).
        pub peak_registered_bytes: u64,
        /// Peak of memory of other processes.
        pub peak_imported_bytes: u64,
        /// Blocks allocated, of all kinds.
        pub allocations: u64,
        /// Sum of their sizes.
        pub requested_bytes: u64,
        /// Releases of blocks the trace never saw allocated; they are also among `unseen_releases`
        /// or `inherited_releases` of the process.
        pub unseen_releases: u64,
    }
}
