//! Memory of devices: what the driver reserved, and what of it was used.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::devices::fragmentation;
use memtrace_analysis::report::operators::Operator;
use memtrace_trace::Meta;
use memtrace_trace::rows::DeviceRow;

use crate::terminal::clean;
use crate::units::Bytes;
use crate::units::grouped;

/// Devices that have a line.
const DEVICES_MAX: usize = 16;
/// Operators that have one.
const OPERATORS_MAX: usize = 10;
/// Columns for names.
const NAME: usize = 28;

/// A line next to those of the host's memory; nothing if there were no devices.
pub fn peaks(out: &mut String, meta: &Meta) -> Result<()> {
    let Some((driver, used)) = at_peak(meta) else { return Ok(()) };
    writeln!(
        out,
        "  peak device bytes    {:>9}   reserved by the driver, all processes and devices; used {}",
        Bytes(driver),
        Bytes(used)
    )?;
    Ok(())
}

/// Driver bytes and used bytes at their peaks, if there was a device.
pub fn at_peak(meta: &Meta) -> Option<(u64, u64)> {
    meta.peak.device_driver_bytes.zip(meta.peak.device_used_bytes)
}

/// A line for each device of a process, the largest first; then one for each operator that took
/// memory there.
pub fn table(out: &mut String, devices: &[DeviceRow], operators: &[Operator]) -> Result<()> {
    let mut rows: Vec<&DeviceRow> = devices.iter().filter(|row| row.allocations > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.peak_driver_bytes), row.process, row.device));
    writeln!(out)?;
    writeln!(
        out,
        "  {:<NAME$} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9}",
        "device", "driver", "used then", "fragmented", "used", "all", "blocks"
    )?;
    for row in rows.iter().take(DEVICES_MAX) {
        writeln!(
            out,
            "  {:<NAME$} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9}",
            name(row),
            Bytes(row.peak_driver_bytes),
            Bytes(row.used_at_peak_bytes),
            fragmentation(row).map_or("-".into(), |share| format!("{:.1} %", 100.0 * share)),
            Bytes(row.peak_used_bytes),
            row.total_bytes.map_or("-".into(), |bytes| Bytes(bytes).to_string()),
            grouped(row.allocations),
        )?;
        others(out, row)?;
    }
    if rows.len() > DEVICES_MAX {
        writeln!(out, "  and {} more (report --json has all)", rows.len() - DEVICES_MAX)?;
    }
    of_operators(out, operators)
}

/// Peaks of what is neither driver bytes nor used bytes of the device.
fn others(out: &mut String, row: &DeviceRow) -> Result<()> {
    let all = [
        ("managed", row.peak_managed_bytes),
        ("pinned on the host", row.peak_host_bytes),
        ("registered", row.peak_registered_bytes),
        ("of other processes", row.peak_imported_bytes),
        ("reserved by frameworks", row.peak_framework_reserved_bytes.unwrap_or(0)),
    ];
    let known = all.iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = known.map(|(what, bytes)| format!("{} {what}", Bytes(*bytes))).collect();
    if !parts.is_empty() {
        writeln!(out, "    peaks of: {}", parts.join(", "))?;
    }
    Ok(())
}

fn name(row: &DeviceRow) -> String {
    let what = match (row.device, &row.name) {
        (Some(device), Some(name)) => format!("{device} {}", clean(name)),
        (Some(device), None) => device.to_string(),
        (None, _) => "host".into(),
    };
    what.chars().take(NAME).collect()
}

fn of_operators(out: &mut String, operators: &[Operator]) -> Result<()> {
    let mut lines: Vec<_> = operators
        .iter()
        .filter_map(|operator| Some((&operator.name, operator.calls, operator.on_devices?)))
        .filter(|(.., (used, _))| *used > 0)
        .collect();
    lines.sort_by_key(|(name, _, (used, _))| (std::cmp::Reverse(*used), *name));
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "  {:<NAME$} {:>5} {:>19} {:>19}",
        "operator on devices", "calls", "working peak there", "driver then"
    )?;
    for (name, calls, (used, driver)) in lines.iter().take(OPERATORS_MAX) {
        let name: String = clean(name).chars().take(NAME).collect();
        writeln!(out, "  {name:<NAME$} {calls:>5} {:>19} {:>19}", Bytes(*used), Bytes(*driver))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_their_lines() {
        let gpu = DeviceRow {
            device: Some(0),
            name: Some("A \u{1b}[31mGPU".into()),
            total_bytes: Some(80_000_000_000),
            peak_driver_bytes: 40_000_000,
            used_at_peak_bytes: 30_000_000,
            peak_used_bytes: 35_000_000,
            allocations: 7,
            ..DeviceRow::default()
        };
        let host = DeviceRow { peak_host_bytes: 5_000_000, allocations: 1, ..DeviceRow::default() };
        let train = Operator {
            name: "train".into(),
            on_devices: Some((12_000_000, 40_000_000)),
            ..Operator::default()
        };
        let mut out = String::new();
        table(&mut out, &[host, gpu, DeviceRow::default()], &[train, Operator::default()]).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[2].starts_with("  0 A  [31mGPU "), "{out}");
        assert!(lines[2].contains("40.0 MB   30.0 MB     25.0 %   35.0 MB   80.0 GB         7"), "{out}");
        assert!(
            lines[3].starts_with("  host ") && lines[4].ends_with("peaks of: 5.00 MB pinned on the host"),
            "{out}"
        );
        assert!(lines[7].contains("train") && lines[7].contains("12.0 MB"), "{out}");
        assert_eq!(lines.len(), 8, "{out}");
    }

    #[test]
    fn without_devices_nothing_is_said() {
        let mut out = String::new();
        peaks(&mut out, &Meta::default()).unwrap();
        table(&mut out, &[], &[Operator::default()]).unwrap();
        assert_eq!(out, "");
    }
}
