//! A watched run as steps: what a program does from one look at its pages to the next. A step begins
//! just before a large block is allocated: only then pages can be moved.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use memtrace_trace::Trace;

use super::held::held;
use super::retained::Retained;
use super::{PAGE, pages};
use crate::placement::Error;
use crate::placement::observed::Observed;

/// A block that is released so many steps after its last use, or fewer, was used until then, if it was
/// gone before the next look.
const UNSEEN_STEPS: usize = 2;

/// A look is part of the allocation that follows so soon.
const AT_ONCE_NS: i64 = 100_000;

/// What happens to blocks (positions among all).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// One is allocated, and written for the first time.
    Allocated(usize),
    /// One is released.
    Released(usize),
}

/// From one look to the next, or a later one if no block is allocated until then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Objects that are used in it, and how many of their pages are written; without those that are
    /// allocated in it.
    pub uses: Vec<(usize, u64)>,
    /// Objects whose blocks were released before it was looked, and, at the program's end, whether they
    /// were used shortly before: nothing says whether they were used in this step.
    pub unseen: Vec<(usize, bool)>,
    /// What happens in it.
    pub changes: Vec<Change>,
    /// It uses objects before it allocates a block: they can be brought back only in the step before.
    pub begins_late: bool,
    /// It is a part of the same step as the one before.
    pub continues: bool,
}

/// All of a run.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    /// In their order.
    pub steps: Vec<Step>,
    /// Object of each block.
    pub objects: Vec<usize>,
    /// Pages of each object.
    pub pages: Vec<u64>,
    /// Of the bytes of the objects that are used, uses leave such a share alone: by the median of each
    /// object's uses, as a look may fall into one.
    pub unused_share: f64,
    /// The longest time without a look, of that between the first one and the last: all that is used in
    /// it counts as used at one time.
    pub longest_gap: f64,
}

impl Steps {
    /// Reads them.
    ///
    /// # Errors
    /// A table cannot be read, or the run was not watched.
    pub fn read(trace: &Trace, observed: &Observed, process: u32) -> Result<Steps, Error> {
        let Looks { looks, used } = Looks::read(trace, process)?;
        if looks.is_empty() {
            return Err(Error::Request(
                "the blocks in use could not be watched: in /proc/self, smaps or pagemap cannot be read here, or \
                 clear_refs cannot be written, or its system calls are filtered"
                    .into(),
            ));
        }
        if !used.is_empty() && used.iter().all(|block| block.seen.written_bytes == 0) {
            return Err(Error::Request(
                "the run was watched by an older memtrace, which did not see writes: learn it again".into(),
            ));
        }
        let mut steps = Steps {
            objects: observed.blocks.iter().map(|block| block.object).collect(),
            pages: observed.objects.iter().map(|object| pages(object.bytes)).collect(),
            ..Steps::default()
        };
        let mut changes: Vec<(i64, bool, usize)> = Vec::new();
        for (index, block) in observed.blocks.iter().enumerate() {
            changes.push((block.alloc_ns, true, index));
            changes.extend(block.free_ns.map(|free_ns| (free_ns, false, index)));
        }
        changes.sort_unstable();
        steps.longest_gap = longest_gap(&looks);
        let allocations: Vec<i64> = observed.blocks.iter().map(|block| block.alloc_ns).collect();
        let (all_looks, looks) = (&looks, beginnings(&looks, &allocations));
        steps.steps = vec![Step::default(); looks.len() + 1];
        let step_at = |time: i64| looks.partition_point(|look| *look <= time);
        for (time, is_allocated, block) in &changes {
            let change = if *is_allocated { Change::Allocated(*block) } else { Change::Released(*block) };
            steps.steps[step_at(*time)].changes.push(change);
        }
        // It was not looked between the beginning of the step and the change after the release. After the
        // last one the look at the program's end follows, which does not see the block.
        let mut until = vec![i64::MAX; observed.blocks.len()];
        for (index, (time, is_allocated, block)) in changes.iter().enumerate() {
            if !is_allocated {
                until[*block] = changes.get(index + 1).map_or(*time, |next| next.0);
            }
        }
        let is_unseen = |block: usize| {
            let released = observed.blocks[block].free_ns.unwrap_or(i64::MAX);
            let begin = step_at(released).checked_sub(1).map_or(i64::MIN, |index| looks[index]);
            let after = |time: i64| all_looks.partition_point(|look| *look <= time);
            after(begin) == after(until[block])
        };
        let used = used_objects(observed, &changes, &used, all_looks, step_at);
        steps.add_uses(&used, is_unseen);
        steps.unused_share = steps.unused_share_of(&used);
        steps.mark_late(&looks, observed);
        Ok(steps)
    }

    fn unused_share_of(&self, used: &BTreeMap<(usize, usize), Seen>) -> f64 {
        let mut by_object: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            for (object, _) in &step.uses {
                let seen = used.get(&(index, *object)).map(|seen| pages(seen.used()));
                by_object.entry(*object).or_default().extend(seen);
            }
        }
        let (mut all, mut unused) = (0.0, 0.0);
        for (object, mut used) in by_object {
            used.sort_unstable();
            if let Some(median) = used.get(used.len() / 2) {
                all += self.pages[object] as f64 * used.len() as f64;
                unused += self.pages[object].saturating_sub(*median) as f64 * used.len() as f64;
            }
        }
        unused / f64::max(all, 1.0)
    }

    /// Marks the steps that do not begin with the allocation of a block.
    fn mark_late(&mut self, looks: &[i64], observed: &Observed) {
        for (step, look) in self.steps.iter_mut().skip(1).zip(looks) {
            let begins_at_once = match step.changes.first() {
                Some(Change::Allocated(block)) => observed.blocks[*block].alloc_ns - look <= AT_ONCE_NS,
                _ => false,
            };
            step.begins_late = !begins_at_once;
        }
    }

    fn add_uses(&mut self, used: &BTreeMap<(usize, usize), Seen>, is_unseen: impl Fn(usize) -> bool) {
        let mut last: HashMap<usize, usize> = HashMap::new();
        let last_step = self.steps.len().saturating_sub(1);
        for index in 0..self.steps.len() {
            let mut uses: BTreeSet<usize> =
                used.range((index, 0)..(index + 1, 0)).map(|((_, object), _)| *object).collect();
            let mut unseen = Vec::new();
            for change in &self.steps[index].changes {
                match *change {
                    Change::Released(block) => {
                        let object = self.objects[block];
                        if !is_unseen(block) {
                            continue;
                        }
                        let used = last.get(&object).is_some_and(|last| index - last <= UNSEEN_STEPS);
                        // At the end all is released, whenever it was used.
                        if used && index < last_step {
                            uses.insert(object);
                        } else {
                            unseen.push((object, used));
                        }
                    }
                    Change::Allocated(block) => {
                        let object = self.objects[block];
                        last.insert(object, index);
                        uses.remove(&object);
                        unseen.retain(|(other, _)| *other != object);
                    }
                }
            }
            uses.iter().for_each(|object| _ = last.insert(*object, index));
            unseen.retain(|(object, _)| !uses.contains(object));
            unseen.sort_unstable();
            unseen.dedup();
            self.steps[index].unseen = unseen;
            let written = |object: usize| {
                let bytes = used.get(&(index, object)).map_or(0, |seen| seen.written_bytes);
                pages(bytes).min(self.pages[object])
            };
            self.steps[index].uses = uses.iter().map(|object| (*object, written(*object))).collect();
        }
    }

    /// Bytes of the program that belong to none of its large blocks: no more than so many in nine of ten
    /// of the times at which it has most of them. The highest may be of a time at which a block has just
    /// been released. Pages of files are left out, where they are known: the kernel takes them back
    /// first.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn other_bytes(&self, trace: &Trace, observed: &Observed, process: u32) -> Result<u64, Error> {
        let large = self.large_over_time(observed);
        let at = |time: i64| match large.partition_point(|(when, _)| *when <= time) {
            0 => 0,
            next => large[next - 1].1 * PAGE,
        };
        let most = large.iter().map(|(_, pages)| pages * PAGE).max().unwrap_or(0);
        let rows = trace.timeline()?;
        let rows = rows.iter().filter(|row| row.process == process && at(row.time_ns) >= most / 2);
        let mut others: Vec<u64> =
            rows.filter_map(|row| Some(held(row)?.saturating_sub(at(row.time_ns)))).collect();
        others.sort_unstable();
        let usual = others.get(others.len().saturating_sub(1) * 9 / 10).copied();
        Ok(usual.unwrap_or_else(|| trace.meta().peak.resident_bytes.saturating_sub(most)))
    }

    /// Pages of live and retained blocks after each change.
    fn large_over_time(&self, observed: &Observed) -> Vec<(i64, u64)> {
        let (mut live, mut retained) = (0, Retained::default());
        let mut over_time = Vec::new();
        for change in self.steps.iter().flat_map(|step| &step.changes) {
            let (block, time) = match *change {
                Change::Allocated(block) => (block, observed.blocks[block].alloc_ns),
                Change::Released(block) => (block, observed.blocks[block].free_ns.unwrap_or(i64::MAX)),
            };
            let pages = self.pages[self.objects[block]];
            match change {
                Change::Allocated(_) => {
                    retained.take(pages);
                    live += pages;
                }
                Change::Released(_) => {
                    retained.put(pages);
                    live -= pages;
                }
            }
            over_time.push((time, live + retained.pages()));
        }
        over_time
    }
}

/// The looks after which a block is allocated before the next one.
fn beginnings(looks: &[i64], allocations: &[i64]) -> Vec<i64> {
    let next = |index: usize| looks.get(index + 1).copied().unwrap_or(i64::MAX);
    let allocates = |from: i64, to: i64| {
        allocations.partition_point(|time| *time < from) < allocations.partition_point(|time| *time < to)
    };
    let kept = looks.iter().enumerate().filter(|(index, look)| allocates(**look, next(*index)));
    kept.map(|(_, look)| *look).collect()
}

/// A block that was seen to be used.
struct SeenBlock {
    time_ns: i64,
    /// Where it begins.
    address: u64,
    seen: Seen,
}

fn longest_gap(looks: &[i64]) -> f64 {
    let whole = looks.last().zip(looks.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
    let longest = looks.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
    longest as f64 / whole.max(1) as f64
}

/// What was seen of it.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    used_bytes: u64,
    written_bytes: u64,
}

impl Seen {
    /// What is written is used: the first versions named it once.
    fn used(&self) -> u64 {
        if self.used_bytes == 0 { self.written_bytes } else { self.used_bytes }
    }
}

/// What was seen of the blocks.
struct Looks {
    /// When it was looked.
    looks: Vec<i64>,
    used: Vec<SeenBlock>,
}

impl Looks {
    fn read(trace: &Trace, process: u32) -> Result<Looks, Error> {
        let (mut looks, mut used) = (Vec::new(), Vec::<SeenBlock>::new());
        trace.placements(|row| {
            if row.process == process {
                match (row.action.as_str(), row.address) {
                    ("look", _) => looks.push(row.time_ns),
                    (action @ ("use" | "write"), Some(address)) => {
                        let bytes = row.bytes.unwrap_or(0);
                        let seen = match action {
                            "use" => Seen { used_bytes: bytes, written_bytes: 0 },
                            _ => Seen { used_bytes: 0, written_bytes: bytes },
                        };
                        used.push(SeenBlock { time_ns: row.time_ns, address, seen });
                    }
                    _ => {}
                }
            }
        })?;
        looks.sort_unstable();
        used.sort_unstable_by_key(|seen| (seen.time_ns, seen.address));
        Ok(Looks { looks, used })
    }
}

/// Steps, and the objects that are used in them: what of them is.
fn used_objects(
    observed: &Observed,
    changes: &[(i64, bool, usize)],
    used: &[SeenBlock],
    looks: &[i64],
    step_at: impl Fn(i64) -> usize,
) -> BTreeMap<(usize, usize), Seen> {
    let mut live: HashMap<u64, usize> = HashMap::new();
    // A release is on record before the look that precedes it.
    let mut released: VecDeque<(i64, usize)> = VecDeque::new();
    let next_look = |time: i64| looks.get(looks.partition_point(|look| *look <= time)).copied();
    let mut changes = changes.iter().peekable();
    let mut objects: BTreeMap<_, Seen> = BTreeMap::new();
    for SeenBlock { time_ns, address, seen } in used {
        while let Some((when, is_allocated, block)) = changes.next_if(|(when, ..)| when < time_ns) {
            if *is_allocated {
                live.insert(observed.blocks[*block].address, *block);
            } else {
                released.push_back((next_look(*when).unwrap_or(i64::MAX), *block));
            }
        }
        while let Some((gone, block)) = released.front().copied()
            && gone < *time_ns
        {
            released.pop_front();
            let address = observed.blocks[block].address;
            if live.get(&address) == Some(&block) {
                live.remove(&address);
            }
        }
        if let Some(block) = live.get(address) {
            // It is said at the end of the step.
            let use_of = (step_at(*time_ns), observed.blocks[*block].object);
            let most = objects.entry(use_of).or_default();
            most.used_bytes = most.used_bytes.max(seen.used_bytes);
            most.written_bytes = most.written_bytes.max(seen.written_bytes);
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_a_share_of_all() {
        assert_eq!(longest_gap(&[-5, 0, 70, 95]), 0.7);
        assert_eq!([longest_gap(&[7]), longest_gap(&[]), longest_gap(&[3, 3])], [0.0; 3]);
    }

    #[test]
    fn a_look_in_the_middle_of_a_use_does_not_make_it_one_of_a_part() {
        let step = |objects: &[usize]| Step {
            uses: objects.iter().map(|object| (*object, 0)).collect(),
            ..Step::default()
        };
        let steps = vec![step(&[0, 1]), step(&[0]), step(&[0, 1]), step(&[0, 1])];
        let steps = Steps { steps, pages: vec![30, 10], ..Steps::default() };
        let pages =
            [((0, 0), 30), ((1, 0), 10), ((2, 0), 20), ((3, 0), 30), ((0, 1), 5), ((2, 1), 5), ((3, 1), 5)];
        let seen = |pages: u64| Seen { used_bytes: pages * PAGE, written_bytes: 0 };
        let used = pages.into_iter().map(|(use_of, pages)| (use_of, seen(pages))).collect();
        assert_eq!(steps.unused_share_of(&used), 15.0 / 150.0);
        let only_written = |of: &Seen| Seen { used_bytes: 0, written_bytes: of.used_bytes };
        let used = used.iter().map(|(use_of, seen)| (*use_of, only_written(seen))).collect();
        assert_eq!(steps.unused_share_of(&used), 15.0 / 150.0);
    }
}
