//! Which pages go to swap when: where room is needed, those of the object whose next use is last
//! (Belady 1966), which moves the fewest; and back before they are used.
//!
//! Pages of an object that are in memory are its first ones.

use std::collections::{BTreeSet, HashSet};

use super::Pages;
use super::retained::Retained;
use super::steps::{Change, Step, Steps};
use crate::placement::plan::{Move, MoveKind};

/// What is moved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schedule {
    /// In their order.
    pub moves: Vec<Move>,
    /// How many pages that is.
    pub moved: Pages,
    /// Pages that the large blocks take at most.
    pub most: u64,
    /// Of what one step needs together there is no room for so many pages; with the block that was to
    /// be allocated. The kernel moves them.
    pub missing: Option<(u64, usize)>,
    /// What the kernel moves because of that, at most: all that such a step needs, where it goes through
    /// it in turn.
    pub unplanned: Pages,
}

/// Of an object.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_live: bool,
    /// Pages in memory.
    resident: u64,
    /// The last of them that have come from swap.
    returned: u64,
    /// Of those this share was written since, wherever that is.
    share_written: f64,
    /// Pages of its block were moved.
    is_moved: bool,
    /// Step of its next use; the largest number: none.
    next: usize,
}

impl State {
    /// So many of all its pages are written. A program that writes a part of a block in each turn writes
    /// the same part.
    fn write(&mut self, written: u64, pages: u64) {
        if written >= pages {
            self.returned = 0;
        }
        self.share_written = self.share_written.max(written as f64 / pages.max(1) as f64);
    }

    /// So many more come from swap.
    fn bring_back(&mut self, pages: u64) {
        self.share_written *= self.returned as f64 / (self.returned + pages).max(1) as f64;
        self.returned += pages;
    }
}

/// A program that has room for so many pages of its large blocks.
pub fn schedule(steps: &Steps, room: u64) -> Schedule {
    let mut simulation = Simulation {
        room,
        pages: &steps.pages,
        states: vec![State { next: usize::MAX, ..State::default() }; steps.pages.len()],
        by_next: BTreeSet::new(),
        retained: Retained::default(),
        resident: 0,
        faulted: Vec::new(),
        missing_pages: 0,
        absent_pages: 0,
        unplanned: HashSet::new(),
        schedule: Schedule::default(),
    };
    let mut uses = uses(steps);
    for (index, step) in steps.steps.iter().enumerate() {
        simulation.step(index, step, steps, &mut uses);
    }
    simulation.schedule
}

/// The steps in which each object is used, the last one first.
fn uses(steps: &Steps) -> Vec<Vec<usize>> {
    let mut uses = vec![Vec::new(); steps.pages.len()];
    for (index, step) in steps.steps.iter().enumerate().rev() {
        let allocated = step.changes.iter().filter_map(|change| match change {
            Change::Allocated(block) => Some(steps.objects[*block]),
            Change::Released(_) => None,
        });
        let used: BTreeSet<usize> = step.uses.iter().map(|(object, _)| *object).chain(allocated).collect();
        used.into_iter().for_each(|object| uses[object].push(index));
    }
    uses
}

struct Simulation<'a> {
    room: u64,
    /// Of each object.
    pages: &'a [u64],
    states: Vec<State>,
    /// Objects with pages in memory by their next use.
    by_next: BTreeSet<(usize, usize)>,
    retained: Retained,
    /// Pages of live blocks in memory.
    resident: u64,
    /// Objects that the last step used without all of them being in memory: the kernel has brought them
    /// back.
    faulted: Vec<usize>,
    /// Of all steps so far.
    missing_pages: u64,
    /// Of the step, pages that faults bring back: there is no room for them.
    absent_pages: u64,
    /// Objects of the step that were counted as unplanned in its parts so far.
    unplanned: HashSet<usize>,
    schedule: Schedule,
}

impl Simulation<'_> {
    fn step(&mut self, index: usize, step: &Step, steps: &Steps, uses: &mut [Vec<usize>]) {
        let mut needed: HashSet<usize> = step.uses.iter().map(|(object, _)| *object).collect();
        let mut is_first = true;
        let before = self.missing_pages;
        self.absent_pages = 0;
        if !step.continues {
            self.unplanned.clear();
        }
        for change in &step.changes {
            match *change {
                Change::Allocated(block) => {
                    let object = steps.objects[block];
                    if is_first {
                        self.bring_back(block, step, &needed);
                        is_first = false;
                    }
                    needed.insert(object);
                    self.allocate(block, object, &needed);
                }
                Change::Released(block) => self.release(steps.objects[block]),
            }
        }
        if self.missing_pages > before || self.resident > self.room {
            let further = needed.iter().filter(|object| self.unplanned.insert(**object));
            let pages: u64 = further.map(|object| self.pages[*object]).sum();
            self.schedule.unplanned.written += pages;
            self.schedule.unplanned.back += pages;
        }
        for (object, written) in &step.uses {
            self.states[*object].write(*written, self.pages[*object]);
        }
        for object in needed {
            while uses[object].last().is_some_and(|next| *next <= index) {
                uses[object].pop();
            }
            let next = uses[object].last().copied().unwrap_or(usize::MAX);
            self.change(object, |state| state.next = next);
        }
    }

    /// Brings back what the step uses.
    fn bring_back(&mut self, block: usize, step: &Step, needed: &HashSet<usize>) {
        let is_away = |(object, _): &&(usize, u64)| {
            self.states[*object].is_live && self.states[*object].resident < self.pages[*object]
        };
        let away: Vec<usize> = step.uses.iter().filter(is_away).map(|(object, _)| *object).collect();
        self.return_faulted(block, needed);
        for object in away {
            let first = self.states[object].resident;
            let wanted = self.pages[object] - first;
            let missing = self.make_room(wanted, block, needed).min(wanted);
            let pages = wanted - missing;
            if pages > 0 {
                self.emit(block, object, MoveKind::In, first, pages);
            }
            // Faults bring back the rest, and the kernel makes room for it.
            self.schedule.moved.back += wanted;
            self.schedule.moved.written += missing;
            self.missing_pages += missing;
            self.absent_pages += missing;
            self.faulted.extend((missing > 0).then_some(object));
            self.resident += pages;
            self.change(object, |state| {
                state.resident += pages;
                state.bring_back(pages);
            });
            self.note_most();
        }
    }

    /// Moves to swap again what the kernel had to bring back in the last step, and this one does not
    /// use.
    fn return_faulted(&mut self, block: usize, needed: &HashSet<usize>) {
        for object in std::mem::take(&mut self.faulted) {
            if needed.contains(&object) {
                continue;
            }
            let State { is_live, resident, .. } = self.states[object];
            if is_live && resident < self.pages[object] {
                self.emit(block, object, MoveKind::Out, resident, self.pages[object] - resident);
            }
        }
    }

    fn allocate(&mut self, block: usize, object: usize, needed: &HashSet<usize>) {
        let pages = self.pages[object];
        if !self.retained.take(pages) {
            let missing = self.make_room(pages, block, needed).min(pages);
            self.schedule.moved.written += missing;
            self.schedule.moved.back += missing;
            self.missing_pages += missing;
        }
        self.resident += pages;
        self.change(object, |state| {
            *state = State { is_live: true, resident: pages, next: state.next, ..State::default() };
        });
        self.note_most();
    }

    fn release(&mut self, object: usize) {
        let resident = self.states[object].resident;
        self.resident -= resident;
        // The probe retains mappings of which nothing was ever moved.
        if resident == self.pages[object] && !self.states[object].is_moved {
            self.retained.put(resident);
        }
        self.change(object, |state| {
            state.is_live = false;
            state.resident = 0;
        });
    }

    /// Moves to swap what is in the way of so many pages. Returns for how many there is no room.
    fn make_room(&mut self, wanted: u64, block: usize, needed: &HashSet<usize>) -> u64 {
        let over = |simulation: &Self| {
            (simulation.resident + simulation.retained.pages() + wanted).saturating_sub(simulation.room)
        };
        let trimmed = self.retained.trim(over(self));
        if trimmed > 0 {
            self.schedule.moves.push(Move::trim(block, trimmed));
            self.schedule.moved.fresh += trimmed;
        }
        while over(self) > 0 {
            let last = self.by_next.iter().rev().find(|(_, object)| !needed.contains(object)).copied();
            let Some((_, object)) = last else {
                let missing = over(self);
                self.schedule.missing = self.schedule.missing.max(Some((self.absent_pages + missing, block)));
                return missing;
            };
            let pages = over(self).min(self.states[object].resident);
            self.move_out(object, pages, block);
        }
        0
    }

    fn move_out(&mut self, object: usize, pages: u64, block: usize) {
        let State { resident, returned, share_written, .. } = self.states[object];
        let clean_pages = (returned.min(pages) as f64 * (1.0 - share_written)).round() as u64;
        self.emit(block, object, MoveKind::Out, resident - pages, pages);
        self.schedule.moved.clean += clean_pages;
        self.schedule.moved.written += pages - clean_pages;
        self.resident -= pages;
        self.change(object, |state| {
            state.resident -= pages;
            state.returned -= returned.min(pages);
            state.is_moved = true;
        });
    }

    fn emit(&mut self, block: usize, object: usize, kind: MoveKind, first: u64, pages: u64) {
        self.schedule.moves.push(Move {
            block: block as u32,
            kind,
            object: object as u32,
            first: first as u32,
            pages: pages as u32,
        });
    }

    fn note_most(&mut self) {
        self.schedule.most = self.schedule.most.max(self.resident + self.retained.pages());
    }

    /// Changes an object's state, and where it is among those that may go.
    fn change(&mut self, object: usize, change: impl FnOnce(&mut State)) {
        let state = &mut self.states[object];
        self.by_next.remove(&(state.next, object));
        change(state);
        if state.resident > 0 {
            self.by_next.insert((state.next, object));
        }
    }
}
