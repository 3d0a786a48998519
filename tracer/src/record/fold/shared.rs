//! Memory that several processes map counts once: where it was mapped first, and where that mapping
//! ends, in the next one.

use memtrace_wire::event::Event;
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::procfs::resident::Pagemap;
use crate::record::state::mappings::Piece;
use crate::record::state::process::Process;
use crate::record::state::shared::{Object, Share};

/// True until the memory of a process no longer counts.
fn maps_on(process: &Process) -> bool {
    process.parted.is_none() && process.end.is_none()
}

impl Fold {
    /// The thread maps an object next.
    pub(super) fn object_announced(&mut self, writer: u32, event: Event) {
        let object = Object { device: event.bytes, inode: event.address };
        self.shared.announce(writer, Share { object, offset: event.extra, counts: false });
    }

    /// What a new mapping of an object has of it: it counts unless another one does.
    pub(super) fn share(&mut self, process: u32, share: Option<Share>, bytes: u64) -> Option<Share> {
        let share = share?;
        self.shared.mapped(share.object, process);
        let counts = !self.is_counted(share.object, share.offset, bytes);
        Some(Share { counts, ..share })
    }

    fn is_counted(&self, object: Object, offset: u64, bytes: u64) -> bool {
        let overlaps = |piece: &Piece, share: &Share| {
            share.offset < offset.saturating_add(bytes) && offset < share.offset.saturating_add(piece.bytes)
        };
        let processes = self.shared.processes(object);
        let mut processes = processes.iter().filter_map(|process| self.processes.get(*process));
        processes.any(|process| {
            let mut shares = process.mappings.shares(object);
            maps_on(process) && shares.any(|(piece, share)| share.counts && overlaps(piece, share))
        })
    }

    /// Mappings have ended: what they shared counts in others from now on.
    pub(super) fn pass_on(&mut self, shares: impl Iterator<Item = Share>) {
        let objects: FxHashSet<Object> = shares.map(|share| share.object).collect();
        for object in objects {
            let mut is_mapped = false;
            let processes = &self.processes;
            self.shared.keep(object, |process| processes.get(process).is_some_and(maps_on));
            for process in self.shared.processes(object) {
                let mappings = &self.processes[process].mappings;
                let shares: Vec<(u64, u64, Share)> = mappings
                    .shares(object)
                    .map(|(piece, share)| (piece.start, piece.bytes, *share))
                    .collect();
                is_mapped |= !shares.is_empty();
                for (start, bytes, share) in shares {
                    if !share.counts && !self.is_counted(object, share.offset, bytes) {
                        let touched = self.shared.touched(object, share.offset, bytes);
                        self.change_mappings(process, |mappings| mappings.count_share(start, touched));
                    }
                }
            }
            if !is_mapped {
                self.shared.forget(object);
            }
        }
    }

    /// Notes how much of each mapping of a process is in memory, as far as that can be measured.
    pub fn measure(&mut self, index: u32, stamp: u64, pagemap: &mut Pagemap) {
        self.change_mappings(index, |mappings| {
            mappings.measure(|piece| match (piece.share, piece.is_copy_of_file()) {
                (Some(_), _) => None,
                (None, true) => pagemap.copied(piece.start, piece.bytes),
                (None, false) => pagemap.touched(piece.start, piece.bytes),
            });
        });
        let shared = self.processes[index].mappings.shared();
        let parts: Vec<(u64, u64, Share)> =
            shared.map(|(piece, share)| (piece.start, piece.bytes, *share)).collect();
        for (start, bytes, share) in parts {
            let mut found = false;
            pagemap.each_touched(start, bytes, |at, bytes| {
                found |= self.shared.touch(share.object, share.offset.saturating_add(at - start), bytes);
            });
            self.count_touched(share.object, found, stamp);
        }
        self.note_peak(index, stamp);
    }

    /// Faults of a process have touched a range: what of it is of objects.
    pub(super) fn touch_objects(&mut self, index: u32, address: u64, bytes: u64, stamp: u64) {
        for (share, bytes) in self.shared_parts(index, address, bytes) {
            let found = self.shared.touch(share.object, share.offset, bytes);
            self.count_touched(share.object, found, stamp);
        }
    }

    /// So many bytes of a range are in memory: what of it is of one object.
    pub(super) fn saw_objects(&mut self, index: u32, event: &Event) {
        if let [(share, bytes)] = self.shared_parts(index, event.address, event.bytes)[..] {
            let found = self.shared.touch_some(share.object, share.offset, bytes, event.extra);
            self.count_touched(share.object, found, event.stamp);
        }
    }

    /// The parts of a range that are of objects, and how many bytes each has.
    fn shared_parts(&self, index: u32, address: u64, bytes: u64) -> Vec<(Share, u64)> {
        let end = address.saturating_add(bytes);
        let hit = self.processes[index].mappings.between(address, end);
        let part = |piece: &Piece| {
            let (from, to) = (piece.start.max(address), piece.end().min(end));
            let share = piece.share?;
            let offset = share.offset.saturating_add(from - piece.start);
            Some((Share { offset, ..share }, to.saturating_sub(from)))
        };
        hit.filter_map(part).collect()
    }

    /// More of an object may have been touched: that is live where it counts.
    fn count_touched(&mut self, object: Object, found: bool, stamp: u64) {
        if !found {
            return;
        }
        for process in self.shared.processes(object) {
            if self.processes.get(process).is_some_and(maps_on) {
                let mut mappings = std::mem::take(&mut self.processes[process].mappings);
                let before = mappings.touched_bytes();
                mappings.note_shares(object, |offset, bytes| self.shared.touched(object, offset, bytes));
                let after = mappings.touched_bytes();
                self.processes[process].mappings = mappings;
                self.totals.change_touched(before, after);
                self.settle_sites(process);
                self.note_peak(process, stamp);
            }
        }
    }
}
