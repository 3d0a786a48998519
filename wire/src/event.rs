//! Events as 64-bit words. The first word holds the kind in its top 8 bits and an address (or a span's
//! id) in the lower 56, the second the stamp; what follows depends on the kind:
//!
//! ```text
//! 63     56 55                                             0
//! +--------+-----------------------------------------------+
//! |  kind  |  address / span id                            |  word 0
//! +--------+-----------------------------------------------+
//! |  stamp                                                 |  word 1
//! +------+-------------------------------------------------+
//! | tier |  bytes                                          |  word 2   acquires, begins with a length
//! +------+-------------------------------------------------+
//! |  extra: prot and flags, the new length, touched bytes   |  word 3   mappings
//! +--------------------------------------------------------+
//! |  text, zero-padded …                                   |  spans, exec, stacks: word 2 is its length in bytes
//! +--------------------------------------------------------+
//! ```

/// Most bytes of text an event carries.
pub const TEXT_MAX: usize = 60 * 1024;
/// Most words of an event.
pub const EVENT_WORDS_MAX: usize = 3 + TEXT_MAX.div_ceil(8);

const ADDRESS_BITS: u32 = 56;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
const BYTES_MASK: u64 = (1 << 60) - 1;
/// `bytes` of an end event whose call failed.
pub const FAILED: u64 = BYTES_MASK;

/// Bit of [`Kind::MapEnd`]'s extra: the heap's own allocator (jemalloc, mimalloc, tcmalloc) mapped this. Its
/// blocks are recorded themselves, so the mapping is not live memory of its own.
pub const ARENA: u64 = 1 << 63;
/// Bit of [`Kind::MapEnd`]'s extra: `brk` or `sbrk` moved the program break up over this range.
pub const BREAK: u64 = 1 << 62;

/// [`Kind::Ending`]: the process exits.
pub const ENDING_EXIT: u64 = 0;
/// [`Kind::Ending`]: the process is about to execute another program.
pub const ENDING_EXEC: u64 = 1;
/// Bit of [`Kind::Ending`]: the writer waits for its slot's `look`.
pub const ENDING_WAITS: u64 = 1 << 8;

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
    /// `munmap` is about to be called, or what else releases a range; bytes 0: `shmdt`, all that was attached
    /// together at this address.
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
    /// Reserved: a block placed in a memory tier.
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
    /// So many bytes (extra) of this range are in memory, and a call that follows may take them away.
    Touched = 22,
    /// A garbage collection begins on this thread: bytes = generation.
    CollectBegin = 24,
    /// It ended: bytes = generation; address 1 if it looked at every generation.
    CollectEnd = 25,
    /// bytes 1: the process's garbage collector is watched from now on; 0: its interpreter shuts down.
    Collector = 26,
    /// The call stack of the block that the writer's next acquire of `address` names; its text is described
    /// in [`stack`](crate::stack).
    Stack = 28,
    /// A Python code object that stacks refer to; text as in [`stack`](crate::stack).
    PythonCode = 29,
    /// An executable or library that is mapped; text as in [`stack`](crate::stack).
    Module = 30,
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
            18 => Ending,
            19 => Exec,
            20 => ExecFailed,
            21 => Spawned,
            22 => Touched,
            24 => CollectBegin,
            25 => CollectEnd,
            26 => Collector,
            28 => Stack,
            29 => PythonCode,
            30 => Module,
            _ => return None,
        })
    }

    /// Words of an event of this kind, without its text.
    #[inline(always)]
    pub const fn words(self) -> usize {
        match self {
            Kind::Free | Kind::ReallocBegin | Kind::ExecFailed => 2,
            Kind::MapEnd | Kind::RemapBegin | Kind::RemapEnd | Kind::Touched => 4,
            _ => 3,
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
                | Kind::Stack
                | Kind::PythonCode
                | Kind::Module
        )
    }
}

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
}

impl Event {
    /// The event's words; only the first [`Kind::words`] count.
    #[inline(always)]
    pub fn encode(&self) -> [u64; 4] {
        [
            (self.kind as u64) << ADDRESS_BITS | self.address & ADDRESS_MASK,
            self.stamp,
            self.bytes & BYTES_MASK,
            self.extra,
        ]
    }

    /// Reads the event that begins at `position`, and how many words it takes with its text.
    /// `None` if these words were not written by [`Event::encode`].
    #[inline]
    pub fn decode(word: impl Fn(u64) -> u64, position: u64, available: u64) -> Option<(Event, u64)> {
        if available < 2 {
            return None;
        }
        let first = word(position);
        let kind = Kind::from_code((first >> ADDRESS_BITS) as u8)?;
        let fixed = kind.words() as u64;
        if available < fixed {
            return None;
        }
        let bytes = if fixed > 2 { word(position + 2) & BYTES_MASK } else { 0 };
        let extra = if fixed > 3 { word(position + 3) } else { 0 };
        let text = if kind.has_text() { bytes.div_ceil(8) } else { 0 };
        if text > TEXT_MAX as u64 / 8 || available < fixed + text {
            return None;
        }
        let event = Event { kind, address: first & ADDRESS_MASK, stamp: word(position + 1), bytes, extra };
        Some((event, fixed + text))
    }
}
