//! What a step allocates and gives out, by its law, as the shapes that go into it are known.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::walk::{Start, Task, walk};
use super::{Array, Error, Executor, Graph, Libraries, Node, Retention, Work, view};
use crate::model::{Body, Variable};
use crate::model::{Law, Model, Query, Seconds, TaskBytes, predict};
use crate::shape::Point;

/// Where the bytes of a step come from, weakest last.
const CONFIDENCE: [&str; 5] = ["given", "exact", "worst case", "calibrated", "unverified"];

/// The weakest confidence of the laws used so far.
struct Weakest {
    /// Index into [`CONFIDENCE`].
    rank: usize,
    /// As `predict` puts it.
    words: String,
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Needs {
    /// What the executor sees; `needs` and `kept` are the graph's to say.
    pub(super) task: Task,
    /// Arrays that come out.
    pub(super) outputs: Vec<Array>,
}

/// A model with what it has answered already: chunks of one shape are measured thousands of times.
pub(super) struct Laws<'a> {
    model: &'a Model,
    libraries: &'a Libraries,
    known: RefCell<HashMap<(usize, Vec<u64>), Known>>,
    weakest: RefCell<Weakest>,
    extrapolated: Cell<bool>,
    /// Laws that were used, with the most one-time bytes of each.
    used: RefCell<Vec<(&'a Law, u64)>>,
}

#[derive(Clone, Copy)]
struct Known {
    bytes: TaskBytes,
    value: ValueBytes,
}

impl<'a> Laws<'a> {
    pub(super) fn new(model: &'a Model, libraries: &'a Libraries) -> Self {
        Laws {
            model,
            libraries,
            known: RefCell::default(),
            weakest: RefCell::new(Weakest { rank: 0, words: CONFIDENCE[0].to_owned() }),
            extrapolated: Cell::new(false),
            used: RefCell::default(),
        }
    }

    /// The weakest confidence among all laws that were used, as `predict` puts it.
    pub(super) fn confidence(&self) -> String {
        self.weakest.borrow().words.clone()
    }

    pub(super) fn extrapolated(&self) -> bool {
        self.extrapolated.get()
    }

    /// What first calls leave in a process, of all laws that were used.
    pub(super) fn one_time_bytes(&self) -> u64 {
        self.used.borrow().iter().map(|(_, one_time)| *one_time).fold(0, u64::saturating_add)
    }

    /// The most that a recorded process retained before one of these operators ran.
    pub(super) fn baseline_bytes(&self) -> Option<u64> {
        self.used.borrow().iter().filter_map(|(law, _)| law.baseline.as_ref()?.resident_bytes).max()
    }

    /// How far the seconds of these laws may be off: [`crate::model::Seconds::spread`].
    pub(super) fn seconds_spread(&self) -> f64 {
        let spreads = self.used.borrow();
        spreads.iter().map(|(law, _)| law.seconds.spread()).fold(Seconds::default().spread(), f64::max)
    }

    /// The law of an operator for inputs like these.
    pub(super) fn law(&self, node: &Node, inputs: &[&Array]) -> Result<Option<&'a Law>, Error> {
        let Work::Law { operator, dtype, params } = &node.work else { return Ok(None) };
        let of_inputs: Vec<&str> = inputs.iter().map(|array| array.dtype.as_str()).collect();
        let dtype = dtype.clone().unwrap_or_else(|| of_inputs.join(","));
        let law = self.model.find(&Query {
            operator,
            dtype: Some(&dtype).filter(|dtype| !dtype.is_empty()).map(String::as_str),
            params: params.clone(),
            libraries: self.libraries.versions.clone(),
            any_version: self.libraries.any_version,
            ..Query::default()
        });
        law.map(Some).map_err(|source| Error::Law { step: node.name.clone(), source })
    }

    /// One call of a node with these arrays.
    pub(super) fn needs(&self, node: &Node, inputs: &[&Array]) -> Result<Needs, Error> {
        match &node.work {
            Work::Source(retained) => source(node, *retained),
            Work::Argument(position) => {
                let array = inputs.get(*position).ok_or_else(|| wrong(node, "it lacks an input"))?;
                Ok(Needs { task: Task::default(), outputs: vec![(*array).clone()] })
            }
            Work::Law { .. } => self.by_law(node, inputs),
            Work::Given { fixed, per_element, seconds_per_element, .. } => {
                given(node, inputs, *fixed, *per_element, *seconds_per_element)
            }
            Work::View(cuts) => {
                let input = inputs.first().ok_or_else(|| wrong(node, "a slice needs an input"))?;
                let seen = view::cut(input, cuts).ok_or_else(|| {
                    wrong(node, &format!("the slice does not fit the shape {:?}", input.shape))
                })?;
                Ok(Needs { task: Task { pins: true, ..Task::default() }, outputs: vec![seen] })
            }
            Work::Join(counts) => {
                let joined = view::join(inputs, counts)
                    .ok_or_else(|| wrong(node, "the blocks to join make no grid"))?;
                Ok(Needs { task: Task::making(joined.bytes()), outputs: vec![joined] })
            }
            Work::Fused(inside) => self.fused(inside, inputs),
        }
    }

    fn by_law(&self, node: &Node, inputs: &[&Array]) -> Result<Needs, Error> {
        let error = |source| Error::Law { step: node.name.clone(), source };
        let Some(law) = self.law(node, inputs)? else { return Err(wrong(node, "it has no law")) };
        let point = point(law, inputs).map_err(|what| wrong(node, &what))?;
        let known = self.at(law, &point).map_err(error)?;
        let array = |output: &crate::model::ArrayLaw| {
            Some(Array { shape: output.shape_at(&point)?, dtype: output.dtype.clone() })
        };
        let of_law = law.outputs.iter().map(array).collect::<Option<Vec<_>>>();
        let mut outputs = of_law.ok_or_else(|| wrong(node, "its output does not fit any memory"))?;
        if let Some(stated) = node.output.like(outputs.first()) {
            outputs.splice(..outputs.len().min(1), [stated]);
        }
        let task = Task {
            pins: known.value.is_view,
            working: known.bytes.working.max(known.value.bytes),
            upper: known.bytes.working_upper.max(known.value.upper),
            left: known.value.bytes,
            left_upper: known.value.upper,
            seconds: known.bytes.seconds,
            ..Task::default()
        };
        Ok(Needs { task, outputs })
    }

    fn at(&self, law: &'a Law, point: &Point) -> Result<Known, crate::error::Error> {
        let key = (std::ptr::from_ref(law) as usize, point.to_vec());
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(*known);
        }
        let bytes = law.bytes(point)?;
        let known = Known { bytes, value: value(law, point, bytes.output) };
        let said = predict(law, point)?;
        self.weaken(&said.confidence);
        self.extrapolated.set(self.extrapolated.get() || said.extrapolated);
        let mut used = self.used.borrow_mut();
        match used.iter_mut().find(|(used, _)| std::ptr::eq(*used, law)) {
            Some((_, one_time)) => *one_time = bytes.one_time.max(*one_time),
            None => used.push((law, bytes.one_time)),
        }
        self.known.borrow_mut().insert(key, known);
        Ok(known)
    }

    fn weaken(&self, confidence: &str) {
        let known = CONFIDENCE.iter().position(|known| confidence.starts_with(known));
        let rank = known.unwrap_or(CONFIDENCE.len() - 1);
        let mut weakest = self.weakest.borrow_mut();
        if rank > weakest.rank {
            *weakest = Weakest { rank, words: confidence.to_owned() };
        }
    }

    /// Several steps as one task.
    fn fused(&self, inside: &Graph, inputs: &[&Array]) -> Result<Needs, Error> {
        let (tasks, mut outputs) = self.tasks(inside, inputs)?;
        let is_argument = |task: usize| matches!(inside.nodes[task].work, Work::Argument(_));
        let last = tasks.len() - 1;
        Ok(Needs { task: as_one(&tasks, is_argument), outputs: outputs.swap_remove(last) })
    }

    /// All nodes of a graph as tasks, and the arrays that come out of each.
    pub(super) fn tasks(
        &self,
        graph: &Graph,
        arguments: &[&Array],
    ) -> Result<(Vec<Task>, Vec<Vec<Array>>), Error> {
        let mut tasks: Vec<Task> = Vec::with_capacity(graph.nodes.len());
        let mut outputs: Vec<Vec<Array>> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let taken = |input: &super::Input| {
                let arrays = &outputs[input.node];
                arrays.get(input.output).ok_or_else(|| {
                    let (name, what) = (&graph.nodes[input.node].name, arrays.len());
                    wrong(node, &format!("{name} gives out {what} arrays, not {} or more", input.output + 1))
                })
            };
            let inputs = node.inputs.iter().map(taken).collect::<Result<Vec<_>, _>>()?;
            let inputs = if matches!(node.work, Work::Argument(_)) { arguments } else { &inputs };
            let mut needs = self.needs(node, inputs)?;
            let mut from: Vec<usize> = node.inputs.iter().map(|input| input.node).collect();
            from.sort_unstable();
            from.dedup();
            needs.task.needs = from;
            tasks.push(needs.task);
            outputs.push(needs.outputs);
        }
        graph.results.iter().for_each(|&result| tasks[result].kept = true);
        Ok((tasks, outputs))
    }
}

/// Tasks that run one after another inside of one, whose value is that of the last: values between
/// them are released after their last use.
pub(super) fn as_one(tasks: &[Task], is_argument: impl Fn(usize) -> bool) -> Task {
    let run = walk(tasks, Executor::Sequential, None);
    let peak = |of: fn(&Start) -> u64| run.starts.iter().map(of).max().unwrap_or(0);
    // Where the value is a view, what it is a part of stays: what one of these tasks made, or an
    // argument.
    let mut root = tasks.len() - 1;
    let (mut left, mut left_upper) = (tasks[root].left, tasks[root].left_upper);
    while tasks[root].pins
        && let Some(&next) = tasks[root].needs.first()
    {
        root = next;
        left = left.saturating_add(tasks[root].left);
        left_upper = left_upper.saturating_add(tasks[root].left_upper);
    }
    Task {
        pins: is_argument(root),
        working: peak(Start::bytes),
        upper: peak(Start::upper),
        left,
        left_upper,
        seconds: run.seconds(),
        ..Task::default()
    }
}

fn source(node: &Node, retained: Retention) -> Result<Needs, Error> {
    let array = node.output.like(None).ok_or_else(|| wrong(node, "it has no shape"))?;
    let bytes = if retained == Retention::UntilUsed { array.bytes() } else { 0 };
    Ok(Needs { task: Task::making(bytes), outputs: vec![array] })
}

fn given(node: &Node, inputs: &[&Array], fixed: u64, per_element: f64, seconds: f64) -> Result<Needs, Error> {
    let output = node.output.like(inputs.first().copied());
    let output = output.ok_or_else(|| wrong(node, "it has neither an input nor an output with a shape"))?;
    let taken = inputs.iter().map(|input| input.elements() as f64).sum::<f64>();
    let elements = if inputs.is_empty() { output.elements() as f64 } else { taken };
    let left = output.bytes();
    let working = fixed.saturating_add((per_element * elements) as u64).max(left);
    let task = Task { working, upper: working, seconds: seconds * elements, ..Task::making(left) };
    Ok(Needs { task, outputs: vec![output] })
}

/// Bytes of a call's value.
#[derive(Clone, Copy)]
struct ValueBytes {
    bytes: u64,
    /// The most they can be.
    upper: u64,
    /// The value is a view of the inputs.
    is_view: bool,
}

/// The value of a call. Of a view the sequence leaves next to nothing behind. It may leave more
/// than the value, as a function's locals outlive its span by a moment.
fn value(law: &Law, point: &Point, output: u64) -> ValueBytes {
    // What does not fit 64 bits fits no memory.
    let fit = |bytes: Option<u128>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let outputs = law.outputs.iter().map(|array| fit(array.upper_bytes(point)).unwrap_or(u64::MAX));
    let upper = outputs.fold(0, u64::saturating_add).max(output);
    let whole = ValueBytes { bytes: output, upper, is_view: false };
    let Body::Symbolic(sequence) = &law.body else { return whole };
    let Some(left) = fit(sequence.left_bytes(point)) else { return whole };
    // Blocks below the threshold are not in the sequence.
    if left.saturating_add(sequence.threshold_bytes.max(1)).saturating_mul(2) >= output {
        return whole;
    }
    let upper = fit(sequence.left_upper_bytes(point)).unwrap_or(u64::MAX).max(left);
    ValueBytes { bytes: left, upper, is_view: true }
}

/// The law's variables at these inputs.
fn point(law: &Law, inputs: &[&Array]) -> Result<Vec<u64>, String> {
    let operator = &law.key.operator;
    let shapes: Vec<&[u64]> = inputs.iter().map(|input| input.shape.as_slice()).collect();
    let ranks: Vec<usize> = law.inputs.iter().map(|input| input.shape.len()).collect();
    let given: Vec<usize> = shapes.iter().map(|shape| shape.len()).collect();
    if ranks != given {
        return Err(format!(
            "the law of {operator} is for inputs of {ranks:?} axes, it is given some of {given:?}"
        ));
    }
    let value = |variable: &Variable| {
        let name = &variable.name;
        let missing = || format!("the law of {operator} has a variable {name} that no input has");
        variable.value_in(&shapes).ok_or_else(missing)
    };
    let point = law.variables.iter().map(value).collect::<Result<Vec<u64>, String>>()?;
    for (known, input) in law.inputs.iter().zip(inputs) {
        if known.shape_at(&point).as_ref() != Some(&input.shape) {
            return Err(format!(
                "{operator} was recorded with inputs of other proportions: no law for {:?}",
                input.shape
            ));
        }
    }
    Ok(point)
}

fn wrong(node: &Node, what: &str) -> Error {
    Error::Graph(format!("step {}: {what}", node.name))
}
