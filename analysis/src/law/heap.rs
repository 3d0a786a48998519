//! A small model of glibc's `malloc`: which blocks become mappings that vanish when they are
//! released, and what the heap keeps of the others.
//!
//! Rules from mallopt(3) and the comments of glibc's malloc.c (2.26 and later, 64 bits): a request
//! is served from free chunks (best fit), else from the top of the heap, else by a mapping if it is
//! at least the mmap threshold, else by a longer heap. Releasing a mapping of up to 32 MiB raises
//! that threshold to its size and the trim threshold to twice that, unless either was set.
//! Releasing next to the top gives the top back beyond the trim threshold. Arenas of other threads,
//! tcache and fast bins (blocks of some KiB) are left out.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Pages of the system.
const PAGE: u64 = 4096;
/// Bytes before a block in its chunk, and what sizes are rounded to.
const HEADER: u64 = 8;
const ALIGNMENT: u64 = 16;
/// Smallest chunk.
const MIN_CHUNK: u64 = 32;
/// `DEFAULT_MMAP_THRESHOLD`, `DEFAULT_TRIM_THRESHOLD` and `DEFAULT_TOP_PAD`.
const DEFAULT_THRESHOLD: u64 = 128 << 10;
/// `DEFAULT_MMAP_THRESHOLD_MAX`: how far the threshold grows by itself.
pub const MAX_DYNAMIC: u64 = 32 << 20;
/// `FASTBIN_CONSOLIDATION_THRESHOLD`: a smaller free chunk does not make the heap be trimmed.
const TRIMMING_CHUNK: u64 = 64 << 10;

/// What governs the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests of this many bytes and more become mappings.
    pub mmap_threshold: u64,
    /// The heap is trimmed when its free top is at least so long.
    pub trim_threshold: u64,
    /// What is kept of it then, and added when the heap grows.
    pub top_pad: u64,
    /// True if both thresholds follow what is released.
    pub dynamic: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mmap_threshold: DEFAULT_THRESHOLD,
            trim_threshold: DEFAULT_THRESHOLD,
            top_pad: DEFAULT_THRESHOLD,
            dynamic: true,
        }
    }
}

impl Settings {
    /// From what an environment says: `MALLOC_TRIM_THRESHOLD_=65536
    /// GLIBC_TUNABLES=glibc.malloc.top_pad=0`. Setting any of the three, or the number of mappings,
    /// ends the growth of the thresholds (mallopt(3)).
    pub fn parse(text: &str) -> Settings {
        let mut settings = Settings::default();
        let mut set = |name: &str, value: &str| {
            let Some(value) = number(value) else { return };
            match name {
                "MALLOC_MMAP_THRESHOLD_" | "glibc.malloc.mmap_threshold" => settings.mmap_threshold = value,
                "MALLOC_TRIM_THRESHOLD_" | "glibc.malloc.trim_threshold" => settings.trim_threshold = value,
                "MALLOC_TOP_PAD_" | "glibc.malloc.top_pad" => settings.top_pad = value,
                "MALLOC_MMAP_MAX_" | "glibc.malloc.mmap_max" if value == 0 => {
                    settings.mmap_threshold = u64::MAX;
                }
                "MALLOC_MMAP_MAX_" | "glibc.malloc.mmap_max" => {}
                _ => return,
            }
            settings.dynamic = false;
        };
        for setting in text.split_whitespace() {
            match setting.split_once('=') {
                Some(("GLIBC_TUNABLES", tunables)) => {
                    tunables.split(':').filter_map(|each| each.split_once('=')).for_each(|(n, v)| set(n, v));
                }
                Some((name, value)) => set(name, value),
                None => {}
            }
        }
        settings
    }
}

/// Decimal, or hexadecimal as tunables may be.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A heap and the mappings next to it; bytes.
#[derive(Debug)]
pub struct Heap {
    settings: Settings,
    /// Free chunks by where they begin, the top not among them.
    free: BTreeMap<u64, u64>,
    /// Where the top begins, and where the heap ends.
    top: u64,
    end: u64,
    /// How much of it has been allocated since it was that long: all of that is resident.
    touched: u64,
    mapped: u64,
    /// Largest resident sum so far.
    peak: u64,
    /// Chunks in use by requested bytes, in the order they were taken.
    used: HashMap<u64, VecDeque<Chunk>>,
}

#[derive(Debug, Clone, Copy)]
enum Chunk {
    Mapping(u64),
    InHeap { start: u64, length: u64 },
}

impl Heap {
    /// Empty.
    pub fn new(settings: Settings) -> Heap {
        let (free, used) = Default::default();
        Heap { settings, free, top: 0, end: 0, touched: 0, mapped: 0, peak: 0, used }
    }

    /// The most that was resident, if all that was allocated was written to.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Allocates a block.
    pub fn alloc(&mut self, bytes: u64) {
        let length = rounded_up(bytes.saturating_add(HEADER).max(MIN_CHUNK), ALIGNMENT);
        let chunk = match self.fitting(length) {
            Some(start) => Chunk::InHeap { start, length },
            None if length >= self.settings.mmap_threshold => {
                // A mapping's header has one more field, and whole pages.
                let length = rounded_up(length.saturating_add(HEADER), PAGE);
                self.mapped = self.mapped.saturating_add(length);
                Chunk::Mapping(length)
            }
            None => Chunk::InHeap { start: self.grow(length), length },
        };
        self.used.entry(bytes).or_default().push_back(chunk);
        self.peak = self.peak.max(self.touched.saturating_add(self.mapped));
    }

    /// Takes the oldest block of that size back; nothing happens if there is none.
    pub fn release(&mut self, bytes: u64) {
        match self.used.get_mut(&bytes).and_then(VecDeque::pop_front) {
            Some(Chunk::Mapping(length)) => {
                self.mapped = self.mapped.saturating_sub(length);
                if self.settings.dynamic && length > self.settings.mmap_threshold && length <= MAX_DYNAMIC {
                    self.settings.mmap_threshold = length;
                    self.settings.trim_threshold = 2 * length;
                }
            }
            Some(Chunk::InHeap { start, length }) => self.free_chunk(start, length),
            None => {}
        }
    }

    /// Takes back all that is in use, oldest of each size first.
    pub fn release_all(&mut self, sizes: impl Iterator<Item = u64>) {
        for bytes in sizes {
            self.release(bytes);
        }
    }

    /// A place in the smallest free chunk that is long enough, else at the top.
    fn fitting(&mut self, length: u64) -> Option<u64> {
        let fits = self.free.iter().filter(|(_, free)| **free >= length);
        if let Some((&start, &free)) = fits.min_by_key(|(_, free)| **free) {
            self.free.remove(&start);
            if free - length >= MIN_CHUNK {
                self.free.insert(start.saturating_add(length), free - length);
            }
            return Some(start);
        }
        let enough = (self.end - self.top) >= length.checked_add(MIN_CHUNK)?;
        enough.then(|| self.cut_from_top(length))
    }

    fn cut_from_top(&mut self, length: u64) -> u64 {
        let start = self.top;
        self.top = self.top.saturating_add(length);
        self.touched = self.touched.max(self.top);
        start
    }

    /// Makes the heap longer and allocates its new end.
    fn grow(&mut self, length: u64) -> u64 {
        let wanted = length.saturating_add(self.settings.top_pad.min(1 << 40)).saturating_add(MIN_CHUNK);
        let missing = rounded_up(wanted.saturating_sub(self.end - self.top), PAGE);
        self.end = self.end.saturating_add(missing);
        self.cut_from_top(length)
    }

    fn free_chunk(&mut self, mut start: u64, mut length: u64) {
        if let Some((&before, &free)) = self.free.range(..start).next_back()
            && before.saturating_add(free) == start
        {
            self.free.remove(&before);
            (start, length) = (before, length.saturating_add(free));
        }
        if let Some(free) = self.free.remove(&start.saturating_add(length)) {
            length = length.saturating_add(free);
        }
        if start.saturating_add(length) == self.top {
            length = length.saturating_add(self.end - self.top);
            self.top = start;
        } else {
            self.free.insert(start, length);
        }
        let top = self.end - self.top;
        if length >= TRIMMING_CHUNK && top >= self.settings.trim_threshold {
            let extra = top.saturating_sub(MIN_CHUNK + 1).saturating_sub(self.settings.top_pad) / PAGE * PAGE;
            self.end -= extra;
            self.touched = self.touched.min(self.end);
        }
    }
}

/// The next multiple; what fits no address space stays at its end.
fn rounded_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn settings_are_read_as_mallopt_says() {
        assert_eq!(Settings::parse(""), Settings::default());
        assert_eq!(Settings::parse("MALLOC_ARENA_MAX=2 nonsense MALLOC_TOP_PAD_=x"), Settings::default());
        let nanny = Settings::parse("MALLOC_TRIM_THRESHOLD_=65536");
        assert_eq!((nanny.trim_threshold, nanny.mmap_threshold, nanny.dynamic), (65536, 131072, false));
        let tuned =
            Settings::parse("GLIBC_TUNABLES=glibc.malloc.mmap_threshold=0x1000:glibc.malloc.top_pad=0");
        assert_eq!((tuned.mmap_threshold, tuned.top_pad, tuned.dynamic), (4096, 0, false));
    }

    /// A block that was released once is kept from then on, up to 32 MiB.
    #[test]
    fn thresholds_grow_with_what_is_released_unless_they_were_set() {
        let kept = |settings: &str, bytes: u64| {
            let mut heap = Heap::new(Settings::parse(settings));
            for _ in 0..3 {
                heap.alloc(bytes);
                heap.alloc(MIB);
                heap.release(bytes);
                heap.release(MIB);
            }
            heap.touched + heap.mapped
        };
        assert!(kept("", 20 * MIB) >= 20 * MIB);
        assert!(kept("", 40 * MIB) < 2 * MIB);
        assert_eq!(kept("MALLOC_TRIM_THRESHOLD_=65536", 20 * MIB), 0);
    }

    /// A law may be evaluated at a shape that fits no memory.
    #[test]
    fn absurd_sizes_are_too_large_and_no_less() {
        for settings in ["", "MALLOC_MMAP_MAX_=0", "MALLOC_MMAP_THRESHOLD_=18446744073709551615"] {
            let mut heap = Heap::new(Settings::parse(settings));
            for bytes in [u64::MAX - 100, u64::MAX / 2, u64::MAX, 1 << 20] {
                heap.alloc(bytes);
                assert!(heap.peak() >= bytes.min(u64::MAX - 100), "{settings} {bytes}");
            }
            heap.release_all([u64::MAX, u64::MAX / 2, u64::MAX - 100, 1 << 20].into_iter());
            assert_eq!(heap.mapped, 0);
        }
    }

    proptest! {
        /// Resident memory is never less than what is in use, and all comes back where nothing is
        /// kept.
        #[test]
        fn in_use_is_resident(sizes in prop::collection::vec(1u64..40_000_000, 1..40), keep in any::<bool>()) {
            let text = if keep { "" } else { "MALLOC_TRIM_THRESHOLD_=0 MALLOC_TOP_PAD_=0" };
            let mut heap = Heap::new(Settings::parse(text));
            let mut used = 0;
            for (position, &bytes) in sizes.iter().enumerate() {
                heap.alloc(bytes);
                used += bytes;
                prop_assert!(heap.touched + heap.mapped >= used);
                if position % 3 == 2 {
                    heap.release(sizes[position - 1]);
                    used -= sizes[position - 1];
                }
            }
            for &bytes in &sizes {
                heap.release(bytes);
            }
            prop_assert_eq!(heap.mapped, 0);
            prop_assert!(heap.peak() >= sizes.iter().copied().max().unwrap_or(0));
            if !keep {
                // glibc trims when it has freed a chunk of 64 KiB or more
                // (FASTBIN_CONSOLIDATION_THRESHOLD).
                prop_assert!(heap.touched <= 65536 + 2 * PAGE, "{:?}", heap.touched);
            }
        }
    }
}
