//! Perf events that programs are attached to (perf_event_open(2)).

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Error;

/// The first fields of `struct perf_event_attr`, which has this length since Linux
/// 3.3 (PERF_ATTR_SIZE_VER1).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    path: u64,
    offset: u64,
}

/// Runs the program at an offset of a file, in any process. `kind` is the number of the uprobe PMU.
pub(crate) fn attach_to_file(
    program: &OwnedFd,
    kind: u32,
    path: &CStr,
    offset: u64,
) -> Result<OwnedFd, Error> {
    let attributes = Attributes { kind, path: path.as_ptr() as u64, offset, ..Default::default() };
    // On processor 0: an uprobe's event counts on one processor, the program runs on all
    // (perf_trace_event_init).
    attach(program, attributes, 0, &path.to_string_lossy())
}

/// An event of all processes on a processor, for `what`. It runs the program until it is closed.
fn attach(
    program: &OwnedFd,
    mut attributes: Attributes,
    processor: usize,
    what: &str,
) -> Result<OwnedFd, Error> {
    const CLOSE_ON_EXEC: u64 = 8;
    const SET_BPF: u64 = 0x4004_2408; // PERF_EVENT_IOC_SET_BPF
    let failed = || Error::call(format!("cannot attach a BPF program to {what}"));
    attributes.size = size_of::<Attributes>() as u32;
    // SAFETY: the attributes live until the call returns, and what they point to does.
    let raw = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, processor, -1, CLOSE_ON_EXEC)
    };
    if raw < 0 {
        return Err(failed());
    }
    // SAFETY: the kernel has just made it for us.
    let event = unsafe { OwnedFd::from_raw_fd(raw as i32) };
    // SAFETY: two descriptors; the call keeps no address.
    if unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) } < 0 {
        return Err(failed());
    }
    Ok(event)
}

/// Runs the program at every page fault, on each processor that is online.
pub(crate) fn attach_to_page_faults(program: &OwnedFd) -> Result<Vec<OwnedFd>, Error> {
    /// Of linux/perf_event.h.
    const SOFTWARE: u32 = 1;
    const PAGE_FAULTS: u64 = 2;
    const ADDRESS: u64 = 1 << 3;
    let file = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::Call { what: format!("cannot read {file}"), error })?;
    let attach = |processor| {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: PAGE_FAULTS,
            sample_period: 1,
            sample_type: ADDRESS,
            ..Default::default()
        };
        attach(program, attributes, processor, "page faults")
    };
    ranges(&text).flatten().map(attach).collect()
}

/// `0-3,8` → 0 to 3, 8 to 8; what is no range is left out.
fn ranges(text: &str) -> impl Iterator<Item = RangeInclusive<usize>> {
    text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_by_ranges() {
        let listed = |text| ranges(text).flatten().collect::<Vec<_>>();
        assert_eq!(listed("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(listed("0\n"), [0]);
        assert_eq!(listed("\n"), [0; 0]);
    }
}
