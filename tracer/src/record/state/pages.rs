//! Which pages of a process have been touched: each faults once, or again (copied on write,
//! released and touched anew), so the pages are remembered.

use memtrace_wire::arch::page::bytes as page_bytes;
use rustc_hash::FxHashMap;

/// Pages of one entry.
const CHUNK: u64 = 64;

/// A set of pages, 64 to a word.
#[derive(Debug, Default)]
pub struct Pages {
    words: FxHashMap<u64, u64>,
}

impl Pages {
    /// Adds those of a range. Returns how many bytes of it were not there.
    pub fn add(&mut self, start: u64, bytes: u64) -> u64 {
        let mut new = 0;
        each_word(start, bytes, |index, mask| {
            let word = self.words.entry(index).or_default();
            new += (mask & !*word).count_ones();
            *word |= mask;
        });
        u64::from(new) * page_bytes()
    }

    /// Adds pages of a range from its beginning on, until so many bytes are new. Returns how many are.
    pub fn add_some(&mut self, start: u64, bytes: u64, wanted: u64) -> u64 {
        let (mut page, end) = (start / page_bytes(), start.saturating_add(bytes).div_ceil(page_bytes()));
        let wanted = wanted.div_ceil(page_bytes());
        let mut new = 0;
        while page < end && new < wanted {
            let (index, mask, many) = word_at(page, end);
            let word = self.words.entry(index).or_default();
            let mut missing = mask & !*word;
            while u64::from(missing.count_ones()) > wanted - new {
                missing &= !(1 << (63 - missing.leading_zeros()));
            }
            *word |= missing;
            new += u64::from(missing.count_ones());
            page += many;
        }
        new * page_bytes()
    }

    /// Removes those of a range: something else is mapped there now. A reservation may be larger
    /// than all that was ever touched.
    pub fn remove(&mut self, start: u64, bytes: u64) {
        if bytes / page_bytes() / CHUNK > self.words.len() as u64 {
            let (first, end) = (start / page_bytes(), start.saturating_add(bytes).div_ceil(page_bytes()));
            self.words.retain(|index, word| {
                let own = index * CHUNK..(index + 1) * CHUNK;
                let outside = |page: u64| page < first || page >= end;
                let kept = own.clone().filter(|page| outside(*page)).map(|page| 1 << (page - own.start));
                *word &= kept.fold(0, |mask: u64, bit: u64| mask | bit);
                *word != 0
            });
            return;
        }
        each_word(start, bytes, |index, mask| {
            if let Some(word) = self.words.get_mut(&index) {
                *word &= !mask;
                if *word == 0 {
                    self.words.remove(&index);
                }
            }
        });
    }

    /// How many bytes of a range are there.
    pub fn count(&self, start: u64, bytes: u64) -> u64 {
        let mut count = 0;
        if bytes / page_bytes() / CHUNK > self.words.len() as u64 {
            let (first, end) = (start / page_bytes(), start.saturating_add(bytes).div_ceil(page_bytes()));
            for (index, word) in &self.words {
                let page = first.max(index * CHUNK);
                if page < end && page / CHUNK == *index {
                    let (_, mask, _) = word_at(page, end);
                    count += (word & mask).count_ones();
                }
            }
            return u64::from(count) * page_bytes();
        }
        each_word(start, bytes, |index, mask| {
            count += self.words.get(&index).map_or(0, |word| (word & mask).count_ones());
        });
        u64::from(count) * page_bytes()
    }
}

/// Words that a range lies in, each with its pages there.
fn each_word(start: u64, bytes: u64, mut each: impl FnMut(u64, u64)) {
    let (mut page, end) = (start / page_bytes(), start.saturating_add(bytes).div_ceil(page_bytes()));
    while page < end {
        let (index, mask, many) = word_at(page, end);
        each(index, mask);
        page += many;
    }
}

/// The word that a page lies in, and its pages from this one on and before the end: as bits, and how
/// many.
fn word_at(page: u64, end: u64) -> (u64, u64, u64) {
    let (index, first) = (page / CHUNK, page % CHUNK);
    let many = (CHUNK - first).min(end - page);
    (index, (u64::MAX >> (CHUNK - many)) << first, many)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of pages, one by one.
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((0..3u8, 0..900u64, 1..500u64), 1..60)) {
            let mut pages = Pages::default();
            let mut oracle = std::collections::BTreeSet::new();
            for (what, start, length) in steps {
                let range = start..start + length;
                let (at, bytes) = (start * page_bytes(), length * page_bytes());
                match what {
                    0 => {
                        let new = range.filter(|page| oracle.insert(*page)).count() as u64;
                        prop_assert_eq!(pages.add(at, bytes), new * page_bytes());
                    }
                    1 => {
                        range.for_each(|page| {
                            oracle.remove(&page);
                        });
                        pages.remove(at, bytes);
                    }
                    _ => {
                        let there = range.filter(|page| oracle.contains(page)).count() as u64;
                        prop_assert_eq!(pages.count(at, bytes), there * page_bytes());
                    }
                }
            }
        }

        /// The first that are not there are added, and no more.
        #[test]
        fn some_are_added(there in 0..200u64, wanted in 0..400u64, length in 0..500u64) {
            let mut pages = Pages::default();
            pages.add(7 * page_bytes(), there * page_bytes());
            let free = (7..7 + length).filter(|page| !(7..7 + there).contains(page)).count() as u64;
            let added = pages.add_some(7 * page_bytes(), length * page_bytes(), wanted * page_bytes());
            prop_assert_eq!(added, free.min(wanted) * page_bytes());
            prop_assert_eq!(pages.count(0, 1 << 30), (there + free.min(wanted)) * page_bytes());
        }

        /// Reservations are larger than anything that is ever touched.
        #[test]
        fn huge_ranges_are_removed_at_once(inside in 0..1u64 << 28, outside in 1..1000u64) {
            let mut pages = Pages::default();
            let start = 1 << 40;
            pages.add(start + inside * page_bytes(), page_bytes());
            pages.add(start - outside * page_bytes(), page_bytes());
            prop_assert_eq!(pages.count(start, 1 << 40), page_bytes());
            pages.remove(start, 1 << 40);
            prop_assert_eq!(pages.count(start + inside * page_bytes(), page_bytes()), 0);
            prop_assert_eq!(pages.count(start - outside * page_bytes(), page_bytes()), page_bytes());
        }
    }
}
