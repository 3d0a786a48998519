//! Which blocks are used between one large allocation, or release, and the next: pages that were
//! accessed since their bits were cleared (`clear_refs` and `smaps`, proc_pid_smaps(5)). To clear them
//! does not flush the processors' translations, and a page that has one of these is accessed without a
//! trace: huge pages keep theirs for long. So they are flushed ([`flush`](super::flush)).
//!
//! To look takes 0.2 µs for each page of the program. It is done so often that it takes half of the
//! time at most. How much of a block was written, some of its pages say ([`written`](super::written)).
//! Before a block is released that was there at the last look, it is done in any case, if it
//! takes no more than an eighth of the time: afterwards it would be too late. What other threads access
//! while it is looked may be missed.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use memtrace_wire::event::Kind;

use super::lock::Lock;
use super::mapping::Mapping;
use super::written::Sample;
use super::{flush, own};
use crate::ring::record;
use crate::{sandbox, sys};

static IS_ON: AtomicBool = AtomicBool::new(false);
static LOOKS: AtomicU32 = AtomicU32::new(0);
/// Mark of the block that was allocated last.
static ALLOCATED: AtomicU32 = AtomicU32::new(0);
static WATCH: Lock<Watch> = Lock::new(Watch::NEW);

/// Which pages' bits are cleared.
const ANONYMOUS: &[u8] = b"2";
/// To look once is expected to take so long.
const FIRST_NS: u64 = 1_000_000;
/// The longest line that is understood.
const LINE: usize = 96;

/// What the program does after a look.
#[derive(Clone, Copy, PartialEq)]
enum Follows {
    Work,
    /// It releases the block at this address.
    Release(usize),
    End,
}

struct Watch {
    buffer: [u8; 16 * 1024],
    line: [u8; LINE],
    filled: usize,
    /// The block whose lines follow.
    block: Option<Mapping>,
    /// Bytes of it that were used, of the mappings so far: advice on a part of it makes several.
    used: usize,
    /// The same that are in memory and clean.
    clean: usize,
    /// What was ever touched of it: in memory or in swap.
    touched: usize,
    /// /proc/self/pagemap.
    pagemap: usize,
    follows: Follows,
    /// When it is looked again, at the earliest.
    due_ns: u64,
    /// How long it takes.
    takes_ns: u64,
    /// When it was begun, and what looks before releases have taken.
    begun_ns: u64,
    extra_ns: u64,
}

/// Looks from now on.
pub fn begin() {
    IS_ON.store(flush::begin(), Ordering::Relaxed);
}

/// How often it was looked: a block's mark.
pub fn looks() -> u32 {
    LOOKS.load(Ordering::Relaxed)
}

/// Looks, unless that was done just now, and says which blocks were used.
pub fn look() {
    if IS_ON.load(Ordering::Relaxed) {
        WATCH.with(|watch| watch.look(false, Follows::Work));
    }
}

/// The same before the block with this mark, at this address, is released.
pub fn look_before_release(mark: u32, block: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        let allocated_since = ALLOCATED.load(Ordering::Relaxed) == looks();
        let in_any_case = allocated_since && mark != looks();
        WATCH.with(|watch| watch.look(in_any_case, Follows::Release(block)));
    }
}

/// Looks in any case.
pub fn look_at_the_end() {
    if IS_ON.load(Ordering::Relaxed) {
        WATCH.with(|watch| {
            watch.extra_ns = 0;
            watch.look(true, Follows::End);
        });
    }
}

/// A block with this mark was allocated.
pub fn allocated(mark: u32) {
    ALLOCATED.store(mark, Ordering::Relaxed);
}

impl Watch {
    const NEW: Watch = Watch {
        buffer: [0; _],
        line: [0; _],
        filled: 0,
        block: None,
        used: 0,
        clean: 0,
        touched: 0,
        pagemap: 0,
        follows: Follows::Work,
        due_ns: 0,
        takes_ns: FIRST_NS,
        begun_ns: 0,
        extra_ns: 0,
    };

    fn look(&mut self, in_any_case: bool, follows: Follows) {
        // A filter might end the program for a system call.
        if sandbox::is_filtered() {
            return;
        }
        let begin = sys::monotonic_ns();
        if self.begun_ns == 0 {
            self.begun_ns = begin;
        }
        let is_due = begin >= self.due_ns;
        let may_be_extra = in_any_case && self.extra_ns <= (begin - self.begun_ns) / 8;
        if !is_due && !may_be_extra {
            return;
        }
        self.follows = follows;
        // SAFETY: C strings.
        let is_read = unsafe {
            sys::with_file(c"/proc/self/pagemap".as_ptr(), |pagemap| {
                self.pagemap = pagemap;
                sys::with_file(c"/proc/self/smaps".as_ptr(), |file| self.read(file))
            })
        };
        if is_read.flatten().is_some() && sys::write_file(c"/proc/self/clear_refs", ANONYMOUS) {
            flush::translations();
            record::event(Kind::Used, 0, 0, 0);
            LOOKS.fetch_add(1, Ordering::Relaxed);
        }
        let end = sys::monotonic_ns();
        // What took long because other work had the processor is no reason to look less often.
        self.takes_ns = (end - begin).min(self.takes_ns + self.takes_ns / 2);
        self.due_ns = end + self.takes_ns;
        self.extra_ns += if is_due { 0 } else { end - begin };
    }

    fn read(&mut self, file: usize) {
        (self.filled, self.block) = (0, None);
        (self.used, self.clean, self.touched) = (0, 0, 0);
        loop {
            let read = sys::read(file, &mut self.buffer);
            if read == 0 {
                return self.say();
            }
            for index in 0..read {
                let byte = self.buffer.get(index).copied().unwrap_or(0);
                self.add(byte);
            }
        }
    }

    fn add(&mut self, byte: u8) {
        if byte == b'\n' {
            self.line();
            self.filled = 0;
        } else if let Some(place) = self.line.get_mut(self.filled) {
            *place = byte;
            self.filled += 1;
        }
    }

    fn line(&mut self) {
        let line = self.line.get(..self.filled).unwrap_or(&[]);
        if line.first().is_some_and(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()) {
            self.enter(number(line, 16));
        } else if self.block.is_some() {
            let bytes_of = |name: &[u8]| {
                let value = line.strip_prefix(name).map(<[u8]>::trim_ascii_start);
                value.map_or(0, |value| number(value, 10).wrapping_mul(1024))
            };
            self.used = self.used.wrapping_add(bytes_of(b"Referenced:"));
            let clean = bytes_of(b"Private_Clean:").wrapping_add(bytes_of(b"Shared_Clean:"));
            self.clean = self.clean.wrapping_add(clean);
            let touched = bytes_of(b"Rss:").wrapping_add(bytes_of(b"Swap:"));
            self.touched = self.touched.wrapping_add(touched);
        }
    }

    /// The lines of a mapping that begins here follow.
    fn enter(&mut self, begins: usize) {
        if let Some(block) = &self.block
            && block.start < begins
            && begins < block.start + block.length
        {
            return;
        }
        self.say();
        self.block = own::get(begins);
    }

    /// All mappings of a block are known.
    fn say(&mut self) {
        let (used, clean) = (core::mem::take(&mut self.used), core::mem::take(&mut self.clean));
        let touched = core::mem::take(&mut self.touched);
        let Some(block) = self.block.take().filter(|_| used != 0) else { return };
        let start = block.start;
        let sample = Sample::of(block, self.pagemap);
        record::event(Kind::Used, start, used, sample.written(touched, clean) as u64);
        if self.follows != Follows::End && self.follows != Follows::Release(start) {
            sample.send(clean);
        }
    }
}

/// The number that a text begins with.
fn number(text: &[u8], base: u32) -> usize {
    let digits = text.iter().map_while(|byte| char::from(*byte).to_digit(base));
    digits.fold(0usize, |number, digit| number.wrapping_mul(base as usize).wrapping_add(digit as usize))
}
