//! Goes through the rows of a trace once, backwards in time, without ever having them all in
//! memory.
//!
//! Rows come roughly in the order of their releases, so time is cut into windows at the last
//! releases of row groups, and a group mostly holds what happened in its window. What else it
//! stands for lies earlier: its older blocks were allocated then. That waits until the earlier
//! window's turn comes, the later ones being read before it. Only what was never released, or after
//! its process had parted, is of later times; groups with such rows are read for it beforehand.
//! Each window is put in order and added up on its own.
//!
//! If too many events have to wait, the earliest of them are forgotten, and another pass does their
//! time. Whatever the order of rows is, the result is the same; only the time it takes differs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use memtrace_trace::{AllocationRecord, BlockGroup};

use super::events::{Left, Owners};
use super::kept::Kept;
use super::order::Ordered;
use super::peaks::{Courses, Moves};
use super::sums::Sums;
use crate::error::Error;
use crate::parallel::{Turns, in_parallel, threads};

/// What bounds the memory a sweep takes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows of a window, unless a single row group has more.
    pub rows: u64,
    /// Events of a window, at most [`Ordered::EVENTS_MAX`]: 30 bytes each, 44 at most, and one
    /// window for each thread.
    pub events: usize,
    /// Events that wait for their window, and as many more that are about to: 32 bytes each.
    pub waiting: usize,
    /// Threads at work.
    pub threads: usize,
}

impl Limits {
    /// Below 200 MB in all; as many threads as there are processors, three at most.
    pub fn usual() -> Limits {
        Limits { rows: 1 << 19, events: Ordered::EVENTS_MAX, waiting: 1 << 20, threads: threads().min(3) }
    }
}

/// Rows that can be read on their own.
pub trait Group: Sync {
    /// How many.
    fn rows(&self) -> u64;
    /// When the first block was allocated and the last one, if that is known.
    fn acquires(&self) -> Option<(i64, i64)>;
    /// When the last release was, if there was one and that is known.
    fn last_release(&self) -> Option<i64>;
    /// True if some may not have been released.
    fn has_unreleased(&self) -> bool;
    /// Calls `each` with every row.
    fn records(&self, each: impl FnMut(&AllocationRecord) -> Result<(), Error>) -> Result<(), Error>;
}

impl Group for BlockGroup {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn acquires(&self) -> Option<(i64, i64)> {
        self.alloc_ns
    }

    fn last_release(&self) -> Option<i64> {
        self.free_ns.map(|(_, last)| last)
    }

    fn has_unreleased(&self) -> bool {
        self.unreleased
    }

    fn records(&self, mut each: impl FnMut(&AllocationRecord) -> Result<(), Error>) -> Result<(), Error> {
        let mut result = Ok(());
        let read = BlockGroup::records(self, |record| {
            if result.is_ok() {
                result = each(&record);
            }
        });
        read?;
        result
    }
}

/// A piece of time that is read at once, and the row groups whose last release lies in it.
struct Window<'a, G> {
    time: Range<i64>,
    groups: Vec<&'a G>,
}

/// The windows, the latest first. Row groups without a known release are read before all others.
fn windows<'a, G: Group>(groups: &'a [G], rows: u64, duration: i64) -> Vec<Window<'a, G>> {
    let end = duration.saturating_add(1);
    let until = |group: &G| group.last_release().map_or(end, |last| last.saturating_add(1).clamp(0, end));
    let mut groups: Vec<&G> = groups.iter().collect();
    groups.sort_by_key(|group| until(group));
    let mut windows = Vec::new();
    let (mut from, mut open, mut sum) = (0, Vec::new(), 0);
    for (index, group) in groups.iter().enumerate() {
        open.push(*group);
        sum += group.rows();
        let next = groups.get(index + 1);
        if next.is_none_or(|next| sum + next.rows() > rows) {
            let until = if next.is_none() { end } else { until(group) };
            while until - from > Ordered::LENGTH_MAX {
                windows.push(Window { time: from..from + Ordered::LENGTH_MAX, groups: Vec::new() });
                from += Ordered::LENGTH_MAX;
            }
            windows.push(Window { time: from..until, groups: std::mem::take(&mut open) });
            (from, sum) = (until, 0);
        }
    }
    windows.reverse();
    windows
}

/// Reads all rows: their sums, and the course of every process, site and span. `peak` is when live
/// bytes peaked.
pub fn sweep<G: Group>(
    groups: &[G],
    owners: &Owners,
    peak: i64,
    limits: Limits,
) -> Result<(Sums, Courses), Error> {
    let windows = windows(groups, limits.rows, owners.duration);
    let (mut sums, mut courses) = (Sums::new(owners, peak), Courses::new(owners));
    let mut until = owners.duration.saturating_add(1);
    let mut is_first = true;
    while until > 0 {
        let pass = Pass { owners, limits, windows: &windows, until, is_first, peak };
        until = pass.go(&mut sums, &mut courses)?;
        is_first = false;
    }
    sums.finish(owners);
    Ok((sums, courses))
}

/// Goes through the time before `until`, as far down as memory lets it.
struct Pass<'a, G> {
    owners: &'a Owners,
    limits: Limits,
    windows: &'a [Window<'a, G>],
    until: i64,
    is_first: bool,
    peak: i64,
}

/// What one thread works with.
struct Walker {
    sums: Sums,
    /// Events of the window.
    here: Ordered,
    /// Those of earlier ones that its rows stand for.
    earlier: Kept,
    courses: Courses,
}

impl<G: Group> Pass<'_, G> {
    /// Returns how far down it went: what is before that is not done.
    fn go(&self, sums: &mut Sums, courses: &mut Courses) -> Result<i64, Error> {
        let waiting = Turns::new(self.ahead()?);
        let joined = Mutex::new(Joined { courses, next: 0, waiting: BTreeMap::new() });
        let begin = || Walker {
            sums: Sums::new(self.owners, self.peak),
            here: Ordered::default(),
            earlier: Kept::default(),
            courses: Courses::new(self.owners),
        };
        let walkers = in_parallel(self.windows.len(), self.limits.threads, begin, |walker, index| {
            self.window(walker, index, &waiting, &joined)
        })?;
        walkers.into_iter().for_each(|walker| sums.join(walker.sums));
        let floor = waiting.into_inner().floor();
        if floor < self.until { Ok(floor) } else { Err(Error::Trace("too much happened at one time".into())) }
    }

    /// What rows say of times after the window of their group, and what processes left.
    fn ahead(&self) -> Result<Kept, Error> {
        let mut groups: Vec<(&G, i64)> = Vec::new();
        for window in self.windows {
            groups.extend(window.groups.iter().map(|group| (*group, window.time.end)));
        }
        groups.retain(|(group, until)| self.looks_ahead(*group, *until));
        let begin = || (Left::new(), Kept::new(0, self.limits.waiting / self.limits.threads));
        let parts = in_parallel(groups.len(), self.limits.threads, begin, |(left, ahead), index| {
            let (group, until) = groups[index];
            group.records(|record| {
                let owner = self.owners.owner(record)?;
                self.owners.note_left(record, owner, left);
                self.owners.events(record, owner, |event| {
                    if (until..self.until).contains(&event.time()) {
                        ahead.push(event);
                    }
                });
                Ok(())
            })
        })?;
        let (mut left, mut ahead) = (Left::new(), Kept::new(0, self.limits.waiting));
        for (part, mut events) in parts {
            ahead.join(&mut events);
            part.into_iter().for_each(|(at, bytes)| left.entry(at).or_default().add(bytes));
        }
        let left = self.owners.left(&left);
        ahead.make_room(left.len());
        left.into_iter().filter(|event| event.time() < self.until).for_each(|event| ahead.push(event));
        Ok(ahead)
    }

    /// True if rows of the group, whose window ends at `until`, may say something of later times or
    /// of what a process left.
    fn looks_ahead(&self, group: &G, until: i64) -> bool {
        let first_parted = self.owners.parted.iter().min();
        group.has_unreleased()
            || group.last_release() > first_parted.copied()
            || group.acquires().is_none_or(|(_, last)| last >= until)
    }

    fn window(
        &self,
        walker: &mut Walker,
        index: usize,
        waiting: &Turns<Kept>,
        joined: &Mutex<Joined>,
    ) -> Result<(), Error> {
        let turn = waiting.turn(index);
        let start = self.windows[index].time.start;
        walker.here.begin(start, self.limits.events);
        walker.earlier.begin(waiting.read(Kept::floor), self.limits.waiting / self.limits.threads);
        self.read(walker, &self.windows[index])?;
        let met = turn.take(|waiting| {
            waiting.join(&mut walker.earlier);
            waiting.move_to(start, &mut walker.here);
        });
        if met.is_some() {
            walker.here.sort();
            let moves = walker.courses.walk(self.owners, &walker.here);
            joined.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(index, moves);
        }
        Ok(())
    }

    /// Sorts what the rows of a window stand for into what happened in it, and what earlier.
    fn read(&self, walker: &mut Walker, window: &Window<G>) -> Result<(), Error> {
        let Walker { sums, here, earlier, .. } = walker;
        let Range { start, end } = window.time;
        for group in &window.groups {
            let is_done = group.acquires().is_some_and(|(first, _)| first >= self.until);
            if is_done && !self.is_first {
                continue;
            }
            let looks_ahead = self.looks_ahead(*group, end);
            group.records(|record| {
                let owner = self.owners.owner(record)?;
                if self.is_first {
                    sums.add(self.owners, record, owner);
                }
                let mut is_ahead = false;
                self.owners.events(record, owner, |event| match event.time() {
                    time if time >= end => is_ahead = true,
                    time if time >= self.until => {}
                    time if time >= start => here.push(&event),
                    _ => earlier.push(event),
                });
                if is_ahead && !looks_ahead {
                    return Err(Error::Trace(
                        "`allocations` has times that its own statistics exclude".into(),
                    ));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// What of the windows is added up, and what waits for a later one, so that no thread waits for a
/// slow one.
struct Joined<'a> {
    courses: &'a mut Courses,
    next: usize,
    waiting: BTreeMap<usize, Moves>,
}

impl Joined<'_> {
    fn add(&mut self, index: usize, moves: Moves) {
        self.waiting.insert(index, moves);
        while let Some(moves) = self.waiting.remove(&self.next) {
            self.courses.before(&moves);
            self.next += 1;
        }
    }
}
