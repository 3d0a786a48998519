//! What a process has mapped itself: an interval map in which no two pieces overlap.
//!
//! Calls may cut pieces anywhere (munmap(2), MAP_FIXED, mremap(2)); every change takes O(log n + pieces hit).

use std::collections::BTreeMap;

use memtrace_trace::rows::Kind;

use super::sites::Site;

const PAGE: u64 = 4096;
/// Memory of a mapping up to this size is taken to be touched until a sample says otherwise (allocators'
/// arenas are used at once); of a larger one, none is.
const ASSUMED_TOUCHED: u64 = 1 << 20;

/// A mapping, or what is left of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// First address.
    pub start: u64,
    /// Length as requested; a cut piece has the length of what is left.
    pub bytes: u64,
    /// Stamp of the call that mapped it.
    pub alloc: u64,
    /// Who mapped it.
    pub thread: u32,
    /// Innermost span of that thread, if any.
    pub span: Option<u32>,
    /// Position among the blocks of its kind in that span.
    pub ordinal: u32,
    /// What it maps.
    pub kind: Kind,
    /// Where it was mapped, if it is large.
    pub site: Option<Site>,
    /// How much of it is in memory, as last seen; 0 for files, which are not counted as live.
    pub touched: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.next_multiple_of(PAGE))
    }

    /// True for memory of the program's own that it may write: what counts for spans.
    pub fn is_writable_memory(&self) -> bool {
        matches!(self.kind, Kind::MapAnonymous | Kind::MapShared)
    }

    fn part(&self, start: u64, end: u64) -> Piece {
        let bytes = end.min(self.start.saturating_add(self.bytes)).saturating_sub(start);
        // Without a sample, touched memory is taken to be spread evenly.
        let touched = (self.touched as u128 * bytes as u128 / self.bytes.max(1) as u128) as u64;
        Piece { start, bytes, touched, ..*self }
    }
}

/// The pieces, and their sums.
#[derive(Debug, Default)]
pub struct Mappings {
    pieces: BTreeMap<u64, Piece>,
    mapped: u64,
    touched: u64,
    /// How live bytes of sites have changed since this was last taken away.
    pub changes: Vec<(Option<Site>, i64)>,
}

impl Mappings {
    /// Sum of lengths.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped
    }

    /// Sum of what was touched.
    pub fn touched_bytes(&self) -> u64 {
        self.touched
    }

    /// Adds a piece where nothing is (call [`Mappings::take`] first).
    pub fn insert(&mut self, mut piece: Piece) {
        if piece.bytes == 0 {
            return;
        }
        let assumed = piece.is_writable_memory() && piece.bytes <= ASSUMED_TOUCHED;
        if piece.touched == 0 && assumed {
            piece.touched = piece.bytes;
        }
        self.put(piece);
    }

    fn put(&mut self, piece: Piece) {
        self.mapped += piece.bytes;
        self.touched += piece.touched;
        self.note_change(&piece, piece.touched as i64);
        self.pieces.insert(piece.start, piece);
    }

    /// Puts back what a call that failed had taken.
    pub fn restore(&mut self, pieces: Vec<Piece>) {
        pieces.into_iter().for_each(|piece| self.put(piece));
    }

    fn remove(&mut self, start: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&start)?;
        self.mapped -= piece.bytes;
        self.touched -= piece.touched;
        self.note_change(&piece, -(piece.touched as i64));
        Some(piece)
    }

    fn note_change(&mut self, piece: &Piece, bytes: i64) {
        if piece.site.is_some() && bytes != 0 {
            self.changes.push((piece.site, bytes));
        }
    }

    /// Takes everything in `[start, start + bytes)` out, cutting pieces at the borders. A piece that is cut
    /// yields a part of itself; what is left of it stays.
    pub fn take(&mut self, start: u64, bytes: u64) -> Vec<Piece> {
        let start = start & !(PAGE - 1);
        let end = start.saturating_add(bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX));
        let before = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.end() > start);
        let hit: Vec<u64> =
            before.into_iter().chain(self.pieces.range(start..end)).map(|(start, _)| *start).collect();
        let mut taken = Vec::with_capacity(hit.len());
        for key in hit {
            let Some(piece) = self.remove(key) else { continue };
            let (from, to) = (piece.start.max(start), piece.end().min(end));
            if from >= to {
                self.put(piece);
                continue;
            }
            if piece.start < from {
                self.put(piece.part(piece.start, from));
            }
            if to < piece.end() {
                self.put(piece.part(to, piece.end()));
            }
            taken.push(piece.part(from, to));
        }
        taken
    }

    /// The piece that covers `address`.
    pub fn find(&self, address: u64) -> Option<&Piece> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end()).then_some(piece)
    }

    /// All pieces.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.values()
    }

    /// Asks `measure` how many bytes of every piece of memory are in use.
    pub fn measure(&mut self, mut measure: impl FnMut(&Piece) -> Option<u64>) {
        for piece in self.pieces.values_mut().filter(|piece| piece.kind != Kind::MapFile) {
            if let Some(touched) = measure(piece) {
                let touched = touched.min(piece.bytes);
                self.touched = self.touched - piece.touched + touched;
                if piece.site.is_some() && touched != piece.touched {
                    self.changes.push((piece.site, touched as i64 - piece.touched as i64));
                }
                piece.touched = touched;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(start_page: u64, pages: u64) -> Piece {
        Piece {
            start: start_page * PAGE,
            bytes: pages * PAGE,
            alloc: 1,
            thread: 0,
            span: None,
            ordinal: 0,
            kind: Kind::MapAnonymous,
            site: None,
            touched: 0,
        }
    }

    proptest! {
        /// Against a page-by-page oracle: what is mapped, what every call takes, and that sums agree.
        #[test]
        fn behaves_like_a_set_of_pages(calls in prop::collection::vec((any::<bool>(), 0..60u64, 1..20u64), 1..80)) {
            let mut mappings = Mappings::default();
            let mut oracle = std::collections::BTreeSet::new();
            for (map, start, pages) in calls {
                let taken: u64 = mappings.take(start * PAGE, pages * PAGE).iter().map(|piece| piece.bytes).sum();
                let hit = (start..start + pages).filter(|page| oracle.remove(page)).count() as u64;
                prop_assert_eq!(taken, hit * PAGE);
                if map {
                    mappings.insert(piece(start, pages));
                    oracle.extend(start..start + pages);
                }
                prop_assert_eq!(mappings.mapped_bytes(), oracle.len() as u64 * PAGE);
                prop_assert_eq!(mappings.iter().map(|piece| piece.touched).sum::<u64>(), mappings.touched_bytes());
                for page in 0..90 {
                    prop_assert_eq!(mappings.find(page * PAGE).is_some(), oracle.contains(&page));
                }
            }
        }
    }

    #[test]
    fn a_failed_call_changes_nothing() {
        let mut mappings = Mappings::default();
        mappings.insert(piece(10, 10));
        let taken = mappings.take(12 * PAGE, 3 * PAGE);
        assert_eq!(mappings.mapped_bytes(), 7 * PAGE);
        mappings.restore(taken);
        assert_eq!((mappings.mapped_bytes(), mappings.touched_bytes()), (10 * PAGE, 10 * PAGE));
    }

    #[test]
    fn a_length_that_is_no_multiple_of_a_page_ends_where_the_kernel_ends_it() {
        let mut mappings = Mappings::default();
        mappings.insert(Piece { bytes: PAGE + 1, ..piece(1, 1) });
        assert!(mappings.find(2 * PAGE + 5).is_some());
        assert_eq!(mappings.take(PAGE, PAGE + 1).len(), 1);
        assert_eq!(mappings.mapped_bytes(), 0);
    }
}
