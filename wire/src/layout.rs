//! Where things are in the `memfd`s that the tracer creates and recorded processes map.
//!
//! All of them map the settings, and none can write them: what a process runs or relies on is the
//! tracer's alone, which keeps the only writable mapping.
//!
//! ```text
//! 0                [`Settings`]
//! RECORDER_OFFSET  [`Recorder`]    what the tracer is doing
//! TEXT_OFFSET      Python text     NUL-terminated; empty if there is none
//! SETTINGS_BYTES   placement table [`Placement::words`] × 8 bytes
//! ```
//!
//! A segment is written by one program image, by its forked children and by the tracer. Its
//! [`Geometry`] is known beforehand, and nothing in the segment says it again:
//!
//! ```text
//! 0                [`SegmentHeader`]   one page
//! SLOTS_OFFSET     [`Slot`] × slots    one per thread that is being recorded
//! rings()          ring × slots        ring_words × 8 bytes each
//! ```
//!
//! A slot is claimed by a thread (`FREE → CLAIMING → ACTIVE`, compare-and-swap) and freed by the
//! tracer as soon as its owner is gone and its ring is empty. The owner holds the slot's robust
//! mutex: when it dies, whichever way, the kernel sets [`OWNER_DIED`] in the mutex's first word
//! (set_robust_list(2)).

use crate::atomic::{AtomicU32, AtomicU64};
use crate::placement::Placement;

/// First word of the settings: "memtrace" in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"memtrace");
/// Version of everything in this crate; both sides must have the same. The sizes are part of it: a
/// stale probe with a newer tracer must be refused, not misread.
pub const VERSION: u32 = 16 << 24 | FIRST.code() << 12 | FURTHER.code();
/// What an image gets with its first hello. Rings of 512 KiB: of the sizes tried from 64 KiB to
/// 64 MiB, those between 256 KiB and 1 MiB cost a program of one thread least. Eight threads on two
/// processors take turns as long as a ring lasts, with cold caches each time: with 256 KiB their
/// events cost a third more, with 1 MiB a sixth less. Pages that were written to are resident in the
/// program. More slots or longer rings would take more address space, which may be limited
/// (RLIMIT_AS), in the program and in the tracer, which maps the segments of all processes.
pub const FIRST: Geometry = Geometry { slots: 16, ring_words: 1 << 16 };
/// What it gets when all its slots are taken. Threads by the hundred are not at work all at once.
pub const FURTHER: Geometry = Geometry { slots: 128, ring_words: 1 << 13 };
/// Bytes of the settings, with the text and without the table.
pub const SETTINGS_BYTES: usize = 128 * 1024;
/// Offset of what the tracer is doing.
pub const RECORDER_OFFSET: usize = 128;
/// Offset of the Python text.
pub const TEXT_OFFSET: usize = 4096;
/// Offset of the slots.
pub const SLOTS_OFFSET: usize = 4096;
/// Bit of a robust mutex's first word that the kernel sets when its owner dies (FUTEX_OWNER_DIED).
pub const OWNER_DIED: u32 = 0x4000_0000;

/// Stamps are ticks of the processor's counter ([`crate::arch::counter`]).
pub const CLOCK_COUNTER: u32 = 0;
/// Stamps are nanoseconds of `CLOCK_MONOTONIC`, where the counter is not
/// steady.
pub const CLOCK_MONOTONIC: u32 = 1;

/// How large a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Threads that it has room for.
    pub slots: usize,
    /// Words of a ring (a power of two).
    pub ring_words: usize,
}

impl Geometry {
    const fn code(self) -> u32 {
        assert!(self.slots.is_power_of_two() && self.ring_words.is_power_of_two());
        self.slots.trailing_zeros() << 6 | self.ring_words.trailing_zeros()
    }

    /// Offset of the first ring.
    pub const fn rings(self) -> usize {
        SLOTS_OFFSET + self.slots * size_of::<Slot>()
    }

    /// Offset of a slot's ring.
    pub const fn ring(self, slot: usize) -> usize {
        self.rings() + slot * self.ring_words * 8
    }

    /// Bytes of the whole segment; sparse, only touched pages exist.
    pub const fn bytes(self) -> usize {
        self.ring(self.slots)
    }
}

/// A `pthread_mutex_t` (40 bytes on x86-64, 48 on 64-bit Arm) in a cache line of its own.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct RobustMutex {
    /// First word of the mutex: the futex the kernel marks.
    pub futex: AtomicU32,
    rest: [AtomicU32; 15],
}

/// What the tracer has chosen for the recording; it never changes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`CLOCK_COUNTER`] or [`CLOCK_MONOTONIC`].
    pub clock: u32,
    /// [`Sampling::exact_from`](crate::sampling::Sampling::exact_from)
    pub stacks_from: u64,
    /// [`Sampling::mean_bytes`](crate::sampling::Sampling::mean_bytes)
    pub stacks_mean: u64,
    /// Which memory large blocks go to, in images whose segment is [placed](SegmentHeader::placed).
    pub placement: Placement,
}

impl Settings {
    /// To bytes.
    pub fn encode(&self) -> [u8; size_of::<Settings>()] {
        let mut out = [0; size_of::<Settings>()];
        out[0..8].copy_from_slice(&self.magic.to_le_bytes());
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.clock.to_le_bytes());
        out[16..24].copy_from_slice(&self.stacks_from.to_le_bytes());
        out[24..32].copy_from_slice(&self.stacks_mean.to_le_bytes());
        let Placement { words, all, fast, middle, slow, most, most_middle, watch } = self.placement;
        let fields = [words, all, fast, middle, slow, most, most_middle, watch];
        for (bytes, field) in out[32..].chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        out
    }
}

/// What the tracer is doing: probes read it.
#[repr(C)]
pub struct Recorder {
    /// Set when the tracer has stopped reading: probes stop writing.
    pub detached: AtomicU32,
    /// 1 while the tracer sleeps on this word (futex), or is about to. A writer whose ring fills
    /// [rings](SegmentHeader::rung) and wakes it.
    pub sleeping: AtomicU32,
    /// Held by the tracer for as long as it reads.
    pub tracer: RobustMutex,
}

/// Head of a segment.
#[repr(C)]
pub struct SegmentHeader {
    /// Set by a writer before it wakes the tracer, which does not fall asleep after that.
    pub rung: AtomicU32,
    /// One past the highest slot ever claimed.
    pub slots_used: AtomicU32,
    /// Events lost because no slot was free.
    pub lost_without_slot: AtomicU64,
    /// 1 from the beginning if blocks of this image are to be placed.
    pub placed: AtomicU32,
}

/// No thread owns the slot.
pub const FREE: u32 = 0;
/// A thread is filling the slot in.
pub const CLAIMING: u32 = 1;
/// Its owner writes events.
pub const ACTIVE: u32 = 2;

/// The process began by exec (or is the command itself).
pub const ORIGIN_EXEC: u32 = 1;
/// The process began by fork.
pub const ORIGIN_FORK: u32 = 2;

/// The thread of [`Slot::collect`] is not waiting for a request of a garbage collection.
pub const COLLECT_NOT: u32 = 0;
/// It waits (futex) for the word to change.
pub const COLLECT_WAITING: u32 = 1;
/// The tracer requests a collection.
pub const COLLECT_REQUESTED: u32 = 2;
/// The program wants the thread to end.
pub const COLLECT_NO_MORE: u32 = 3;

/// One recorded thread. Fields that different sides write lie on different cache lines.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(256))]
pub struct Slot {
    /// [`FREE`], [`CLAIMING`] or [`ACTIVE`].
    pub state: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Kernel thread id.
    pub tid: AtomicU32,
    /// Parent's process id.
    pub ppid: AtomicU32,
    /// [`ORIGIN_EXEC`] or [`ORIGIN_FORK`].
    pub origin: AtomicU32,
    /// [`COLLECT_NOT`] or, of the thread that collects garbage on request, one of the other three.
    pub collect: AtomicU32,
    /// Stamp at which the process image began: with `pid` it names the image.
    pub image: AtomicU64,
    /// For [`ORIGIN_FORK`]: the image it was forked from.
    pub parent_image: AtomicU64,
    /// Stamp of the claim.
    pub claimed: AtomicU64,
    pad1: [AtomicU64; 2],

    /// Words written and committed since the claim (writer's line).
    pub head: AtomicU64,
    /// 1 from before an event's stamp is taken until it is committed.
    pub open: AtomicU32,
    pad2: AtomicU32,
    /// Events dropped.
    pub lost: AtomicU64,
    /// Nanoseconds the thread waited for the tracer.
    pub waited_ns: AtomicU64,
    /// 1 while the owner, which is about to end, waits for the tracer to sample its process.
    pub awaits_sample: AtomicU32,
    pad3: AtomicU32,
    pad4: [AtomicU64; 3],

    /// Words read (reader's line).
    pub tail: AtomicU64,
    /// 1 while the owner sleeps on this word (futex) until there is room in the ring.
    pub waiting: AtomicU32,
    pad5: AtomicU32,
    pad6: [AtomicU64; 6],

    /// Held by the owner for as long as it lives.
    pub owner: RobustMutex,
}

#[cfg(not(loom))] // the atomics of the model are larger
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Slot, head) == 64 && offset_of!(Slot, tail) == 128 && offset_of!(Slot, owner) == 192);
    assert!(size_of::<Slot>() == 256 && size_of::<SegmentHeader>() <= SLOTS_OFFSET);
    assert!(RECORDER_OFFSET + size_of::<Recorder>() <= TEXT_OFFSET);
    assert!(FIRST.rings().is_multiple_of(4096) && FURTHER.rings().is_multiple_of(4096));
};
const _: () = assert!(size_of::<Settings>() <= RECORDER_OFFSET);
