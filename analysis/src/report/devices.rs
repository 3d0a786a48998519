//! What a trace says of memory of devices.

use memtrace_trace::Trace;
use memtrace_trace::rows::DeviceRow;

use crate::error::Error;
use crate::report::document::Device;

/// The part of driver bytes that were not in use when they peaked: what pools reserved for later.
/// `None` if there were none.
pub fn fragmentation(row: &DeviceRow) -> Option<f64> {
    let driver = row.peak_driver_bytes;
    (driver > 0).then(|| driver.saturating_sub(row.used_at_peak_bytes) as f64 / driver as f64)
}

/// One for each process and device.
///
/// # Errors
/// The table cannot be read.
pub(super) fn document(trace: &Trace) -> Result<Vec<Device>, Error> {
    let rows = trace.devices()?;
    Ok(rows.iter().map(device).collect())
}

fn device(row: &DeviceRow) -> Device {
    Device {
        process: row.process,
        device: row.device,
        name: row.name.clone(),
        total_bytes: row.total_bytes,
        peak_driver_bytes: row.peak_driver_bytes,
        peak_seconds: row.peak_ns as f64 / 1e9,
        used_at_peak_bytes: row.used_at_peak_bytes,
        fragmentation: fragmentation(row),
        peak_used_bytes: row.peak_used_bytes,
        peak_pool_bytes: row.peak_pool_bytes,
        peak_framework_bytes: row.peak_framework_bytes,
        peak_framework_reserved_bytes: row.peak_framework_reserved_bytes,
        peak_managed_bytes: row.peak_managed_bytes,
        peak_host_bytes: row.peak_host_bytes,
        peak_registered_bytes: row.peak_registered_bytes,
        peak_imported_bytes: row.peak_imported_bytes,
        allocations: row.allocations,
        requested_bytes: row.requested_bytes,
        unseen_releases: row.unseen_releases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_is_a_part_of_what_was_reserved() {
        let row = |peak_driver_bytes, used_at_peak_bytes| DeviceRow {
            peak_driver_bytes,
            used_at_peak_bytes,
            ..DeviceRow::default()
        };
        assert_eq!(fragmentation(&row(100, 75)), Some(0.25));
        assert_eq!(fragmentation(&row(100, 101)), Some(0.0));
        assert_eq!(fragmentation(&row(0, 0)), None);
    }
}
