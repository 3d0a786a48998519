//! The tasks of a grid, one by one.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Whole;
use crate::graph::measure::as_one;
use crate::graph::walk::Task;
use crate::graph::{Error, Work};
use crate::plan::frontier::block_order;
use crate::plan::grid::Grid;

/// The tasks of a grid, in the order in which they should run.
pub(in crate::graph) struct Tasks {
    pub(in crate::graph) tasks: Vec<Task>,
    /// The last step of each.
    pub(in crate::graph) steps: Vec<usize>,
}

/// All tasks of a grid.
pub(in crate::graph) fn tasks(whole: &Whole, grid: &Grid) -> Result<Tasks, Error> {
    Expansion::new(whole, grid).run()
}

/// A group, and where in the grid one of its tasks is.
type Place = (usize, Vec<u64>);

/// The tasks of one grid, as far as they are made.
struct Expansion<'w, 'a> {
    whole: &'w Whole<'a>,
    grid: &'w Grid,
    /// Steps of each group, under its last step.
    groups: Vec<Vec<usize>>,
    group_of: Vec<usize>,
    /// For each step and axis of the grid: whether it is cut there, and takes in neighbours.
    is_cut: Vec<Vec<bool>>,
    overlaps: Vec<Vec<bool>>,
    /// One task for each group and kind of place: corners, edges, faces, the middle.
    kinds: FxHashMap<(usize, Vec<u8>), Task>,
    made: FxHashMap<Place, usize>,
    result: Tasks,
}

impl<'w, 'a> Expansion<'w, 'a> {
    fn new(whole: &'w Whole<'a>, grid: &'w Grid) -> Self {
        let groups = whole.groups(grid);
        let mut group_of = vec![0; groups.len()];
        for (last, steps) in groups.iter().enumerate() {
            steps.iter().for_each(|&step| group_of[step] = last);
        }
        let cut = |node: usize| {
            let split = whole.split(node);
            (0..grid.shape.len()).map(|axis| split.contains(&axis)).collect()
        };
        let steps = 0..groups.len();
        Expansion {
            is_cut: steps.clone().map(cut).collect(),
            overlaps: steps.map(|node| whole.halo(node).iter().map(|&halo| halo > 0).collect()).collect(),
            whole,
            grid,
            groups,
            group_of,
            kinds: FxHashMap::default(),
            made: FxHashMap::default(),
            result: Tasks { tasks: Vec::new(), steps: Vec::new() },
        }
    }

    /// Depth first from the last steps, block by block in the order of a reduction over all of
    /// them.
    fn run(mut self) -> Result<Tasks, Error> {
        let mut used = vec![false; self.groups.len()];
        for (node, step) in self.whole.graph.nodes.iter().enumerate() {
            let own = self.group_of[node];
            let taken = step.inputs.iter().map(|input| self.group_of[input.node]);
            taken.filter(|&group| group != own).for_each(|group| used[group] = true);
        }
        let last: Vec<usize> =
            (0..self.groups.len()).filter(|&group| !self.groups[group].is_empty() && !used[group]).collect();
        for place in block_order(self.grid) {
            for &group in &last {
                self.make(group, &place)?;
            }
        }
        Ok(self.result)
    }

    /// Lists a task after all it needs.
    fn make(&mut self, group: usize, place: &[u64]) -> Result<(), Error> {
        let mut stack = vec![((group, self.own_place(group, place)), None)];
        while let Some((key, needed)) = stack.pop() {
            if self.made.contains_key(&key) {
                continue;
            }
            let Some(needed) = needed else {
                let needed = self.needed(key.0, &key.1);
                let missing = needed.iter().filter(|need| !self.made.contains_key(*need));
                let missing: Vec<_> = missing.rev().map(|need| (need.clone(), None)).collect();
                stack.push((key, Some(needed)));
                stack.extend(missing);
                continue;
            };
            let mut task = self.kind(key.0, &key.1)?;
            task.needs = needed.iter().filter_map(|need| self.made.get(need).copied()).collect();
            task.kept = self.whole.graph.results.contains(&key.0);
            self.result.steps.push(key.0);
            self.made.insert(key, self.result.tasks.len());
            self.result.tasks.push(task);
        }
        Ok(())
    }

    /// A place with 0 along the axes that a group is not cut along.
    fn own_place(&self, group: usize, place: &[u64]) -> Vec<u64> {
        let axes = place.iter().zip(&self.is_cut[group]);
        axes.map(|(&at, &is_cut)| if is_cut { at } else { 0 }).collect()
    }

    /// Tasks of other groups whose values a task takes in.
    fn needed(&self, group: usize, place: &[u64]) -> Vec<Place> {
        let mut needed = Vec::new();
        for &step in &self.groups[group] {
            for input in &self.whole.graph.nodes[step].inputs {
                let from = self.group_of[input.node];
                if from == group {
                    continue;
                }
                let along = |axis: usize| {
                    let (at, count) = (place[axis], self.grid.count(axis));
                    match (self.is_cut[from][axis], self.is_cut[step][axis]) {
                        (false, _) => 0..1,
                        (true, false) => 0..count,
                        (true, true) if self.overlaps[step][axis] => {
                            at.saturating_sub(1)..(at + 2).min(count)
                        }
                        (true, true) => at..at + 1,
                    }
                };
                let ranges: Vec<Range<u64>> = (0..place.len()).map(along).collect();
                needed.extend(places_in(&ranges).into_iter().map(|place| (from, place)));
            }
        }
        needed.sort();
        needed.dedup();
        needed
    }

    /// A task of a group without what it needs, at places like this one.
    fn kind(&mut self, group: usize, place: &[u64]) -> Result<Task, Error> {
        let kind =
            |(axis, &at): (usize, &u64)| u8::from(at > 0) + 2 * u8::from(at + 1 < self.grid.count(axis));
        let key = (group, place.iter().enumerate().map(kind).collect::<Vec<u8>>());
        if let Some(known) = self.kinds.get(&key) {
            return Ok(known.clone());
        }
        let task = self.task(group, place)?;
        self.kinds.insert(key, task.clone());
        Ok(task)
    }

    /// The steps of a group as one task; what comes from other groups is there already.
    fn task(&self, group: usize, place: &[u64]) -> Result<Task, Error> {
        let (mut inside, mut arguments, mut made) = (Vec::new(), Vec::new(), FxHashMap::default());
        for &step in &self.groups[group] {
            let (mut needs, mut blocks) = (Vec::new(), Vec::new());
            for &input in &self.whole.graph.nodes[step].inputs {
                let mut from = *made.entry(input.node).or_insert_with(|| {
                    arguments.push(inside.len());
                    inside.push(Task::default());
                    inside.len() - 1
                });
                let block = self.whole.block(step, input, self.grid, place);
                if self.whole.overlaps(step, self.grid) {
                    inside.push(Task { needs: vec![from], ..Task::making(block.bytes()) });
                    from = inside.len() - 1;
                }
                needs.push(from);
                blocks.push(block);
            }
            needs.sort_unstable();
            needs.dedup();
            let task = match self.whole.graph.nodes[step].work {
                Work::Source(_) => self.whole.read(step, self.grid, place),
                _ => self.whole.measure(step, blocks)?.task,
            };
            made.insert(step, inside.len());
            inside.push(Task { needs, ..task });
        }
        Ok(as_one(&inside, |task| arguments.contains(&task)))
    }
}

/// All places in a box, the last axis the fastest. A range is never empty.
fn places_in(ranges: &[Range<u64>]) -> Vec<Vec<u64>> {
    let mut places = Vec::new();
    let mut place: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    loop {
        places.push(place.clone());
        let Some(axis) = (0..place.len()).rev().find(|&axis| place[axis] + 1 < ranges[axis].end) else {
            return places;
        };
        place[axis] += 1;
        (axis + 1..place.len()).for_each(|later| place[later] = ranges[later].start);
    }
}
