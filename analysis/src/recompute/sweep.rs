//! Goes through the rows of a trace in the order of time without ever holding them all.
//!
//! Rows come roughly in the order of their releases, so a row group mostly holds what happened between its first
//! and its last release; what happened to its blocks outside of that is *far*. A first pass counts events over
//! time and keeps the far ones; time is then cut into windows of about equally many events, and each is put in
//! order and added up on its own, from the row groups whose releases reach into it and the far events in it. If
//! there are too many far events to keep, they are gathered for some windows at a time, with another pass each.
//! Whatever the order of rows is, the result is the same; only the time it takes differs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use memtrace_trace::{BlockGroup, Life};

use super::events::{Cast, Event};
use super::order::Ordered;
use super::peaks::{Courses, Moves};
use super::slots::{Slots, Window, batches};
use super::sums::Sums;
use crate::error::Error;
use crate::parallel::{in_parallel, threads};

/// What bounds the memory a sweep takes: 32 bytes an event.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events put in order at once by all threads; half as many again where they come thick.
    pub events: usize,
    /// Far events kept at once by all threads.
    pub far: usize,
    /// Threads at work.
    pub threads: usize,
}

impl Limits {
    /// Below 200 MB in all; as many threads as there are processors, four at most.
    pub fn usual() -> Limits {
        Limits { events: 1 << 21, far: 1 << 20, threads: threads() }
    }
}

/// Rows that can be read on their own.
pub trait Group: Sync {
    /// Time of the first and of the last release among them, if there was one and that is known.
    fn releases(&self) -> Option<(i64, i64)>;
    /// Hands over every row.
    fn lives(&self, each: impl FnMut(&Life) -> Result<(), Error>) -> Result<(), Error>;
}

impl Group for BlockGroup {
    fn releases(&self) -> Option<(i64, i64)> {
        self.free_ns
    }

    fn lives(&self, mut each: impl FnMut(&Life) -> Result<(), Error>) -> Result<(), Error> {
        let mut result = Ok(());
        let read = BlockGroup::lives(self, |life| {
            if result.is_ok() {
                result = each(&life);
            }
        });
        read.map_err(|error| Error::Trace(error.to_string()))?;
        result
    }
}

/// Reads all rows: their sums, and everybody's course. `peak` is when live bytes peaked.
pub fn sweep<G: Group>(
    groups: &[G],
    cast: &Cast,
    peak: i64,
    limits: Limits,
) -> Result<(Sums, Courses), Error> {
    let mut first = first_pass(groups, cast, peak, limits)?;
    first.sums.finish(cast);
    let left = cast.left(&first.sums.left);
    let windows = first.slots.windows(limits.events / limits.threads, groups.iter().map(Group::releases));
    let mut courses = Courses::new(cast);
    let mut far = first.far;
    for some in batches(&windows, if far.is_some() { usize::MAX } else { limits.far }) {
        let (from, until) = (windows[some.start].from, windows[some.end - 1].until);
        let mut far = match far.take() {
            Some(all) => all,
            None => gather(groups, cast, from..until, limits.threads)?,
        };
        far.extend(left.iter().filter(|event| (from..until).contains(&event.time)));
        far.sort_unstable_by_key(Event::key);
        walk(groups, cast, &windows[some], &far, &mut courses, limits.threads)?;
    }
    Ok((first.sums, courses))
}

/// What the first pass finds.
struct First {
    sums: Sums,
    slots: Slots,
    /// The far events, unless there were too many.
    far: Option<Vec<Event>>,
}

fn first_pass<G: Group>(groups: &[G], cast: &Cast, peak: i64, limits: Limits) -> Result<First, Error> {
    let begin =
        || First { sums: Sums::new(cast, peak), slots: Slots::new(cast.duration), far: Some(Vec::new()) };
    let parts = in_parallel(groups.len(), limits.threads, begin, |first, index| {
        let group = &groups[index];
        group.lives(|life| {
            first.sums.add(cast, life)?;
            cast.events(life, |event| {
                let is_far = !is_near(group, &event);
                first.slots.count(event.time, is_far);
                if is_far && let Some(far) = &mut first.far {
                    far.push(event);
                }
            })?;
            if first.far.as_ref().is_some_and(|far| far.len() > limits.far / limits.threads) {
                first.far = None;
            }
            Ok(())
        })
    })?;
    let mut all = begin();
    for part in parts {
        all.sums.join(part.sums);
        all.slots.join(&part.slots);
        all.far = all.far.zip(part.far).map(|(mut all, part)| {
            all.extend(part);
            all
        });
    }
    Ok(all)
}

/// The far events of a time.
fn gather<G: Group>(
    groups: &[G],
    cast: &Cast,
    time: Range<i64>,
    threads: usize,
) -> Result<Vec<Event>, Error> {
    let parts = in_parallel(groups.len(), threads, Vec::new, |far: &mut Vec<Event>, index| {
        let group = &groups[index];
        group.lives(|life| {
            cast.events(life, |event| {
                if time.contains(&event.time) && !is_near(group, &event) {
                    far.push(event);
                }
            })
        })
    })?;
    Ok(parts.concat())
}

/// What of the windows is added up, and what waits for an earlier one.
struct Joined<'a> {
    courses: &'a mut Courses,
    next: usize,
    waiting: BTreeMap<usize, Vec<Moves>>,
}

fn walk<G: Group>(
    groups: &[G],
    cast: &Cast,
    windows: &[Window],
    far: &[Event],
    courses: &mut Courses,
    threads: usize,
) -> Result<(), Error> {
    let joined = Mutex::new(Joined { courses, next: 0, waiting: BTreeMap::new() });
    let begin = || Walker { groups, cast, far, changes: Ordered::default(), courses: Courses::new(cast) };
    in_parallel(windows.len(), threads, begin, |walker, index| {
        let mut moves = Vec::new();
        walker.window(&windows[index], &mut moves)?;
        let mut joined = joined.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        joined.waiting.insert(index, moves);
        let Joined { courses, next, waiting } = &mut *joined;
        while let Some(moves) = waiting.remove(next) {
            moves.iter().for_each(|moves| courses.then(moves));
            *next += 1;
        }
        Ok(())
    })?;
    Ok(())
}

/// Goes through one window at a time.
struct Walker<'a, G> {
    groups: &'a [G],
    cast: &'a Cast,
    far: &'a [Event],
    changes: Ordered,
    courses: Courses,
}

impl<G: Group> Walker<'_, G> {
    /// What happened in a window; one that is too long, or came out too full, is gone through in halves.
    fn window(&mut self, window: &Window, moves: &mut Vec<Moves>) -> Result<(), Error> {
        let length = window.until.saturating_sub(window.from);
        if length < Ordered::LENGTH_MAX && self.collect(window)? {
            self.changes.sort();
            moves.push(self.courses.walk(self.cast, &self.changes));
            return Ok(());
        }
        if length < 2 {
            return Err(Error::Trace("too much happened in one nanosecond".into()));
        }
        let middle = window.from + length / 2;
        self.window(&Window { until: middle, ..*window }, moves)?;
        self.window(&Window { from: middle, ..*window }, moves)
    }

    /// Collects the events of a window; false if they are too many.
    fn collect(&mut self, window: &Window) -> Result<bool, Error> {
        let Self { groups, cast, far, changes, .. } = self;
        let time = window.from..window.until;
        changes.begin(window.from, window.events.min(Ordered::CHANGES_MAX));
        let reaches = |(first, last)| first < window.until && window.from <= last;
        for group in groups.iter().filter(|group| group.releases().is_some_and(reaches)) {
            group.lives(|life| {
                cast.events(life, |event| {
                    let is_here = time.contains(&event.time) && is_near(group, &event);
                    if is_here && changes.len() < Ordered::CHANGES_MAX {
                        changes.push(&event);
                    }
                })
            })?;
        }
        let bound = |time: i64| far.partition_point(|event| event.time < time);
        let far = &far[bound(window.from)..bound(window.until)];
        let fits = changes.len() + far.len() < Ordered::CHANGES_MAX;
        far.iter().filter(|_| fits).for_each(|event| changes.push(event));
        Ok(fits)
    }
}

/// True if the event lies between the first and the last release of its row group.
#[inline]
fn is_near(group: &impl Group, event: &Event) -> bool {
    group.releases().is_some_and(|(first, last)| first <= event.time && event.time <= last)
}
