//! A graph as it stands: its peak over time, and the operator that sets it.

use std::cmp::Reverse;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::measure::Laws;
use super::walk::{Start, Task, Walk, walk};
use super::{Array, Error, Executor, Graph, Libraries, Node, Retention, Work};
use crate::model::Model;

/// Most moments that are listed; of more, the largest of each stretch.
const MOST_MOMENTS: usize = 1_000;

/// What a graph is predicted to need. Bytes and seconds; the keys of `memtrace plan --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Forecast {
    /// How it runs.
    pub executor: Executor,
    /// Largest live sum: values retained, and all that running steps allocate.
    pub peak_bytes: u64,
    /// The most it can be, as far as the laws know.
    pub upper_bytes: u64,
    /// What the weakest of the laws used rests on; `given` if the graph gives all bytes.
    pub confidence: String,
    /// True if a law was used outside of the shapes it was trained on.
    pub extrapolated: bool,
    /// What runs at the peak, and what is retained then.
    pub set_by: SetBy,
    /// From the first step to the end of the last, by the laws' times.
    pub seconds: f64,
    /// What a process keeps of the first calls of its operators, in addition to the peak.
    pub one_time_bytes: u64,
    /// Resident bytes of the recorded processes before the operators ran; null if no law knows.
    pub baseline_bytes: Option<u64>,
    /// Every operator of the graph, in the order of its first step.
    pub operators: Vec<StepForecast>,
    /// What was live whenever a step had begun.
    pub timeline: Vec<Moment>,
    /// Values kept until the end, together.
    pub result_bytes: u64,
}

/// Why the peak is what it is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SetBy {
    /// The step that made it: the one of the largest working bytes of those that run.
    pub step: String,
    /// Its operator.
    pub operator: String,
    /// What it allocates.
    pub working_bytes: u64,
    /// What other steps allocate at the same time.
    pub others_bytes: u64,
    /// Values retained then, largest first; at most 20.
    pub retained: Vec<Retained>,
    /// All of them together.
    pub retained_bytes: u64,
}

/// A value that is retained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Retained {
    /// The step or source that made it.
    pub step: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The steps of one operator.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StepForecast {
    /// The operator.
    pub operator: String,
    /// Its first step.
    pub step: String,
    /// How many steps.
    pub steps: u64,
    /// Most that one of them allocates, its output among it.
    pub working_bytes: u64,
    /// Most that was live while one of them ran.
    pub live_bytes: u64,
    /// What comes out of the first of them.
    pub outputs: Vec<Array>,
    /// How long they run together.
    pub seconds: f64,
}

/// What was live when a step had begun.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Since the first step.
    pub seconds: f64,
    /// Finished values, and all that running steps allocate.
    pub live_bytes: u64,
    /// The step.
    pub step: String,
}

/// Runs a graph by the laws of a model.
///
/// # Errors
/// A step without a law, or whose law has no value for what goes into it; a graph without steps.
pub fn predict(
    model: &Model,
    libraries: &Libraries,
    graph: &Graph,
    executor: Executor,
) -> Result<Forecast, Error> {
    let laws = Laws::new(model, libraries);
    let (tasks, outputs) = laws.tasks(graph, &[])?;
    let run = walk(&tasks, executor, None);
    let base = throughout(graph);
    let peak = run.starts.iter().enumerate().max_by_key(|(at, start)| (start.bytes(), Reverse(*at)));
    let Some((at, start)) = peak else { return Err(Error::Graph("it has no steps".into())) };
    let upper = run.starts.iter().map(Start::upper).max().unwrap_or(0);
    Ok(Forecast {
        executor,
        peak_bytes: start.bytes().saturating_add(base),
        upper_bytes: upper.saturating_add(base),
        confidence: laws.confidence(),
        extrapolated: laws.extrapolated(),
        set_by: set_by(graph, &tasks, &walk(&tasks, executor, Some(at)), base),
        seconds: run.seconds(),
        one_time_bytes: laws.one_time_bytes(),
        baseline_bytes: laws.baseline_bytes(),
        operators: operators(graph, &tasks, &outputs, &run.starts, base),
        timeline: timeline(graph, &run.starts, base),
        result_bytes: tasks
            .iter()
            .filter(|task| task.kept)
            .map(|task| task.left)
            .fold(0, u64::saturating_add),
    })
}

/// Arrays that the program that runs the pipeline keeps all the time.
fn throughout(graph: &Graph) -> u64 {
    let retained = graph.nodes.iter().filter(|node| matches!(node.work, Work::Source(Retention::Throughout)));
    retained.filter_map(|node| node.output.like(None)).map(|array| array.bytes()).fold(0, u64::saturating_add)
}

fn set_by(graph: &Graph, tasks: &[Task], run: &Walk, base: u64) -> SetBy {
    let running = run.running();
    let largest = running.iter().copied().max_by_key(|&task| tasks[task].working).unwrap_or(0);
    let all = running.iter().map(|&task| tasks[task].working).fold(0, u64::saturating_add);
    let value = |task: usize| Retained { step: graph.nodes[task].name.clone(), bytes: tasks[task].left };
    let outside = graph.nodes.iter().filter(|node| matches!(node.work, Work::Source(Retention::Throughout)));
    let outside = outside.filter_map(|node| {
        Some(Retained { step: node.name.clone(), bytes: node.output.like(None)?.bytes() })
    });
    let mut retained: Vec<Retained> =
        run.retained().into_iter().map(value).chain(outside).filter(|retained| retained.bytes > 0).collect();
    retained.sort_by_key(|retained| Reverse(retained.bytes));
    retained.truncate(20);
    SetBy {
        step: graph.nodes[largest].name.clone(),
        operator: graph.nodes[largest].operator(),
        working_bytes: tasks[largest].working,
        others_bytes: all.saturating_sub(tasks[largest].working),
        retained,
        retained_bytes: run.starts.last().map_or(0, |start| start.retained).saturating_add(base),
    }
}

fn operators(
    graph: &Graph,
    tasks: &[Task],
    outputs: &[Vec<Array>],
    starts: &[Start],
    base: u64,
) -> Vec<StepForecast> {
    let mut live = vec![0u64; tasks.len()];
    let mut running: Vec<(f64, usize)> = Vec::new();
    for start in starts {
        running.retain(|&(end, _)| end > start.seconds);
        running.push((start.seconds + tasks[start.task].seconds, start.task));
        for &(_, task) in &running {
            live[task] = live[task].max(start.bytes().saturating_add(base));
        }
    }
    let mut found: Vec<StepForecast> = Vec::new();
    let mut places = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| is_step(node)) {
        let operator = node.operator();
        let place = *places.entry(operator.clone()).or_insert_with(|| {
            found.push(StepForecast {
                operator,
                step: node.name.clone(),
                steps: 0,
                working_bytes: 0,
                live_bytes: 0,
                outputs: outputs[index].clone(),
                seconds: 0.0,
            });
            found.len() - 1
        });
        let entry = &mut found[place];
        entry.steps += 1;
        entry.working_bytes = entry.working_bytes.max(tasks[index].working);
        entry.live_bytes = entry.live_bytes.max(live[index]);
        entry.seconds += tasks[index].seconds;
    }
    found
}

fn is_step(node: &Node) -> bool {
    !matches!(node.work, Work::Source(_) | Work::Argument(_))
}

fn timeline(graph: &Graph, starts: &[Start], base: u64) -> Vec<Moment> {
    let stretch = starts.len().div_ceil(MOST_MOMENTS).max(1);
    let largest = |stretch: &[Start]| stretch.iter().max_by_key(|start| start.bytes()).copied();
    let moment = |start: Start| Moment {
        seconds: start.seconds,
        live_bytes: start.bytes().saturating_add(base),
        step: graph.nodes[start.task].name.clone(),
    };
    starts.chunks(stretch).filter_map(largest).map(moment).collect()
}
