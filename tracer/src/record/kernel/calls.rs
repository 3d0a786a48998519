//! System calls that map memory, of processes that no probe is in: told once they have returned, and folded as what
//! the probe would have told.

use memtrace_ebpf::Call;
use memtrace_trace::rows::KernelEventRow;
use memtrace_wire::event::{BREAK, Event, Kind as Wire};

use super::alone::break_of;
use crate::record::fold::Fold;
use crate::record::maps;

/// Numbers on x86-64 (asm/unistd_64.h).
const MMAP: u32 = 9;
const MUNMAP: u32 = 11;
const BRK: u32 = 12;
const MREMAP: u32 = 25;
const MADVISE: u32 = 28;
const SHMGET: u32 = 29;
const SHMAT: u32 = 30;
const SHMDT: u32 = 67;

const PAGE: u64 = 4096;
/// Calls are told when they return, so one that unmapped may be told after another thread was given the same place.
/// After this time it is no longer awaited.
const AWAITED_NS: u64 = 10_000_000;

/// A range that was mapped anew before its unmapping was told.
#[derive(Debug, Clone, Copy)]
pub struct Owed {
    process: u32,
    start: u64,
    end: u64,
    since: u64,
}

impl Fold {
    /// Folds a call that succeeded; the row says what it was.
    pub(super) fn call(&mut self, process: u32, tid: u32, ns: u64, call: &Call, row: &mut KernelEventRow) {
        let [first, second, third, fourth, ..] = call.arguments;
        row.event = name(call.number).into();
        (row.address, row.bytes, row.value) = (Some(first), Some(second), Some(call.result));
        if (-4095..0).contains(&call.result) {
            return;
        }
        self.fold_unfinished(self.clock.stamp_of_monotonic(ns));
        let writer = self.thread_alone(process, tid, self.clock.of_monotonic(ns));
        let result = call.result as u64;
        let event = Event {
            kind: Wire::MapEnd,
            stamp: self.clock.stamp_of_monotonic(ns),
            address: result,
            bytes: second,
            extra: 0,
            stack: 0,
        };
        match call.number {
            MMAP => {
                let event = Event { extra: third << 32 | fourth & 0xffff_ffff, ..event };
                if fourth & libc::MAP_FIXED as u64 != 0 {
                    self.map_begin(writer, Event { kind: Wire::MapBegin, ..event });
                } else {
                    self.owe(process, result, second, ns);
                }
                self.map_end(writer, event);
            }
            MUNMAP => self.unmapped(writer, process, ns, Event { address: first, ..event }),
            MREMAP => {
                let begin = Event { kind: Wire::RemapBegin, address: first, extra: third, ..event };
                self.remap_begin(writer, begin);
                let extra = fourth;
                self.remap_end(writer, Event { kind: Wire::RemapEnd, bytes: third, extra, ..event });
            }
            BRK => self.moved_break(writer, process, result, call.break_start, event),
            // The segment may be gone when this is read.
            SHMGET => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.segments.insert(result, second);
                }
            }
            SHMAT => {
                let known = self.kernel.as_ref().and_then(|kernel| kernel.segments.get(&first).copied());
                let bytes = known.unwrap_or_else(|| length_at(row.pid, result)).next_multiple_of(PAGE);
                (row.address, row.bytes) = (Some(result), Some(bytes));
                let writes = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
                self.map_end(writer, Event { bytes, extra: writes << 32 | shared, ..event });
            }
            SHMDT => {
                row.bytes = None;
                let event = Event { address: first, bytes: 0, ..event };
                self.map_begin(writer, Event { kind: Wire::UnmapBegin, ..event });
                self.unmap_end(writer, Event { kind: Wire::UnmapEnd, bytes: 1, ..event });
            }
            // What it gives back stays live: the mapping is still the program's.
            _ => {}
        }
    }

    fn unmapped(&mut self, writer: u32, process: u32, ns: u64, event: Event) {
        let end = event.address.saturating_add(event.bytes);
        if let Some(kernel) = &mut self.kernel {
            kernel.owed.retain(|owed| ns.saturating_sub(owed.since) < AWAITED_NS);
            let paid = |owed: &Owed| {
                owed.process == process && owed.start >= event.address && owed.end <= end && owed.since <= ns
            };
            if let Some(index) = kernel.owed.iter().position(paid) {
                kernel.owed.swap_remove(index);
                return;
            }
        }
        self.map_begin(writer, Event { kind: Wire::UnmapBegin, ..event });
        self.unmap_end(writer, Event { kind: Wire::UnmapEnd, ..event });
    }

    /// The kernel gives out no place that is taken: what is known to lie there has been unmapped, as is yet to be told.
    fn owe(&mut self, process: u32, start: u64, bytes: u64, ns: u64) {
        let end = start.saturating_add(bytes);
        let taken = self.overlap(process, start, bytes);
        if let (Some((from, to)), Some(kernel)) = (taken, &mut self.kernel) {
            kernel.owed.push(Owed { process, start: from.max(start), end: to.min(end), since: ns });
        }
    }

    fn moved_break(&mut self, writer: u32, process: u32, result: u64, start: u64, event: Event) {
        let now = result.next_multiple_of(PAGE);
        let pid = self.processes[process as usize].row.pid;
        let Some(kernel) = &mut self.kernel else { return };
        let Some(image) = kernel.images.latest(pid) else { return };
        // A program that was running when it was first seen has moved it before.
        let first = if image.executed { Some(start.next_multiple_of(PAGE)) } else { break_of(pid) };
        let before = image.program_break.or(first).unwrap_or(now);
        image.program_break = Some(now);
        if now > before {
            let writes = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let extra = BREAK | writes << 32 | private;
            self.map_end(writer, Event { address: before, bytes: now - before, extra, ..event });
        } else if now < before {
            let event = Event { address: now, bytes: before - now, ..event };
            self.map_begin(writer, Event { kind: Wire::UnmapBegin, ..event });
            self.unmap_end(writer, Event { kind: Wire::UnmapEnd, ..event });
        }
    }
}

fn name(number: u32) -> &'static str {
    match number {
        MMAP => "mmap",
        MUNMAP => "munmap",
        BRK => "brk",
        MREMAP => "mremap",
        MADVISE => "madvise",
        SHMGET => "shmget",
        SHMAT => "shmat",
        SHMDT => "shmdt",
        _ => "call",
    }
}

/// Length of the mapping that begins at an address, by /proc; 0 if it is gone.
fn length_at(pid: u32, address: u64) -> u64 {
    let text = maps::read(pid);
    maps::parse(&text).find(|listed| listed.start == address).map_or(0, |listed| listed.bytes())
}
