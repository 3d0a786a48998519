//! A graph of whole arrays, cut: one task per step and chunk, as Dask would make them.
//!
//! The first source is cut into a grid, and what comes of it is cut where it was. A step with a
//! halo joins its chunk with pieces of the neighbours; a step without one runs in the task that
//! made its input, if no other step takes that in, as Dask fuses them: all that goes into such a
//! task is retained until it is done.

pub(super) mod expand;

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::measure::{Laws, Needs};
use super::walk::Task;
use super::{Array, Error, Graph, Input, Work};
use crate::plan::grid::Grid;

/// A graph that can be cut: its whole arrays, and where each axis of them comes from.
pub(super) struct Whole<'a> {
    laws: &'a Laws<'a>,
    pub(super) graph: &'a Graph,
    /// What each node gives out.
    pub(super) outputs: Vec<Vec<Array>>,
    /// One call of each node for whole arrays.
    pub(super) tasks: Vec<Task>,
    /// Node of the array that is cut.
    pub(super) base: usize,
    /// For each node and axis of its first output: the axis of the base array that it follows.
    axes: Vec<Vec<Option<usize>>>,
    measured: RefCell<FxHashMap<(usize, Vec<Array>), Needs>>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(laws: &'a Laws<'a>, graph: &'a Graph) -> Result<Self, Error> {
        let cut_already = |work: &Work| matches!(work, Work::View(_) | Work::Join(_) | Work::Fused(_));
        if graph.nodes.iter().any(|node| cut_already(&node.work)) {
            return Err(Error::Request(
                "the graph is cut into tasks already: give it whole arrays and steps to have it cut".into(),
            ));
        }
        let (tasks, outputs) = laws.tasks(graph, &[])?;
        let is_base =
            |node: &usize| matches!(graph.nodes[*node].work, Work::Source(_)) && rank(&outputs[*node]) > 0;
        let base = (0..graph.nodes.len()).find(is_base);
        let base = base
            .ok_or_else(|| Error::Request("the graph has no source that could be cut into chunks".into()))?;
        let mut whole =
            Whole { laws, graph, outputs, tasks, base, axes: Vec::new(), measured: RefCell::default() };
        for node in 0..graph.nodes.len() {
            let axes = whole.follow(node);
            whole.axes.push(axes);
            whole.check_axes(node)?;
        }
        Ok(whole)
    }

    /// A halo and whole axes must be of axes that the step's first input has.
    fn check_axes(&self, node: usize) -> Result<(), Error> {
        let step = &self.graph.nodes[node];
        let Some(input) = self.input(node, 0) else { return Ok(()) };
        let (name, axes) = (&step.name, input.shape.len());
        if let Some(axis) = step.whole_axes.iter().find(|&&axis| axis >= axes) {
            return Err(Error::Graph(format!(
                "step {name}: whole_axes names axis {axis}, its first input has {axes} axes, from 0"
            )));
        }
        if ![0, 1, axes].contains(&step.halo.len()) {
            let given = step.halo.len();
            return Err(Error::Graph(format!(
                "step {name}: its halo has {given} numbers, its first input {axes} axes: give one for all or one each"
            )));
        }
        Ok(())
    }

    pub(super) fn shape(&self) -> &[u64] {
        &self.outputs[self.base][0].shape
    }

    /// Where the axes of a node's first output come from, those of the nodes before being known.
    fn follow(&self, node: usize) -> Vec<Option<usize>> {
        let Some(output) = self.outputs[node].first() else { return Vec::new() };
        let Some(lead) = self.graph.nodes[node].inputs.first() else {
            // Another source of as many axes is cut like the first.
            let like_base = output.shape.len() == self.shape().len();
            return (0..output.shape.len()).map(|axis| like_base.then_some(axis)).collect();
        };
        let from = self.axes_of(*lead);
        let (before, after) = (from.len(), output.shape.len());
        if after >= before {
            // Axes that an operator adds come first and stay whole.
            return std::iter::repeat_n(None, after - before).chain(from.iter().copied()).collect();
        }
        // Some are gone: of those left, each is the last of its length that is not taken yet.
        let lengths = &self.outputs[lead.node][lead.output].shape;
        let mut free = before;
        let mut follow: Vec<Option<usize>> = output
            .shape
            .iter()
            .rev()
            .map(|length| {
                free = lengths[..free].iter().rposition(|known| known == length)?;
                from[free]
            })
            .collect();
        follow.reverse();
        follow
    }

    /// Axes of one array that goes into a step; of a step's further outputs the first one's, if
    /// they have as many.
    fn axes_of(&self, input: Input) -> Vec<Option<usize>> {
        let axes = &self.axes[input.node];
        let rank = self.outputs[input.node].get(input.output).map_or(0, |array| array.shape.len());
        if axes.len() == rank { axes.clone() } else { vec![None; rank] }
    }

    /// Axes of the base array along which a node makes one task per chunk.
    fn split(&self, node: usize) -> Vec<usize> {
        let axes = match self.graph.nodes[node].inputs.first() {
            Some(&lead) => self.axes_of(lead),
            None => self.axes[node].clone(),
        };
        axes.into_iter().flatten().collect()
    }

    /// One of the whole arrays that go into a step.
    pub(super) fn input(&self, node: usize, position: usize) -> Option<&Array> {
        let input = self.graph.nodes[node].inputs.get(position)?;
        self.outputs[input.node].get(input.output)
    }

    /// Chunk and halo of a step's first input, along its own axes.
    pub(super) fn cut_of_input(&self, node: usize, grid: &Grid) -> Option<(Vec<u64>, Vec<u64>)> {
        let (array, halo) = (self.input(node, 0)?, self.halo(node));
        let axes = self.axes_of(self.graph.nodes[node].inputs[0]);
        let chunk =
            axes.iter().zip(&array.shape).map(|(base, &n)| base.map_or(n, |base| grid.chunk[base].min(n)));
        Some((chunk.collect(), axes.iter().map(|base| base.map_or(0, |base| halo[base])).collect()))
    }

    /// A step's halo, per axis of the base array.
    pub(super) fn halo(&self, node: usize) -> Vec<u64> {
        let mut halo = vec![0; self.shape().len()];
        let step = &self.graph.nodes[node];
        let Some(&lead) = step.inputs.first() else { return halo };
        for (axis, base) in self.axes_of(lead).into_iter().enumerate() {
            let Some(base) = base else { continue };
            let cells = if step.halo.len() == 1 { step.halo.first() } else { step.halo.get(axis) };
            halo[base] = cells.copied().unwrap_or(0);
        }
        halo
    }

    /// Axes of the base array that some step needs whole.
    pub(super) fn whole_axes(&self) -> Vec<usize> {
        let mut whole = Vec::new();
        for step in &self.graph.nodes {
            let Some(&lead) = step.inputs.first() else { continue };
            let axes = self.axes_of(lead);
            whole.extend(step.whole_axes.iter().filter_map(|&axis| *axes.get(axis)?));
        }
        whole.sort_unstable();
        whole.dedup();
        whole
    }

    /// The largest halo of all steps.
    pub(super) fn most_halo(&self) -> Vec<u64> {
        let mut most = vec![0; self.shape().len()];
        for node in 0..self.graph.nodes.len() {
            most.iter_mut().zip(self.halo(node)).for_each(|(most, halo)| *most = halo.max(*most));
        }
        most
    }

    /// The part of a step's input that belongs to a chunk, its halo included.
    fn block(&self, node: usize, input: Input, grid: &Grid, place: &[u64]) -> Array {
        let array = &self.outputs[input.node][input.output];
        let (axes, padded) = (self.axes_of(input), self.graph.nodes[node].padded);
        let cut = Cutting { axes, split: self.split(node), halo: self.halo(node), padded };
        cut.part(array, grid, place)
    }

    /// The part of a source that belongs to a chunk: it is read from the whole.
    fn read(&self, node: usize, grid: &Grid, place: &[u64]) -> Task {
        let axes = self.axes[node].clone();
        let cut = Cutting { axes, split: self.split(node), halo: vec![0; place.len()], padded: false };
        Task::making(cut.part(&self.outputs[node][0], grid, place).bytes())
    }

    /// Whether a step needs pieces of neighbours' chunks in a grid, or cells around the array.
    pub(super) fn overlaps(&self, node: usize, grid: &Grid) -> bool {
        let padded = self.graph.nodes[node].padded;
        self.halo(node).iter().enumerate().any(|(axis, &halo)| halo > 0 && (padded || grid.count(axis) > 1))
    }

    /// The largest block that a step is called with, one array per input.
    pub(super) fn largest_blocks(&self, node: usize, grid: &Grid) -> Vec<Array> {
        // A chunk in the middle has its halo on both sides; with two chunks there is none.
        let place: Vec<u64> = (0..grid.shape.len()).map(|axis| u64::from(grid.count(axis) > 2)).collect();
        self.graph.nodes[node].inputs.iter().map(|&input| self.block(node, input, grid, &place)).collect()
    }

    pub(super) fn measure(&self, node: usize, blocks: Vec<Array>) -> Result<Needs, Error> {
        let key = (node, blocks);
        if let Some(known) = self.measured.borrow().get(&key) {
            return Ok(known.clone());
        }
        let needs = self.laws.needs(&self.graph.nodes[node], &key.1.iter().collect::<Vec<_>>())?;
        self.measured.borrow_mut().insert(key, needs.clone());
        Ok(needs)
    }

    /// Steps that become one task: each step with the sole one that takes in its value, where that
    /// needs no neighbours and is cut along the same axes.
    fn groups(&self, grid: &Grid) -> Vec<Vec<usize>> {
        let nodes = &self.graph.nodes;
        let mut users = vec![Vec::new(); nodes.len()];
        for (node, step) in nodes.iter().enumerate() {
            step.inputs.iter().for_each(|input| users[input.node].push(node));
        }
        let mut group: Vec<usize> = (0..nodes.len()).collect();
        for node in (0..nodes.len()).rev() {
            users[node].dedup();
            let &[user] = users[node].as_slice() else { continue };
            if !self.overlaps(user, grid)
                && self.split(user) == self.split(node)
                && !self.graph.results.contains(&node)
            {
                group[node] = group[user];
            }
        }
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        (0..nodes.len()).for_each(|node| groups[group[node]].push(node));
        groups
    }
}

fn rank(outputs: &[Array]) -> usize {
    outputs.first().map_or(0, |array| array.shape.len())
}

/// How an array is cut: which axes of it follow which of the grid, and along which of those a step
/// is cut at all.
struct Cutting {
    axes: Vec<Option<usize>>,
    split: Vec<usize>,
    halo: Vec<u64>,
    padded: bool,
}

impl Cutting {
    fn part(&self, array: &Array, grid: &Grid, place: &[u64]) -> Array {
        let length = |(&whole, base): (&u64, &Option<usize>)| {
            let Some(base) = base.filter(|base| self.split.contains(base)) else { return whole };
            let (at, last) = (place[base], grid.count(base) - 1);
            let rest = whole.saturating_sub(at.saturating_mul(grid.chunk[base]));
            let own = if at == last { rest } else { rest.min(grid.chunk[base]) };
            let inner = u64::from(at > 0) + u64::from(at < last);
            let (sides, around) = if self.padded { (2, 2) } else { (inner, 0) };
            let most = whole.saturating_add(self.halo[base].saturating_mul(around));
            own.max(1).saturating_add(self.halo[base].saturating_mul(sides)).min(most)
        };
        Array { shape: array.shape.iter().zip(&self.axes).map(length).collect(), dtype: array.dtype.clone() }
    }
}
