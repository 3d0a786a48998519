//! Memory of devices.

use schemars::JsonSchema;
use serde::Serialize;

/// One process's memory on one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Device {
    /// Index of the process.
    pub process: u32,
    /// The device as its driver counts; null for memory on none.
    pub device: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// Its memory.
    pub total_bytes: Option<u64>,
    /// Peak of what the driver has set aside, reserves of pools included.
    pub peak_driver_bytes: u64,
    /// When that peaked.
    pub peak_seconds: f64,
    /// Used bytes then.
    pub used_at_peak_bytes: u64,
    /// The part of driver bytes at their peak that was not used; null if there were none.
    pub fragmentation: Option<f64>,
    /// Peak of used bytes.
    pub peak_used_bytes: u64,
    /// Peak of what pools of the driver reserve.
    pub peak_pool_bytes: u64,
    /// Peak of blocks that a framework handed out.
    pub peak_framework_bytes: Option<u64>,
    /// Peak of what a framework reserves.
    pub peak_framework_reserved_bytes: Option<u64>,
    /// Peak of managed memory.
    pub peak_managed_bytes: u64,
    /// Peak of page-locked memory of the host.
    pub peak_host_bytes: u64,
    /// Peak of the program's own memory that it registered.
    pub peak_registered_bytes: u64,
    /// Peak of memory imported from other processes.
    pub peak_imported_bytes: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their requested sizes.
    pub requested_bytes: u64,
    /// Releases of blocks whose allocation was not seen.
    pub unseen_releases: u64,
}
