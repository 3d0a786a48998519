//! Stacks that a thread has seen, each with every word that its unwinding has read.
//!
//! Unwinding is a function of where it begins and of the words it reads, one after the other: the
//! first address follows from the program counter and the stack pointer, each later one from the
//! words before it. So if all words are what they were, the stack is what it was. And each read is
//! of memory that the words before it prove to be in use, so that checking can do no more harm than
//! unwinding itself.
//!
//! Stacks that begin alike share what they begin with: an entry holds the words from where it parts
//! with an older one. Which entry goes on is looked up by the word that differs.

/// A word that unwinding has read.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Where.
    pub address: usize,
    /// What.
    pub word: u64,
}

/// Entries are numbered from 1 to this. Slot numbers of events have ten bits; the last stays free
/// for stacks that are not kept.
pub const ENTRIES: usize = 1022;
/// A number for stacks that are not kept.
pub const NOT_KEPT: u16 = ENTRIES as u16 + 1;
/// Words that all entries have together.
const READS: usize = 32_768;
/// Places to look an entry up at; at most half of them are taken.
const PLACES: usize = 2048;
const _: () = assert!(ENTRIES * 2 <= PLACES && PLACES.is_power_of_two());

/// The table. All zeroes is an empty one.
#[repr(C)]
pub struct Cache {
    /// Entries that are in use.
    entries_used: usize,
    reads_used: usize,
    /// The entry of each place; 0: none.
    entry_at: [u16; PLACES],
    keys: [Key; PLACES],
    entries: [Entry; ENTRIES + 2],
    reads: [Read; READS],
}

/// What an entry is found by: where unwinding begins, or an entry, the place in
/// it and the word found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key(u64, u64);

#[derive(Clone, Copy)]
struct Entry {
    first: u32,
    end: u32,
}

/// A stack that is not known.
#[derive(Debug, Clone, Copy)]
pub struct Missed {
    key: Key,
    /// Words up to the one that differs from the stack it parts with.
    shared: usize,
    begin: Key,
}

impl Key {
    fn begin(counter: usize, sp: usize) -> Key {
        Key(counter as u64, sp as u64)
    }

    /// Addresses have no highest bit.
    fn branch(entry: usize, at: usize, word: u64) -> Key {
        Key(1 << 63 | (entry as u64) << 32 | at as u64, word)
    }

    #[inline(always)]
    fn place(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.0.wrapping_mul(ODD).rotate_left(29) ^ self.1).wrapping_mul(ODD);
        (mixed >> (64 - PLACES.trailing_zeros())) as usize
    }
}

impl Cache {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entry_at.fill(0);
        self.entries_used = 0;
        self.reads_used = 0;
    }

    /// The number of the stack of which `counter` and `sp` are the innermost frame's.
    ///
    /// # Safety
    /// They are a frame of the calling thread; the addresses that were [kept](Cache::keep) are those
    /// that its unwinding has read, in that order.
    #[inline(always)]
    pub unsafe fn find(&self, counter: usize, sp: usize) -> Result<u16, Missed> {
        let begin = Key::begin(counter, sp);
        let (mut key, mut shared) = (begin, 0);
        loop {
            let missed = Missed { key, shared, begin };
            let number = self.look_up(key).ok_or(missed)?;
            let entry = self.entries.get(number).ok_or(missed)?;
            // SAFETY: entries lie in `reads`.
            let (first, end) = unsafe {
                let reads = self.reads.as_ptr();
                (reads.add(entry.first as usize), reads.add(entry.end as usize))
            };
            let mut read = first;
            let word = loop {
                if read == end {
                    return Ok(number as u16);
                }
                // SAFETY: before the entry's end. What it holds was read by unwinding from here,
                // and all words before this one are what they were then: so is the address in use,
                // as it was then.
                unsafe {
                    let word = ((*read).address as *const u64).read_unaligned();
                    if word != (*read).word {
                        break word;
                    }
                    read = read.add(1);
                }
            };
            // SAFETY: both are of the same entry.
            let at = entry.first as usize + unsafe { read.offset_from_unsigned(first) };
            // The word that differs is part of the key.
            shared += at - entry.first as usize + 1;
            key = Key::branch(number, at, word);
        }
    }

    /// Keeps the stack that was missed, with all words that its unwinding has read.
    /// Its number, if it is kept.
    pub fn keep(&mut self, missed: &Missed, reads: &[Read]) -> Option<u16> {
        let (mut key, mut rest) = (missed.key, reads.get(missed.shared..)?);
        if key != missed.begin && reads.get(missed.shared - 1)?.word != key.1 {
            // Not the words that the entry was made from.
            return None;
        }
        if self.entries_used == ENTRIES || self.reads_used + rest.len() > READS {
            self.clear();
            (key, rest) = (missed.begin, reads);
        }
        let end = self.reads_used + rest.len();
        self.reads.get_mut(self.reads_used..end)?.copy_from_slice(rest);
        let number = self.entries_used + 1;
        *self.entries.get_mut(number)? = Entry { first: self.reads_used as u32, end: end as u32 };
        let mut place = key.place();
        while *self.entry_at.get(place)? != 0 {
            place = (place + 1) % PLACES;
        }
        *self.entry_at.get_mut(place)? = number as u16;
        *self.keys.get_mut(place)? = key;
        (self.entries_used, self.reads_used) = (number, end);
        Some(number as u16)
    }

    #[inline(always)]
    fn look_up(&self, key: Key) -> Option<usize> {
        let mut place = key.place();
        loop {
            let number = usize::from(*self.entry_at.get(place)?);
            if number == 0 {
                return None;
            }
            if *self.keys.get(place)? == key {
                return Some(number);
            }
            place = (place + 1) % PLACES;
        }
    }
}
