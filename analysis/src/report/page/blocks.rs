//! One pass over the rows of blocks: by how much the live bytes of call stacks and processes change
//! between the times of the page, which blocks were temporary, and what spans held at their peaks.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use memtrace_trace::rows::SiteRow;
use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{AllocationRecord, Meta, Trace};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::curves::Busiest;
use super::groups::{self, Course, Detail, Group, Grouping, Groups, Numbers};
use super::spans::Spans;
use super::tree::Kept;
use crate::error::Error;
use crate::parallel::{in_parallel, threads};
use crate::report::flame::TEMPORARY_NS;
use crate::report::histograms::Counts;
use crate::report::sites::{Live, enough};

/// Mappings up to this size count whole, as they do in live bytes until a sample shows otherwise.
const WHOLE_MAX: u64 = 1 << 20;

/// What the rows of blocks say.
pub struct Blocks {
    /// By time, site and group, the change of live bytes since the time before.
    changes: FxHashMap<(u16, u32, Group), Change>,
    /// The live bytes of each group over time.
    pub courses: FxHashMap<Group, Course>,
    /// How finely groups are told apart.
    detail: Detail,
    /// Temporary blocks: their number by site, and of all.
    pub temporary: Counted,
    /// By marked span, bytes at its working peak.
    pub spans: Vec<Counted>,
    /// The block that set the peak of live bytes.
    pub last: Option<LastBlock>,
    /// All heap blocks by size and lifetime.
    pub counts: Counts,
}

/// Of the blocks that were live at the peak of live bytes the last one, and of several the largest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastBlock {
    /// When it was allocated.
    pub alloc_ns: i64,
    /// Its size.
    pub bytes: u64,
    /// The process that allocated it.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The innermost span of that thread.
    pub span: Option<u32>,
}

/// Something by site, and the sum of all: not every block has a site.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// By the place of the site.
    pub sites: FxHashMap<u32, Live>,
    /// Of all blocks.
    pub all: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Change {
    exact: i64,
    sampled: i64,
    mapped: i64,
}

impl Change {
    fn add(&mut self, more: Change) {
        self.exact = self.exact.wrapping_add(more.exact);
        self.sampled = self.sampled.wrapping_add(more.sampled);
        self.mapped = self.mapped.wrapping_add(more.mapped);
    }

    fn is_none(&self) -> bool {
        self.exact == 0 && self.sampled == 0 && self.mapped == 0
    }
}

/// Changes of live bytes by site, as columns. Sampled bytes are what heap blocks count for that were
/// sampled: they are scaled like those at the peak. Mapped bytes are scaled to what was touched.
#[derive(Debug, Serialize)]
pub struct Moments {
    /// The time, by its place in the timeline.
    pub time: Vec<u16>,
    /// The call stack, by its place in the tree.
    pub site: Vec<u32>,
    /// Whose blocks they are, by their place among the groups.
    pub group: Vec<u16>,
    /// Change of heap bytes that are known.
    pub exact: Vec<i64>,
    /// Change of heap bytes that are estimated.
    pub sampled: Vec<i64>,
    /// Change of the bytes of mappings that count whole.
    pub mapped: Vec<i64>,
    /// Sampled bytes below this are too few to scale up.
    pub enough: u64,
    /// Processes, threads and operators that are told apart.
    pub groups: Groups,
}

/// Reads all rows of blocks.
pub fn read(
    trace: &Trace,
    times: &[i64],
    sites: &[SiteRow],
    spans: &Spans,
    busiest: &Busiest,
    grouping: &Grouping,
) -> Result<Blocks, Error> {
    let processes = trace.processes()?;
    let reading = Reading {
        times,
        peak_ns: trace.meta().peak.peak_ns,
        sites: sites.iter().map(|row| row.site).zip(0..).collect(),
        parted: processes.iter().map(|row| row.parted_ns.or(row.end_ns).unwrap_or(i64::MAX)).collect(),
        weights: SiteWeights::of(trace.meta()),
        spans,
        busiest,
        grouping,
    };
    let groups = trace.block_groups()?;
    let parts = in_parallel(
        groups.len(),
        threads(),
        || reading.begin(),
        |blocks, index| groups[index].records(|record| reading.add(blocks, &record)).map_err(Error::from),
    )?;
    let mut sum = reading.begin();
    parts.into_iter().for_each(|part| sum.join(part));
    Ok(sum)
}

/// What rows are read with.
struct Reading<'a> {
    times: &'a [i64],
    peak_ns: i64,
    sites: FxHashMap<u64, u32>,
    parted: Vec<i64>,
    weights: SiteWeights,
    spans: &'a Spans,
    busiest: &'a Busiest,
    grouping: &'a Grouping<'a>,
}

impl Reading<'_> {
    fn begin(&self) -> Blocks {
        Blocks {
            changes: FxHashMap::default(),
            courses: FxHashMap::default(),
            detail: Detail::default(),
            temporary: Counted::default(),
            spans: vec![Counted::default(); self.spans.marked.len()],
            last: None,
            counts: Counts::default(),
        }
    }

    fn add(&self, blocks: &mut Blocks, record: &AllocationRecord) {
        let (heap, own) = (record.kind.is_heap(), record.kind.is_own_memory());
        if !heap && !own {
            return;
        }
        blocks.counts.add(record);
        let site = record.site.and_then(|site| self.sites.get(&site)).copied();
        let weighed = self.weigh(record, heap);
        if record.alloc_ns <= self.peak_ns && record.free_ns.is_none_or(|free| self.peak_ns < free) {
            blocks.last = blocks.last.take().max(Some(LastBlock::of(record)));
        }
        if let Some(span) = record.span {
            self.add_to_spans(blocks, record, span, site, weighed);
        }
        if heap {
            let soon = |free: i64| free.saturating_sub(record.alloc_ns) <= TEMPORARY_NS;
            if record.free_ns.is_some_and(soon) {
                blocks.temporary.add(site, self.stands_for(record), 1);
            }
        }
        if heap || record.bytes <= WHOLE_MAX {
            self.add_to_times(blocks, record, heap, site, weighed);
        }
    }

    /// What a block counts for at its site.
    fn weigh(&self, record: &AllocationRecord, heap: bool) -> Live {
        if !heap || self.weights.is_exact(record.bytes) {
            return Live { bytes: record.bytes, sampled: 0 };
        }
        let bytes = self.weights.bytes(record.bytes);
        Live { bytes, sampled: bytes }
    }

    /// How many blocks it counts for at its site.
    fn stands_for(&self, record: &AllocationRecord) -> Live {
        let blocks = self.weights.blocks(record.bytes);
        Live { bytes: blocks, sampled: if self.weights.is_exact(record.bytes) { 0 } else { blocks } }
    }

    fn add_to_spans(
        &self,
        blocks: &mut Blocks,
        record: &AllocationRecord,
        span: u32,
        site: Option<u32>,
        weighed: Live,
    ) {
        for at in self.spans.around(span) {
            let marked = &self.spans.marked[at];
            let is_there = record.alloc_ns <= marked.peak_ns
                && record.free_ns.is_none_or(|free| marked.peak_ns < free)
                && record.process == marked.process;
            if is_there {
                blocks.spans[at].add(site, weighed, record.bytes);
            }
        }
    }

    fn add_to_times(
        &self,
        blocks: &mut Blocks,
        record: &AllocationRecord,
        heap: bool,
        site: Option<u32>,
        weighed: Live,
    ) {
        let parted = self.parted.get(record.process as usize).copied().unwrap_or(i64::MAX);
        let until = record.free_ns.unwrap_or(i64::MAX).min(parted);
        let first = self.times.partition_point(|time| *time < record.alloc_ns);
        let gone = first + self.times[first..].partition_point(|time| *time < until);
        if first == gone || record.alloc_ns > parted {
            return;
        }
        let Some(curve) = self.busiest.row(record.process) else { return };
        let group = blocks.detail.of(self.grouping.group(record, curve));
        let course = blocks.courses.entry(group).or_insert_with(|| vec![[0; 2]; self.times.len()]);
        let known = i64::try_from(record.bytes).unwrap_or(i64::MAX);
        let (bytes, sampled) = (weighed.bytes as i64, weighed.sampled as i64);
        for (at, sign) in [(first, 1), (gone, -1)] {
            let Some(change) = course.get_mut(at) else { continue };
            let change = &mut change[usize::from(!heap)];
            *change = change.wrapping_add(sign * known);
            if let Some(site) = site {
                let more = match heap {
                    true => Change { exact: sign * (bytes - sampled), sampled: sign * sampled, mapped: 0 },
                    false => Change { mapped: sign * bytes, ..Change::default() },
                };
                blocks.changes.entry((at as u16, site, group)).or_default().add(more);
            }
        }
        blocks.make_room();
    }
}

impl LastBlock {
    fn of(record: &AllocationRecord) -> LastBlock {
        let AllocationRecord { alloc_ns, bytes, process, thread, span, .. } = *record;
        LastBlock { alloc_ns, bytes, process, thread, span }
    }
}

impl Counted {
    fn add(&mut self, site: Option<u32>, weighed: Live, all: u64) {
        self.all = self.all.saturating_add(all);
        if let Some(site) = site {
            self.join_site(site, weighed);
        }
    }

    fn join_site(&mut self, site: u32, more: Live) {
        let sum = self.sites.entry(site).or_default();
        sum.bytes = sum.bytes.saturating_add(more.bytes);
        sum.sampled = sum.sampled.saturating_add(more.sampled);
    }

    fn join(&mut self, other: Counted) {
        self.all = self.all.saturating_add(other.all);
        other.sites.into_iter().for_each(|(site, live)| self.join_site(site, live));
    }
}

impl Blocks {
    /// Tells groups apart by less where there are too many.
    fn make_room(&mut self) {
        while let Some(coarser) = self.detail.coarser(self.courses.len(), self.changes.len()) {
            self.coarsen(coarser);
        }
    }

    fn coarsen(&mut self, detail: Detail) {
        self.detail = detail;
        let (changes, courses) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.courses));
        self.join_groups(changes, courses);
    }

    fn join_groups(
        &mut self,
        changes: FxHashMap<(u16, u32, Group), Change>,
        courses: FxHashMap<Group, Course>,
    ) {
        for ((time, site, group), more) in changes {
            self.changes.entry((time, site, self.detail.of(group))).or_default().add(more);
        }
        for (group, course) in courses {
            match self.courses.entry(self.detail.of(group)) {
                Entry::Occupied(sums) => groups::add(sums.into_mut(), &course),
                Entry::Vacant(none) => drop(none.insert(course)),
            }
        }
    }

    fn join(&mut self, other: Blocks) {
        if other.detail > self.detail {
            self.coarsen(other.detail);
        }
        self.join_groups(other.changes, other.courses);
        self.make_room();
        self.temporary.join(other.temporary);
        self.counts.join(other.counts);
        self.last = self.last.take().max(other.last);
        self.spans.iter_mut().zip(other.spans).for_each(|(sum, more)| sum.join(more));
    }

    /// The most that each site had at any of the times.
    pub fn largest(&self) -> FxHashMap<u32, u64> {
        let mut now: FxHashMap<u32, i64> = FxHashMap::default();
        let mut most: FxHashMap<u32, u64> = FxHashMap::default();
        for ((_, site, _), change) in self.in_order() {
            let live = now.entry(site).or_default();
            *live = live.wrapping_add(change.exact).wrapping_add(change.sampled).wrapping_add(change.mapped);
            let largest = most.entry(site).or_default();
            *largest = (*largest).max((*live).max(0) as u64);
        }
        most
    }

    /// How many changes each site has.
    pub fn changes_by_site(&self) -> FxHashMap<u32, usize> {
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        self.changes.keys().for_each(|(_, site, _)| *counts.entry(*site).or_default() += 1);
        counts
    }

    fn in_order(&self) -> Vec<((u16, u32, Group), Change)> {
        let mut changes: Vec<_> = self.changes.iter().map(|(key, change)| (*key, *change)).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }

    /// Those of the sites that the page has; the others are joined.
    pub fn moments(&self, meta: &Meta, kept: &Kept, grouping: &Grouping) -> Moments {
        let numbers = Numbers::of(self.detail, self.courses.keys());
        let mut joined: BTreeMap<(u16, u32, u16), Change> = BTreeMap::new();
        for ((time, site, group), change) in self.in_order() {
            joined.entry((time, kept.place(site), numbers.place(group))).or_default().add(change);
        }
        joined.retain(|_, change| !change.is_none());
        Moments {
            time: joined.keys().map(|(time, ..)| *time).collect(),
            site: joined.keys().map(|(_, site, _)| *site).collect(),
            group: joined.keys().map(|(.., group)| *group).collect(),
            exact: joined.values().map(|change| change.exact).collect(),
            sampled: joined.values().map(|change| change.sampled).collect(),
            mapped: joined.values().map(|change| change.mapped).collect(),
            enough: enough(meta),
            groups: numbers.columns(grouping, &self.courses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(groups: impl Iterator<Item = Group>) -> Blocks {
        let mut blocks = Blocks {
            changes: FxHashMap::default(),
            courses: FxHashMap::default(),
            detail: Detail::default(),
            temporary: Counted::default(),
            spans: Vec::new(),
            last: None,
            counts: Counts::default(),
        };
        for group in groups {
            let change = Change { exact: 1, ..Change::default() };
            let one = [((0, 0, group), change)].into_iter().collect();
            blocks.join_groups(one, [(group, vec![[1, 0]])].into_iter().collect());
            blocks.make_room();
        }
        blocks
    }

    fn sums(blocks: &Blocks) -> (i64, i64) {
        let changes = blocks.changes.values().map(|change| change.exact).sum();
        (changes, blocks.courses.values().map(|course| course[0][0]).sum())
    }

    #[test]
    fn groups_are_told_apart_by_less_while_rows_are_read_and_no_byte_is_lost() {
        let many = || (0..24).flat_map(|thread| (0..=255).map(move |bits| Group::new(1, thread, bits)));
        let read = blocks(many());
        assert!(read.detail == Detail::Operators && read.courses.len() == 256);
        assert_eq!(sums(&read), (24 * 256, 24 * 256));
        let mut few = blocks(many().take(9));
        assert!(few.detail == Detail::Threads && few.courses.len() == 9);
        few.join(read);
        assert!(few.detail == Detail::Operators && few.courses.len() == 256);
        assert_eq!(sums(&few), (24 * 256 + 9, 24 * 256 + 9));
        let processes = (0..3).flat_map(|curve| (0..=255).map(move |bits| Group::new(curve, 0, bits)));
        assert_eq!(blocks(processes).courses.len(), 3);
    }
}
