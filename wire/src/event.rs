//! Events as 64-bit words, always an even number of them. What a program does all the time takes
//! two, a release and an acquire of less than [`COMPACT_BYTES`]:
//!
//! ```text
//! 63 62  61 60            44 43                             0
//! +--+-----+----------------+-------------------------------+
//! |1 | call|  bytes         |  address, the lowest bits off |  word 0
//! +--+-----+----------------+---------+----------+----------+
//! |  stamp, its lower 54 bits                    |  stack   |  word 1
//! +----------------------------------------------+----------+
//! ```
//!
//! In all others the first word holds the kind in its top 8 bits and an address (or a span's id) in
//! the lower 56, the second the stamp; what follows depends on the kind:
//!
//! ```text
//! 63     56 55                                             0
//! +--------+-----------------------------------------------+
//! |  kind  |  address / span id                            |  word 0
//! +--------+-----------------------------------------------+
//! |  stamp                                                 |  word 1
//! +------+---------+---------------------------------------+
//! | tier |  stack  |  bytes                                |  word 2   acquires, begins with a length
//! +------+---------+---------------------------------------+
//! |  extra: prot and flags, the new length, touched bytes   |  word 3   mappings
//! +--------------------------------------------------------+
//! |  text, zero-padded …                                   |  spans, exec, stacks, devices: word 2 is its length in bytes
//! +--------------------------------------------------------+
//! ```
//!
//! `stack` is the number under which the writer has described the call stack of
//! what it acquires, 0 for none.

use crate::arch::address::ZERO_BITS;

/// Most bytes of text an event carries.
pub const TEXT_MAX: usize = 60 * 1024;
/// Most words of an event.
pub const EVENT_WORDS_MAX: usize = 4 + TEXT_MAX.div_ceil(8);

const ADDRESS_BITS: u32 = 56;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
const BYTES_BITS: u32 = 50;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;
/// `bytes` of an end event whose call failed.
pub const FAILED: u64 = BYTES_MASK;
/// Bits of a stack's number.
pub const STACK_BITS: u32 = 10;
const STACK_MASK: u64 = (1 << STACK_BITS) - 1;

const COMPACT: u64 = 1 << 63;
const COMPACT_ADDRESS_BITS: u32 = 44;
const COMPACT_ADDRESS_MASK: u64 = (1 << COMPACT_ADDRESS_BITS) - 1;
const COMPACT_CALL_SHIFT: u32 = 61;
/// Acquires of fewer bytes take two words, if their address has enough bits that are zero
/// ([`ZERO_BITS`]).
pub const COMPACT_BYTES: usize = 1 << (COMPACT_CALL_SHIFT - COMPACT_ADDRESS_BITS);

/// Bit of [`Kind::MapEnd`]'s extra: the heap's own allocator (jemalloc, mimalloc, tcmalloc) mapped
/// this. Its blocks are recorded themselves, so the mapping is not live memory of its own.
pub const ARENA: u64 = 1 << 63;
/// Bit of [`Kind::MapEnd`]'s extra: `brk` or `sbrk` moved the program break up over this range.
pub const BREAK: u64 = 1 << 62;

/// [`Kind::Object`]: the device of segments (shmget(2)), which no file system has.
pub const SEGMENTS: u64 = FAILED - 1;

/// [`Kind::Ending`]: the process exits.
pub const ENDING_EXIT: u64 = 0;
/// [`Kind::Ending`]: the process is about to execute another program.
pub const ENDING_EXEC: u64 = 1;
/// Bit of [`Kind::Ending`]: the writer waits for its slot's `awaits_sample`.
pub const ENDING_WAITS: u64 = 1 << 8;

/// [`Kind::Python`]: its frames and functions are read.
pub const PYTHON_READ: u64 = 0;
/// [`Kind::Python`]: not a version whose frames can be read.
pub const PYTHON_VERSION: u64 = 1;
/// [`Kind::Python`]: a debug build (`--with-pydebug`).
pub const PYTHON_DEBUG: u64 = 2;
/// [`Kind::Python`]: a free-threaded build (`--disable-gil`).
pub const PYTHON_FREE_THREADED: u64 = 3;
/// [`Kind::Python`]: PyPy.
pub const PYTHON_PYPY: u64 = 4;
/// [`Kind::Python`]: the executable defines `malloc` itself, so that nothing was looked up; whether
/// it is an interpreter is not known.
pub const PYTHON_OWN_ALLOCATOR: u64 = 5;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `malloc` returned.
    Malloc = 1,
    /// `calloc` returned.
    Calloc = 2,
    /// An aligned allocation returned.
    Aligned = 3,
    /// `free` is about to be called.
    Free = 4,
    /// `realloc` of a live block is about to be called.
    ReallocBegin = 5,
    /// It returned: address 0 and bytes 0: the block was freed; bytes [`FAILED`]: it is still live.
    ReallocEnd = 6,
    /// `realloc(NULL, n)` returned.
    ReallocNew = 7,
    /// `mmap` with `MAP_FIXED` is about to be called on this range.
    MapBegin = 8,
    /// `mmap` returned; extra = prot << 32 | flags. bytes [`FAILED`]: it failed.
    MapEnd = 9,
    /// `munmap` is about to be called, or what else releases a range; bytes 0: `shmdt`, all that
    /// was attached together at this address.
    UnmapBegin = 10,
    /// It returned; bytes [`FAILED`]: nothing changed.
    UnmapEnd = 11,
    /// `mremap` is about to be called: bytes = old length, extra = new length.
    RemapBegin = 12,
    /// It returned: bytes = new length, extra = flags; bytes [`FAILED`]: nothing changed.
    RemapEnd = 13,
    /// A span begins.
    SpanBegin = 14,
    /// A span ends.
    SpanEnd = 15,
    /// Reserved: a sampled memory access.
    Access = 16,
    /// A block gets this memory, or this range of it is moved: extra as in
    /// [`Done`](crate::placement::Done). At address 0: the program
    /// allocates other blocks than the plan has, no more are placed.
    Placement = 17,
    /// The process is about to end: address = [`ENDING_EXIT`] or [`ENDING_EXEC`], with
    /// [`ENDING_WAITS`]; bytes = its largest resident size so far.
    Ending = 18,
    /// The process whose pid is the address is about to execute the program that the text names.
    Exec = 19,
    /// It could not.
    ExecFailed = 20,
    /// `posix_spawn` made the process whose pid is the address; the text names its program.
    Spawned = 21,
    /// This many bytes (extra) of this range are in memory, and a call that follows may drop them.
    Touched = 22,
    /// This many bytes of the block at this address were used since the last event with address 0:
    /// all blocks that were used have been named. So many bytes of it (extra) were written.
    Used = 23,
    /// A garbage collection begins on this thread: bytes = generation.
    CollectBegin = 24,
    /// It ended: bytes = generation; address 1 if it examined every generation.
    CollectEnd = 25,
    /// bytes 1: the process's garbage collector is watched from now on; 0:
    /// its interpreter shuts down.
    Collector = 26,
    /// A call stack: acquires of this writer that bear the number `address` have it, until another
    /// one is described under that number. Text as in [`stack`](crate::stack).
    Frames = 28,
    /// A Python code object that stacks refer to; text as in [`stack`](crate::stack).
    PythonCode = 29,
    /// An executable or library that is mapped; text as in [`stack`](crate::stack).
    Module = 30,
    /// From now on the address, a span's id that no span has, stands for the
    /// span that this thread is in.
    SpanExport = 31,
    /// This thread works for the span that the address stands for from now on (0: it goes on with
    /// what it did before); bytes 1: no other thread will adopt it.
    SpanAdopt = 32,
    /// This thread goes on in a context that is in the span with this id; 0: in none of its own.
    SpanActivate = 33,
    /// A device's memory was acquired; this and the kinds below have texts as in
    /// [`device`](crate::device).
    DeviceAcquire = 34,
    /// A device's memory is about to be released: a block by its address, physical memory by its
    /// `owner`, a pool, which its blocks may outlive, by its `owner` and
    /// [`Memory::Pool`](crate::device::Memory::Pool) at address 0.
    DeviceRelease = 35,
    /// The release that this thread reported last of this block has failed: it is still live.
    DeviceReleaseFailed = 36,
    /// A range was unmapped (`cuMemUnmap`): every mapped range in `bytes` from the address on.
    DeviceUnmap = 37,
    /// What a pool (`owner`) has reserved and handed out now.
    DevicePool = 38,
    /// A context, or all of a device in this process (context 0), is destroyed, and with it what
    /// belonged to it.
    DeviceEnd = 39,
    /// The program has begun to use a device: its memory and its name.
    DeviceFound = 40,
    /// A framework has handed out a block (`bytes` > 0) or taken it back (`bytes` 0).
    DeviceBlock = 41,
    /// The program itself has ended: `main` has returned, or `__main__` of an interpreter, or
    /// `exit` was called. What follows only tidies up.
    MainEnded = 42,
    /// A call was refused memory (ENOMEM): bytes = how much it requested; extra = the process's
    /// limit on address space (RLIMIT_AS).
    Refused = 43,
    /// A Python interpreter runs, or is there: address = how far it can be read
    /// ([`PYTHON_READ`] and so on), bytes = its version as major << 8 | minor, 0 if not known.
    Python = 44,
    /// `mprotect` has made a range accessible to write to, or not accessible at all; extra = prot.
    Protect = 45,
    /// What this thread maps next is of an object that processes share: address = its inode, bytes
    /// = its device (of a segment its id and [`SEGMENTS`]), extra = where the mapping begins in it.
    Object = 46,
}

impl Kind {
    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Kind> {
        use Kind::*;
        Some(match code {
            1 => Malloc,
            2 => Calloc,
            3 => Aligned,
            4 => Free,
            5 => ReallocBegin,
            6 => ReallocEnd,
            7 => ReallocNew,
            8 => MapBegin,
            9 => MapEnd,
            10 => UnmapBegin,
            11 => UnmapEnd,
            12 => RemapBegin,
            13 => RemapEnd,
            14 => SpanBegin,
            15 => SpanEnd,
            17 => Placement,
            18 => Ending,
            19 => Exec,
            20 => ExecFailed,
            21 => Spawned,
            22 => Touched,
            23 => Used,
            24 => CollectBegin,
            25 => CollectEnd,
            26 => Collector,
            28 => Frames,
            29 => PythonCode,
            30 => Module,
            31 => SpanExport,
            32 => SpanAdopt,
            33 => SpanActivate,
            34 => DeviceAcquire,
            35 => DeviceRelease,
            36 => DeviceReleaseFailed,
            37 => DeviceUnmap,
            38 => DevicePool,
            39 => DeviceEnd,
            40 => DeviceFound,
            41 => DeviceBlock,
            42 => MainEnded,
            43 => Refused,
            44 => Python,
            45 => Protect,
            46 => Object,
            _ => return None,
        })
    }

    /// Words of an event of this kind that mean something, without its text.
    #[inline(always)]
    pub const fn words(self) -> usize {
        match self {
            Kind::Free
            | Kind::ReallocBegin
            | Kind::ExecFailed
            | Kind::SpanExport
            | Kind::SpanActivate
            | Kind::MainEnded => 2,
            Kind::MapEnd
            | Kind::RemapBegin
            | Kind::RemapEnd
            | Kind::Touched
            | Kind::Used
            | Kind::Refused
            | Kind::Protect
            | Kind::Placement
            | Kind::Object => 4,
            _ => 3,
        }
    }

    /// Words that an event of this kind takes with a text of this many bytes: an even number.
    #[inline(always)]
    pub const fn size(self, text_bytes: usize) -> usize {
        (self.words() + text_bytes.div_ceil(8)).next_multiple_of(2)
    }

    /// What stands for the kind in two words.
    const fn call(self) -> Option<u64> {
        match self {
            Kind::Malloc => Some(0),
            Kind::Calloc => Some(1),
            Kind::Aligned => Some(2),
            Kind::ReallocNew => Some(3),
            _ => None,
        }
    }

    /// True if the third word is the length of a text that follows.
    pub const fn has_text(self) -> bool {
        matches!(
            self,
            Kind::SpanBegin
                | Kind::SpanEnd
                | Kind::Exec
                | Kind::Spawned
                | Kind::Frames
                | Kind::PythonCode
                | Kind::Module
        ) || self.is_device()
    }

    /// True for what the CUDA probe reports.
    pub const fn is_device(self) -> bool {
        matches!(
            self,
            Kind::DeviceAcquire
                | Kind::DeviceRelease
                | Kind::DeviceReleaseFailed
                | Kind::DeviceUnmap
                | Kind::DevicePool
                | Kind::DeviceEnd
                | Kind::DeviceFound
                | Kind::DeviceBlock
        )
    }
}

/// The kinds of acquires that take two words, in the order of what stands for them there.
pub const CALLS: [Kind; 4] = [Kind::Malloc, Kind::Calloc, Kind::Aligned, Kind::ReallocNew];

/// An event without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// Address of the block, id of the span, or pid.
    pub address: u64,
    /// When, in the segment's clock.
    pub stamp: u64,
    /// Bytes; with a text: its length. 0 where the kind has none.
    pub bytes: u64,
    /// Fourth word, 0 where the kind has none.
    pub extra: u64,
    /// Number of the call stack of what is acquired, 0 if there is none.
    pub stack: u16,
}

/// The first word of an acquire that takes two; `None` if it needs more.
#[inline(always)]
pub const fn compact(kind: Kind, address: usize, bytes: usize) -> Option<u64> {
    let Some(call) = kind.call() else { return None };
    // What must be zero is above the rest then.
    let place = (address as u64).rotate_right(ZERO_BITS);
    if bytes >= COMPACT_BYTES || place > COMPACT_ADDRESS_MASK {
        return None;
    }
    let bytes = (bytes as u64) << COMPACT_ADDRESS_BITS;
    Some(COMPACT | call << COMPACT_CALL_SHIFT | bytes | place)
}

/// The second word of an acquire that takes two.
#[inline(always)]
pub const fn compact_stamp(stamp: u64, stack: u16) -> u64 {
    stamp << STACK_BITS | stack as u64 & STACK_MASK
}

/// The first word of an event that is no compact acquire.
#[inline(always)]
pub const fn first_word(kind: Kind, address: u64) -> u64 {
    (kind as u64) << ADDRESS_BITS | address & ADDRESS_MASK
}

/// The address of an event in two words, by its first.
#[inline(always)]
pub const fn pair_address(first: u64) -> u64 {
    if first & COMPACT != 0 { (first & COMPACT_ADDRESS_MASK) << ZERO_BITS } else { first & ADDRESS_MASK }
}

/// A release of a heap block, or an acquire in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Which call acquired it, as its place among [`CALLS`]; `None` for a release.
    pub call: Option<u8>,
    /// The block.
    pub address: u64,
    /// Its bytes; 0 for a release.
    pub bytes: u64,
    /// When, in the segment's clock.
    pub stamp: u64,
    /// Number of the call stack, 0 if there is none.
    pub stack: u16,
}

impl Pair {
    /// Reads two words; `None` if they are the begin of another event. `near`
    /// is as for [`Event::decode`].
    #[inline(always)]
    pub fn decode(first: u64, second: u64, near: u64) -> Option<Pair> {
        if first & COMPACT != 0 {
            let ahead = (second >> STACK_BITS).wrapping_sub(near) << STACK_BITS;
            return Some(Pair {
                call: Some((first >> COMPACT_CALL_SHIFT & 3) as u8),
                address: (first & COMPACT_ADDRESS_MASK) << ZERO_BITS,
                bytes: first >> COMPACT_ADDRESS_BITS & (COMPACT_BYTES as u64 - 1),
                // Sign-extended: it may lie before `near`.
                stamp: near.wrapping_add_signed(ahead as i64 >> STACK_BITS),
                stack: (second & STACK_MASK) as u16,
            });
        }
        let free = first >> ADDRESS_BITS == Kind::Free as u64;
        free.then_some(Pair { call: None, address: first & ADDRESS_MASK, bytes: 0, stamp: second, stack: 0 })
    }
}

impl Event {
    /// Its first word, if it can be written in two.
    #[inline(always)]
    pub fn compact(&self) -> Option<u64> {
        match self.kind {
            Kind::Free => Some(first_word(Kind::Free, self.address)),
            kind => compact(kind, self.address as usize, self.bytes as usize),
        }
    }

    /// The event's words; only the first [`Kind::words`] count.
    #[inline(always)]
    pub fn encode(&self) -> [u64; 4] {
        let stack = (u64::from(self.stack) & STACK_MASK) << BYTES_BITS;
        [first_word(self.kind, self.address), self.stamp, stack | self.bytes & BYTES_MASK, self.extra]
    }

    /// Reads the event that `words` begin with, and how many words it takes with its text.
    /// `near` is a stamp at most 2⁵³ ticks from the event's own (34 days at 3 GHz): the stamp
    /// of the event before it will do. `None` if these words were not written by
    /// [`Event::encode`] or [`compact`].
    #[inline(always)]
    pub fn decode(words: &[u64], near: u64) -> Option<(Event, usize)> {
        let [first, second, rest @ ..] = words else { return None };
        let Some(pair) = Pair::decode(*first, *second, near) else {
            return Event::decode_long(*first, *second, rest);
        };
        let Pair { call, address, bytes, stamp, stack } = pair;
        let kind = call.map_or(Kind::Free, |call| CALLS[call as usize & 3]);
        Some((Event { kind, address, stamp, bytes, extra: 0, stack }, 2))
    }

    #[inline]
    fn decode_long(first: u64, stamp: u64, rest: &[u64]) -> Option<(Event, usize)> {
        let kind = Kind::from_code((first >> ADDRESS_BITS) as u8)?;
        let fixed = kind.words();
        let third = if fixed > 2 { *rest.first()? } else { 0 };
        let extra = if fixed > 3 { *rest.get(1)? } else { 0 };
        let bytes = third & BYTES_MASK;
        let text = if kind.has_text() { bytes as usize } else { 0 };
        if text > TEXT_MAX || rest.len() + 2 < kind.size(text) {
            return None;
        }
        let stack = (third >> BYTES_BITS & STACK_MASK) as u16;
        let event = Event { kind, address: first & ADDRESS_MASK, stamp, bytes, extra, stack };
        Some((event, kind.size(text)))
    }
}
