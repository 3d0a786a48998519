//! What a process has mapped itself: an interval map in which no two pieces overlap.
//!
//! Calls may cut pieces anywhere (munmap(2), MAP_FIXED, mremap(2)); every change takes O(log n +
//! pieces hit).

use std::collections::BTreeMap;
use std::ops::Range;

use memtrace_trace::rows::Kind;
use memtrace_wire::arch::page::bytes as page_bytes;

use super::blocks::{Part, Site};
use super::shared::{Object, Share};

/// Memory of a mapping up to this size is taken to be touched until a sample shows otherwise
/// (allocators' arenas are used at once); of a larger one, none is.
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
    /// The thread that mapped it.
    pub thread: u32,
    /// Innermost span of that thread, if any.
    pub span: Option<u32>,
    /// Position among the blocks of its kind in that span.
    pub ordinal: u32,
    /// What it maps.
    pub kind: Kind,
    /// Where it was mapped, if it is large.
    pub site: Option<Site>,
    /// The most of it that was seen in memory; 0 for what is not counted as live.
    pub touched: u64,
    /// What page faults have touched of it; among the touched.
    pub faulted: u64,
    /// It was sampled; until then small mappings are taken to be touched as a whole.
    pub measured: bool,
    /// What spans have made of it.
    pub part: Part,
    /// What it maps of an object that processes share.
    pub share: Option<Share>,
}

impl Piece {
    /// One past its last page.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.next_multiple_of(page_bytes()))
    }

    /// True for memory of the program's own that it may write: what counts for spans.
    pub fn is_writable_memory(&self) -> bool {
        self.kind.is_own_memory()
    }

    /// True if what is touched of it is live: reserved address space may have been made accessible
    /// since. Of a private file only what was written to is.
    fn can_be_live(&self) -> bool {
        match self.share {
            Some(share) => share.counts,
            None => self.kind.may_be_live() && self.kind != Kind::MapFile,
        }
    }

    /// True for a private mapping of a file: what is in memory of it is mostly the file's.
    pub fn is_copy_of_file(&self) -> bool {
        self.kind == Kind::MapFilePrivate
    }

    /// True if what page faults, or mincore(2), find in memory of it is live.
    fn is_live_where_touched(&self) -> bool {
        self.can_be_live() && !self.is_copy_of_file()
    }

    /// Pages that were released (madvise(2)) stay live: the mapping is still the program's.
    fn note_touched(&mut self, touched: u64) {
        let touched = touched.min(self.bytes);
        self.touched = if self.measured { self.touched.max(touched) } else { touched };
        self.measured = true;
    }

    fn part(&self, start: u64, end: u64) -> Piece {
        let bytes = end.min(self.start.saturating_add(self.bytes)).saturating_sub(start);
        // Touched memory is taken to be spread evenly until the next sample.
        let share = |of: u64| (of as u128 * bytes as u128 / self.bytes.max(1) as u128) as u64;
        let (touched, faulted) = (share(self.touched), share(self.faulted));
        let measured = self.measured && (bytes == self.bytes || self.touched == 0);
        let ahead = start.saturating_sub(self.start);
        let share = self.share.map(|share| Share { offset: share.offset.saturating_add(ahead), ..share });
        Piece { start, bytes, touched, faulted, measured, share, ..*self }
    }
}

/// The pieces, and their sums.
#[derive(Debug, Default)]
pub struct Mappings {
    pieces: BTreeMap<u64, Piece>,
    mapped: u64,
    touched: u64,
    in_flight: InFlight,
    /// The last range that was seen, and what of it was touched.
    seen: Option<Seen>,
    /// How live bytes of sites have changed since this was last taken away.
    pub changes: Vec<(Option<Site>, i64)>,
}

/// A range that was seen, and what of it was touched.
#[derive(Debug, Clone, Copy)]
struct Seen {
    start: u64,
    bytes: u64,
    touched: u64,
}

impl Seen {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.checked_next_multiple_of(page_bytes()).unwrap_or(u64::MAX))
    }

    /// The part of a piece that lies in the range.
    fn inside(&self, piece: &Piece) -> Range<u64> {
        let start = piece.start.max(self.start);
        start..piece.end().min(self.end()).max(start)
    }

    /// What was touched of a part of the range, if it was touched evenly.
    fn share(&self, part: &Range<u64>) -> u64 {
        let (bytes, of) = (part.end - part.start, self.end() - self.start);
        (self.touched as u128 * bytes as u128 / of.max(1) as u128) as u64
    }
}

/// Pieces that calls under way will release: their addresses may be mapped anew, their bytes still
/// count.
#[derive(Debug, Default, Clone, Copy)]
struct InFlight {
    mapped: u64,
    touched: u64,
}

impl Mappings {
    /// Sum of lengths.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped + self.in_flight.mapped
    }

    /// Sum of what was touched.
    pub fn touched_bytes(&self) -> u64 {
        self.touched + self.in_flight.touched
    }

    /// Adds a piece where nothing is (call [`Mappings::take`] first).
    pub fn insert(&mut self, mut piece: Piece) {
        if piece.bytes == 0 {
            return;
        }
        let assumed = piece.is_writable_memory() && piece.bytes <= ASSUMED_TOUCHED;
        if !piece.measured && assumed {
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

    /// Takes out what a call that begins will release; it counts until [`Mappings::finish_release`]
    /// or [`Mappings::restore`].
    pub fn begin_release(&mut self, start: u64, bytes: u64) -> Vec<Piece> {
        let mut pieces = self.take(start, bytes);
        if let (Some(seen), [piece]) = (self.seen.take(), pieces.as_mut_slice())
            && (seen.start, seen.bytes) == (start, bytes)
            && piece.is_live_where_touched()
        {
            self.share(piece, seen.touched.min(piece.bytes));
        }
        self.count_in_flight(&pieces, 1);
        pieces
    }

    /// A piece that was cut out is known to have had this many touched bytes: what is left of the
    /// mapping next to it has the rest.
    fn share(&mut self, piece: &mut Piece, touched: u64) {
        let before = self.pieces.range(..piece.start).next_back().map(|(start, _)| *start);
        let sides: Vec<u64> = before
            .into_iter()
            .chain([piece.end()])
            .filter(|start| self.pieces.get(start).is_some_and(|side| side.alloc == piece.alloc))
            .collect();
        let mut excess = touched as i64 - piece.touched as i64;
        piece.touched = touched;
        for start in sides {
            let Some(mut side) = self.remove(start) else { continue };
            let left = (side.touched as i64 - excess).clamp(0, side.bytes as i64);
            excess -= side.touched as i64 - left;
            side.touched = left as u64;
            self.put(side);
        }
    }

    /// The same for `shmdt`, which names no length: all that was mapped together with what lies at
    /// `start`.
    pub fn begin_segment_release(&mut self, start: u64) -> Vec<Piece> {
        let Some(first) = self.pieces.get(&start).copied() else { return Vec::new() };
        let together = |piece: &&Piece| piece.alloc == first.alloc && piece.kind == first.kind;
        let starts: Vec<u64> = self
            .pieces
            .range(start..)
            .map(|(_, piece)| piece)
            .filter(together)
            .map(|piece| piece.start)
            .collect();
        let pieces: Vec<Piece> = starts.into_iter().filter_map(|start| self.remove(start)).collect();
        self.count_in_flight(&pieces, 1);
        pieces
    }

    /// The call that took these out has released them.
    pub fn finish_release(&mut self, pieces: &[Piece]) {
        self.count_in_flight(pieces, -1);
    }

    /// Puts back what a call that failed had taken out.
    pub fn restore(&mut self, pieces: Vec<Piece>) {
        self.finish_release(&pieces);
        self.put_all(pieces);
    }

    /// Adds pieces as they are.
    pub fn put_all(&mut self, pieces: Vec<Piece>) {
        pieces.into_iter().for_each(|piece| self.put(piece));
    }

    fn count_in_flight(&mut self, pieces: &[Piece], sign: i64) {
        for piece in pieces {
            self.in_flight.mapped = self.in_flight.mapped.wrapping_add_signed(sign * piece.bytes as i64);
            self.in_flight.touched = self.in_flight.touched.wrapping_add_signed(sign * piece.touched as i64);
            self.note_change(piece, sign * piece.touched as i64);
        }
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

    /// Takes everything in `[start, start + bytes)` out, cutting pieces at the borders. A piece
    /// that is cut yields a part of itself; what is left of it stays.
    pub fn take(&mut self, start: u64, bytes: u64) -> Vec<Piece> {
        let start = start & !(page_bytes() - 1);
        let end = start.saturating_add(bytes.checked_next_multiple_of(page_bytes()).unwrap_or(u64::MAX));
        let hit = self.hit(start, end);
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

    /// Takes out what is of this kind in a range, as [`Mappings::take`] does.
    pub fn take_of(&mut self, kind: Kind, start: u64, bytes: u64) -> Vec<Piece> {
        let end = start.saturating_add(bytes.checked_next_multiple_of(page_bytes()).unwrap_or(u64::MAX));
        let parts = self.between(start, end).filter(|piece| piece.kind == kind);
        let parts: Vec<_> = parts.map(|piece| piece.start.max(start)..piece.end().min(end)).collect();
        parts.into_iter().flat_map(|part| self.take(part.start, part.end - part.start)).collect()
    }

    /// Where the pieces begin that reach into `[start, end)`.
    fn hit(&self, start: u64, end: u64) -> Vec<u64> {
        self.between(start, end).map(|piece| piece.start).collect()
    }

    /// Pieces that reach into a range, in order.
    pub fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Piece> {
        let before = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.end() > start);
        before.into_iter().chain(self.pieces.range(start..end)).map(|(_, piece)| piece)
    }

    /// The piece that covers `address`.
    pub fn find(&self, address: u64) -> Option<&Piece> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end()).then_some(piece)
    }

    /// Notes what the piece at this address contains, if it was mapped then.
    pub fn set_part(&mut self, address: u64, alloc: u64, part: Part) {
        let piece = self.pieces.get_mut(&address).filter(|piece| piece.alloc == alloc);
        piece.into_iter().for_each(|piece| piece.part = piece.part.max(part));
    }

    /// All pieces.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.values()
    }

    /// What is mapped of objects that processes share.
    pub fn shared(&self) -> impl Iterator<Item = (&Piece, &Share)> {
        self.pieces.values().filter_map(|piece| Some((piece, piece.share.as_ref()?)))
    }

    /// What is mapped of one of them.
    pub fn shares(&self, object: Object) -> impl Iterator<Item = (&Piece, &Share)> {
        self.shared().filter(move |(_, share)| share.object == object)
    }

    /// What is touched of an object counts where these pieces map it: `touched` of a part of it.
    pub fn note_shares(&mut self, object: Object, touched: impl Fn(u64, u64) -> u64) {
        let counted = self.shares(object).filter(|(_, share)| share.counts);
        let counted: Vec<(u64, u64)> =
            counted.map(|(piece, share)| (piece.start, touched(share.offset, piece.bytes))).collect();
        counted.into_iter().for_each(|(start, touched)| self.note(start, touched));
    }

    /// What is touched of an object counts in the piece that begins here from now on.
    pub fn count_share(&mut self, start: u64, touched: u64) {
        let share = self.pieces.get_mut(&start).and_then(|piece| piece.share.as_mut());
        share.into_iter().for_each(|share| share.counts = true);
        self.note(start, touched);
    }

    /// Notes how many bytes of every piece that can be live are in use, as far as `measure` knows.
    pub fn measure(&mut self, mut measure: impl FnMut(&Piece) -> Option<u64>) {
        let starts: Vec<u64> =
            self.pieces.values().filter(|piece| piece.can_be_live()).map(|piece| piece.start).collect();
        for start in starts {
            if let Some(touched) = measure(&self.pieces[&start]) {
                self.note(start, touched);
            }
        }
    }

    /// This many bytes of the piece that begins here were seen in memory.
    fn note(&mut self, start: u64, touched: u64) {
        let Some(piece) = self.pieces.get_mut(&start) else { return };
        let before = piece.touched;
        piece.note_touched(touched);
        let piece = *piece;
        self.touched = self.touched - before + piece.touched;
        self.note_change(&piece, piece.touched as i64 - before as i64);
    }

    /// This many more bytes of large mappings in a range have been touched: `count` gives how many
    /// of a part. Small ones are taken to be touched already.
    pub fn touch(&mut self, start: u64, bytes: u64, mut count: impl FnMut(u64, u64) -> u64) {
        let end = start.saturating_add(bytes);
        for key in self.hit(start, end) {
            let Some(piece) = self.pieces.get_mut(&key) else { continue };
            let (from, to) = (piece.start.max(start), piece.end().min(end));
            if !piece.is_live_where_touched()
                || piece.share.is_some()
                || piece.bytes <= ASSUMED_TOUCHED
                || from >= to
            {
                continue;
            }
            piece.faulted = piece.faulted.saturating_add(count(from, to - from)).min(piece.bytes);
            // Not yet measured, it was taken to be untouched. An earlier sample may have seen these
            // pages already.
            piece.measured = true;
            let faulted = piece.faulted;
            self.note(key, faulted);
        }
    }

    /// This many bytes of a range were seen in memory: its pieces have their share of them, by
    /// length if there are several. Of what was seen before of a piece that reaches out of the
    /// range, only as much is surely outside as does not fit inside.
    pub fn note_touched(&mut self, start: u64, bytes: u64, touched: u64) {
        let seen = Seen { start, bytes, touched };
        self.seen = Some(seen);
        for key in self.hit(start, seen.end()) {
            let Some(piece) = self.pieces.get(&key).filter(|piece| piece.is_live_where_touched()) else {
                continue;
            };
            let inside = seen.inside(piece);
            let outside = piece.touched.saturating_sub(inside.end - inside.start);
            self.note(key, seen.share(&inside).saturating_add(outside));
        }
    }

    /// What was seen last is about to be dropped: of what the program reserved without access, no
    /// more than what a snapshot finds later is live. Returns those parts.
    pub fn forget_reserved(&mut self) -> Vec<Range<u64>> {
        let Some(seen) = self.seen else { return Vec::new() };
        let mut parts = Vec::new();
        for key in self.hit(seen.start, seen.end()) {
            if self.pieces[&key].kind != Kind::MapReserved {
                continue;
            }
            let Some(mut piece) = self.remove(key) else { continue };
            let inside = seen.inside(&piece);
            piece.touched = piece.touched.saturating_sub(seen.share(&inside));
            piece.faulted = piece.faulted.min(piece.touched);
            self.put(piece);
            parts.push(inside);
        }
        parts
    }
}

#[cfg(test)]
mod tests;
