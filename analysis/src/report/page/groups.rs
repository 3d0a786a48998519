//! Whose blocks are: their process, their thread, and the operators that they were allocated in.
//! The page can show the live bytes of each by itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memtrace_trace::rows::ThreadRow;
use memtrace_trace::{AllocationRecord, Trace};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::curves::Busiest;
use super::spans::Spans;
use super::{NAME_MAX, clipped};
use crate::error::Error;

/// Threads that are told apart: those with most events.
const THREADS_MAX: usize = 24;
/// Groups that the page has.
const GROUPS_MAX: usize = 300;
/// Changes of live bytes in memory, by time, call stack and group, where groups can be fewer.
const CHANGES_MAX: usize = 1 << 21;

/// Blocks of one process, thread and set of operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The place of its process among the curves.
    curve: u8,
    /// The place of its thread, if that is told apart.
    thread: Option<u8>,
    /// A bit for each of the operators, by its place.
    operators: u8,
}

#[cfg(test)]
impl Group {
    /// The group of a thread.
    pub fn new(curve: u8, thread: u8, operators: u8) -> Group {
        Group { curve, thread: Some(thread), operators }
    }
}

/// By how much live bytes change at each of the times: of the heap, and of mappings that count whole.
pub type Course = Vec<[i64; 2]>;

/// Which threads are told apart, and which operators each span is inside of.
pub struct Grouping<'a> {
    threads: Vec<ThreadRow>,
    places: FxHashMap<u32, u8>,
    spans: &'a Spans,
}

/// Columns of groups, and of the changes of their live bytes.
#[derive(Debug, Serialize)]
pub struct Groups {
    /// Threads that are told apart: index in the trace, index of the process, and the kernel's id.
    pub threads: Vec<(u32, u32, u32)>,
    /// Operators that are told apart.
    pub operators: Vec<String>,
    /// A span of each: queries find an operator by it, whatever its name holds.
    pub operator_spans: Vec<u32>,
    /// The curve of each group's process, by its place in the timeline.
    pub curve: Vec<u8>,
    /// The place of its thread; null for all others of the process.
    pub thread: Vec<Option<u8>>,
    /// A bit for each operator that its blocks were allocated in, also further inside.
    pub operator_bits: Vec<u8>,
    /// The group of each change.
    pub group: Vec<u16>,
    /// The time, by its place in the timeline.
    pub time: Vec<u16>,
    /// Change of heap bytes since the time before.
    pub heap: Vec<i64>,
    /// Change of the bytes of mappings that count whole.
    pub mapped: Vec<i64>,
}

impl<'a> Grouping<'a> {
    /// The threads of processes that have a curve of their own.
    pub fn of(trace: &Trace, busiest: &Busiest, spans: &'a Spans) -> Result<Grouping<'a>, Error> {
        let mut threads = trace.threads()?;
        threads.retain(|row| busiest.is_apart(row.process));
        threads.sort_by_key(|row| (Reverse(row.events), row.thread));
        threads.truncate(THREADS_MAX);
        let places = threads.iter().map(|row| row.thread).zip(0..).collect();
        Ok(Grouping { threads, places, spans })
    }

    /// The group of a block whose process has this curve.
    pub fn group(&self, record: &AllocationRecord, curve: usize) -> Group {
        Group {
            curve: curve as u8,
            thread: self.places.get(&record.thread).copied(),
            operators: record.span.map_or(0, |span| self.spans.operators_around(span)),
        }
    }
}

/// How finely groups are told apart, the finest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    #[default]
    Threads,
    Operators,
    Processes,
}

impl Detail {
    /// The group that a group is part of.
    pub fn of(self, group: Group) -> Group {
        match self {
            Detail::Threads => group,
            Detail::Operators => Group { thread: None, ..group },
            Detail::Processes => Group { curve: group.curve, ..Group::default() },
        }
    }

    /// The next coarser one, where there is no room for so many groups or changes.
    pub fn coarser(self, groups: usize, changes: usize) -> Option<Detail> {
        match self {
            _ if groups <= GROUPS_MAX && changes <= CHANGES_MAX => None,
            Detail::Threads => Some(Detail::Operators),
            Detail::Operators => Some(Detail::Processes),
            Detail::Processes => None,
        }
    }
}

/// The numbers of groups on the page.
pub struct Numbers {
    detail: Detail,
    places: BTreeMap<Group, u16>,
}

impl Numbers {
    /// Numbers these, which are told apart as finely as that.
    pub fn of<'a>(detail: Detail, groups: impl Iterator<Item = &'a Group>) -> Numbers {
        let groups: BTreeSet<Group> = groups.copied().collect();
        Numbers { detail, places: groups.into_iter().zip(0..).collect() }
    }

    /// The number of a group.
    pub fn place(&self, group: Group) -> u16 {
        self.places.get(&group).copied().unwrap_or(0)
    }

    /// Their columns.
    pub fn columns(&self, grouping: &Grouping, courses: &FxHashMap<Group, Course>) -> Groups {
        let mut changes: BTreeMap<(u16, u16), [i64; 2]> = BTreeMap::new();
        for (group, course) in courses {
            let number = self.place(*group);
            for (time, change) in (0..).zip(course).filter(|(_, change)| **change != [0; 2]) {
                let sum = changes.entry((number, time)).or_default();
                *sum = [sum[0].wrapping_add(change[0]), sum[1].wrapping_add(change[1])];
            }
        }
        changes.retain(|_, change| *change != [0; 2]);
        let (threads, operators) = match self.detail {
            Detail::Threads => (grouping.threads.as_slice(), grouping.spans.operators()),
            Detail::Operators => (&[][..], grouping.spans.operators()),
            Detail::Processes => (&[][..], &[][..]),
        };
        let name = |marked: &super::spans::Marked| clipped(&marked.operator, NAME_MAX).into();
        Groups {
            threads: threads.iter().map(|row| (row.thread, row.process, row.tid)).collect(),
            operators: operators.iter().map(name).collect(),
            operator_spans: operators.iter().map(|marked| marked.span).collect(),
            curve: self.places.keys().map(|group| group.curve).collect(),
            thread: self.places.keys().map(|group| group.thread).collect(),
            operator_bits: self.places.keys().map(|group| group.operators).collect(),
            group: changes.keys().map(|(group, _)| *group).collect(),
            time: changes.keys().map(|(_, time)| *time).collect(),
            heap: changes.values().map(|change| change[0]).collect(),
            mapped: changes.values().map(|change| change[1]).collect(),
        }
    }
}

/// What all groups of each curve's process have together.
pub fn by_curve(courses: &FxHashMap<Group, Course>, curves: usize, times: usize) -> Vec<Course> {
    let mut sums = vec![vec![[0; 2]; times]; curves];
    for (group, course) in courses {
        add(&mut sums[usize::from(group.curve)], course);
    }
    sums
}

/// Adds the changes of a course to those of another.
pub fn add(sums: &mut [[i64; 2]], course: &[[i64; 2]]) {
    for (sum, more) in sums.iter_mut().zip(course) {
        *sum = [sum[0].wrapping_add(more[0]), sum[1].wrapping_add(more[1])];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(curve: u8, thread: u8, operators: u8) -> Group {
        Group::new(curve, thread, operators)
    }

    #[test]
    fn groups_beyond_what_there_is_room_for_are_told_apart_by_less() {
        assert_eq!(Detail::Threads.coarser(GROUPS_MAX, CHANGES_MAX), None);
        assert_eq!(Detail::Threads.coarser(GROUPS_MAX + 1, 1), Some(Detail::Operators));
        assert_eq!(Detail::Operators.coarser(1, CHANGES_MAX + 1), Some(Detail::Processes));
        assert_eq!(Detail::Processes.coarser(GROUPS_MAX + 1, 1), None);
        assert_eq!(Detail::Operators.of(group(0, 3, 7)), Detail::Operators.of(group(0, 9, 7)));
        assert_eq!(Detail::Processes.of(group(1, 3, 7)), Detail::Processes.of(group(1, 9, 6)));
    }

    #[test]
    fn courses_of_a_process_are_those_of_its_groups() {
        let courses: FxHashMap<Group, Course> = [
            (group(0, 0, 1), vec![[3, 0], [-3, 1]]),
            (group(0, 1, 0), vec![[4, 0], [0, 0]]),
            (group(1, 2, 0), vec![[0, 0], [9, 9]]),
        ]
        .into_iter()
        .collect();
        assert_eq!(by_curve(&courses, 2, 2), [[[7, 0], [-3, 1]], [[0, 0], [9, 9]]]);
    }
}
