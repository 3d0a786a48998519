//! System calls that map memory, of processes that no probe is in: reported once they have
//! returned.

use memtrace_ebpf::Call;
use memtrace_trace::rows::KernelEventRow;
use memtrace_wire::arch::page::bytes as page_bytes;
use memtrace_wire::event::{BREAK, Event, Kind as Wire};

use crate::record::procfs::maps;

const MMAP: u32 = libc::SYS_mmap as u32;
const MUNMAP: u32 = libc::SYS_munmap as u32;
const BRK: u32 = libc::SYS_brk as u32;
const MREMAP: u32 = libc::SYS_mremap as u32;
const MADVISE: u32 = libc::SYS_madvise as u32;
const SHMGET: u32 = libc::SYS_shmget as u32;
const SHMAT: u32 = libc::SYS_shmat as u32;
const SHMDT: u32 = libc::SYS_shmdt as u32;

const READ_WRITE: u64 = ((libc::PROT_READ | libc::PROT_WRITE) as u64) << 32;

/// What a call that succeeded has done, as events of the kinds that a probe sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapCall {
    /// It mapped memory anywhere.
    Map(Event),
    /// It mapped memory in place of whatever was there.
    MapFixed(Event),
    /// It unmapped a range.
    Unmap(Event),
    /// It moved or resized a mapping: the range from which, and where to.
    Remap {
        /// Address and length of the old range.
        from: Event,
        /// The new one.
        to: Event,
    },
    /// It moved the program break.
    Break {
        /// The end of the heap.
        end: u64,
        /// Where the heap began.
        start: u64,
    },
    /// It named a System V segment.
    Segment {
        /// The segment's id.
        id: u64,
        /// Its length.
        bytes: u64,
    },
    /// It attached a segment, whose length is still to be found out.
    Attach {
        /// The segment's id.
        id: u64,
        /// Where.
        event: Event,
    },
    /// It detached the segment at an address.
    Detach(Event),
    /// Memory that it has released stays live: the mapping is still the program's.
    Other,
}

impl MapCall {
    /// What the call did at that stamp; `None` if it failed. The row says which call it was.
    pub fn of(call: &Call, stamp: u64, row: &mut KernelEventRow) -> Option<MapCall> {
        let [first, second, third, fourth, ..] = call.arguments;
        row.event = name(call.number).into();
        (row.address, row.bytes, row.value) = (Some(first), Some(second), Some(call.result));
        if (-4095..0).contains(&call.result) {
            return None;
        }
        let result = call.result as u64;
        let event = Event { kind: Wire::MapEnd, stamp, address: result, bytes: second, extra: 0, stack: 0 };
        Some(match call.number {
            MMAP => {
                let event = Event { extra: third << 32 | fourth & 0xffff_ffff, ..event };
                match fourth & libc::MAP_FIXED as u64 {
                    0 => MapCall::Map(event),
                    _ => MapCall::MapFixed(event),
                }
            }
            MUNMAP => MapCall::Unmap(Event { kind: Wire::UnmapEnd, address: first, ..event }),
            MREMAP => MapCall::Remap {
                from: Event { kind: Wire::RemapBegin, address: first, extra: third, ..event },
                to: Event { kind: Wire::RemapEnd, bytes: third, extra: fourth, ..event },
            },
            BRK => MapCall::Break { end: result.next_multiple_of(page_bytes()), start: call.break_start },
            SHMGET => MapCall::Segment { id: result, bytes: second },
            SHMAT => {
                let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
                MapCall::Attach { id: first, event: Event { extra: READ_WRITE | shared, ..event } }
            }
            SHMDT => {
                row.bytes = None;
                MapCall::Detach(Event { kind: Wire::UnmapEnd, address: first, bytes: 0, ..event })
            }
            _ => MapCall::Other,
        })
    }

    /// The call that grew or shrank the heap, from where its end was before.
    pub fn of_break(before: u64, now: u64, stamp: u64) -> MapCall {
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let extra = BREAK | READ_WRITE | private;
        let event = Event { kind: Wire::MapEnd, stamp, address: before, bytes: 0, extra, stack: 0 };
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => MapCall::Map(Event { bytes: now - before, ..event }),
            std::cmp::Ordering::Less => {
                let (address, bytes) = (now, before - now);
                MapCall::Unmap(Event { kind: Wire::UnmapEnd, address, bytes, extra: 0, ..event })
            }
            std::cmp::Ordering::Equal => MapCall::Other,
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
pub fn length_at(pid: u32, address: u64) -> u64 {
    let text = maps::read(pid);
    maps::parse(&text).find(|listed| listed.start == address).map_or(0, |listed| listed.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u32, arguments: [u64; 4], result: i64) -> (Option<MapCall>, KernelEventRow) {
        let [first, second, third, fourth] = arguments;
        let arguments = [first, second, third, fourth, 0, 0];
        let mut row = KernelEventRow::default();
        let found = MapCall::of(&Call { number, arguments, result, break_start: 0 }, 7, &mut row);
        (found, row)
    }

    #[test]
    fn a_call_that_failed_has_a_row_and_changes_nothing() {
        let (found, row) = call(MUNMAP, [4096, 8192, 0, 0], -22);
        assert_eq!((found, row.event.as_str(), row.value), (None, "munmap", Some(-22)));
    }

    #[test]
    fn a_fixed_mapping_replaces_what_was_there() {
        let fixed = |flags: i32| {
            matches!(call(MMAP, [0, 4096, 3, flags as u64], 1 << 20).0, Some(MapCall::MapFixed(_)))
        };
        assert!(!fixed(libc::MAP_PRIVATE));
        assert!(fixed(libc::MAP_PRIVATE | libc::MAP_FIXED));
    }

    #[test]
    fn the_heap_grows_and_shrinks_at_its_end() {
        let range = |before, now| match MapCall::of_break(before, now, 0) {
            MapCall::Map(event) => (1, event.address, event.bytes),
            MapCall::Unmap(event) => (-1, event.address, event.bytes),
            _ => (0, 0, 0),
        };
        assert_eq!(range(4096, 12288), (1, 4096, 8192));
        assert_eq!(range(12288, 4096), (-1, 4096, 8192));
        assert_eq!(range(4096, 4096), (0, 0, 0));
    }
}
