//! Rows of kernel events.

use memtrace_ebpf::{Counters, Event, What};
use memtrace_trace::rows::{KernelEventRow, Pages};
use memtrace_wire::arch::page::bytes as page_bytes;

/// Shorter runs of faults get no row, nor does one of a single page, however large that is.
const RUN_WORTH_A_ROW: u64 = 64 << 10;

/// The row of an event, begun with process and time; `None` if it gets none. A system call describes
/// itself ([`MapCall`](super::MapCall)).
pub fn describe(event: &Event, row: KernelEventRow) -> Option<KernelEventRow> {
    let named = |name: &str, row| KernelEventRow { event: name.into(), ..row };
    Some(match event.what {
        What::Resident { now, high, high_ns } => {
            let pages = Some(pages(&now));
            named("resident", KernelEventRow { pages, ..at_peak(event, high, high_ns, row) })
        }
        What::Faults { bytes, .. } if bytes < RUN_WORTH_A_ROW.max(2 * page_bytes()) => return None,
        What::Faults { address, bytes, faults, .. } => {
            let (address, bytes, value) = (Some(address), Some(bytes), Some(faults as i64));
            named("faults", KernelEventRow { address, bytes, value, ..row })
        }
        What::Fork { parent, .. } => {
            named("fork", KernelEventRow { process: None, value: Some(i64::from(parent)), ..row })
        }
        What::Exec { .. } => named("exec", KernelEventRow { process: None, ..row }),
        What::End { at_peak: pages_then, peak, peak_ns } => {
            let pages = Some(pages(&pages_then));
            named("end", KernelEventRow { pages, ..at_peak(event, peak, peak_ns, row) })
        }
        What::Exit { status } => named("exit", KernelEventRow { value: Some(i64::from(status)), ..row }),
        What::Victim => named("oom_victim", row),
        What::Signal { number, .. } => {
            named("signal", KernelEventRow { value: Some(i64::from(number)), ..row })
        }
        What::Reclaim { took_ns, bytes } => {
            let (bytes, took_ns) = (Some(bytes), Some(took_ns as i64));
            named("reclaim", KernelEventRow { bytes, took_ns, ..row })
        }
        What::Function { index, arguments } => {
            let (address, bytes) = (Some(arguments[0]), Some(arguments[1]));
            named("function", KernelEventRow { value: Some(i64::from(index)), address, bytes, ..row })
        }
        What::Counts { .. } => return None,
        What::Call(_) => row,
    })
}

/// The most that was resident, and how long before the event that was.
fn at_peak(event: &Event, bytes: u64, ns: u64, row: KernelEventRow) -> KernelEventRow {
    KernelEventRow { bytes: Some(bytes), took_ns: Some(event.ns.saturating_sub(ns) as i64), ..row }
}

/// Pages by what they are, as a trace has them.
pub fn pages(counters: &Counters) -> Pages {
    Pages { anon: counters.anon, file: counters.file, shmem: counters.shmem, swap: counters.swap }
}

/// As a shell gives it, from a wait status (wait(2)).
pub fn exit_code(status: u32) -> i32 {
    let signal = (status & 0x7f) as i32;
    if signal != 0 { 128 + signal } else { (status >> 8 & 0xff) as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(what: What) -> Option<KernelEventRow> {
        let event = Event { ns: 900, pid: 7, tid: 8, what };
        describe(&event, KernelEventRow { pid: 7, process: Some(3), ..KernelEventRow::default() })
    }

    #[test]
    fn short_runs_of_faults_get_no_row() {
        let faults = |bytes| What::Faults { address: 4096, bytes, faults: 5, by_kernel: false };
        assert!(described(faults(RUN_WORTH_A_ROW - 1)).is_none());
        let row = described(faults(RUN_WORTH_A_ROW)).unwrap();
        assert_eq!((row.event.as_str(), row.address, row.value), ("faults", Some(4096), Some(5)));
    }

    #[test]
    fn a_new_image_belongs_to_no_process_yet() {
        let row = described(What::Fork { parent: 5, own_memory: true }).unwrap();
        assert_eq!((row.event.as_str(), row.process, row.value), ("fork", None, Some(5)));
        let end = described(What::End { at_peak: Counters::default(), peak: 10, peak_ns: 600 }).unwrap();
        assert_eq!((end.process, end.bytes, end.took_ns), (Some(3), Some(10), Some(300)));
    }

    #[test]
    fn a_wait_status_becomes_an_exit_code() {
        assert_eq!((exit_code(0), exit_code(3 << 8), exit_code(9)), (0, 3, 137));
    }
}
