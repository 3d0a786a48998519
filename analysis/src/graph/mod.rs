//! Plans for whole pipelines: laws composed over a graph of operators.
//!
//! Constraints: pure; reads and prints nothing; a graph may come from a stranger, so nothing in it
//! makes this panic, and what it names is checked before it is used.
//!
//! A graph ([`Graph`]) is read from JSON ([`document`]). Each step's law says what it allocates and
//! what comes out of it ([`measure`]), which the next step takes in. [`walk`] runs the steps as an
//! executor does and keeps the live sum; [`predict`](fn@predict) says where it is largest. Under a
//! memory limit [`recommend`] cuts the arrays into chunks ([`chunks`]) and takes the fastest cut
//! that fits ([`search`], [`choose`]).

mod answer;
mod array;
mod check;
mod choose;
mod chunks;
mod document;
mod error;
mod measure;
mod options;
mod predict;
mod search;
mod view;
mod walk;

#[cfg(test)]
mod tests;

pub use answer::{Answer, ChunkPlan, Limits, OperatorChunks};
pub use array::Array;
pub use check::{Fit, Refusal, check};
pub use choose::recommend;
pub use error::Error;
pub use options::{Options, Planned};
pub use predict::{Forecast, Moment, Retained, SetBy, StepForecast, predict};

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::Process;
use array::Output;
use view::Cut;

/// Version of the graph format that this program reads; later ones are refused.
pub const GRAPH_VERSION: u64 = 1;

/// Arrays, and the steps that make others of them, each step after those it needs.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Nodes whose values are kept until the end.
    results: Vec<usize>,
    /// How it is said to run; `None`: it has not been cut into tasks yet.
    executor: Option<Executor>,
}

/// Who runs the steps, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// One after another, as listed: a plain program.
    Sequential,
    /// Dask's schedulers for one machine: a free thread takes what was made ready last.
    Threaded {
        /// Threads of the pool.
        threads: u64,
    },
    /// A worker of `distributed`: a free thread takes the ready task that is listed first.
    Distributed {
        /// Threads of the worker.
        threads: u64,
    },
}

impl Executor {
    /// Steps that run at once.
    pub fn threads(self) -> u64 {
        match self {
            Executor::Sequential => 1,
            Executor::Threaded { threads } | Executor::Distributed { threads } => threads.max(1),
        }
    }

    /// Who runs the steps unless the user says more of it; `recorded`: as for [`Process::plain`].
    pub fn process(self, recorded: Option<u64>) -> Process {
        match self {
            Executor::Sequential | Executor::Threaded { .. } => Process::plain(recorded),
            Executor::Distributed { .. } => Process::dask_worker(recorded),
        }
    }
}

/// The libraries that will run a graph: the laws of its operators must be for their versions.
#[derive(Debug, Clone, Default)]
pub struct Libraries {
    /// Versions by name, of those that some law names.
    pub versions: BTreeMap<String, String>,
    /// A law for any others will do.
    pub any_version: bool,
}

/// A source or a step.
#[derive(Debug, Clone)]
struct Node {
    name: String,
    work: Work,
    inputs: Vec<Input>,
    /// The array that comes out, as far as no law says it.
    output: Output,
    /// Extra cells per face and axis of the first input that a chunk needs from its neighbours.
    halo: Vec<u64>,
    /// The array's own faces have the halo, too: cells that the step's caller makes up.
    padded: bool,
    /// Axes of the first input that must stay in one chunk.
    whole_axes: Vec<usize>,
}

/// One of the arrays that a node makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Input {
    node: usize,
    output: usize,
}

/// What a node does.
#[derive(Debug, Clone)]
enum Work {
    /// Brings in an array from outside.
    Source(Retention),
    /// Inside a fused step: what goes into it, by its position.
    Argument(usize),
    /// Calls an operator that the model has a law for.
    Law { operator: String, dtype: Option<String>, params: BTreeMap<String, Value> },
    /// Calls one whose bytes the graph gives.
    Given { operator: String, fixed: u64, per_element: f64, seconds_per_element: f64 },
    /// A part of its first input, which stays whole as long as the part is used.
    View(Vec<Cut>),
    /// Copies a grid of blocks, this many along each axis, into one array.
    Join(Vec<u64>),
    /// Several steps as one task: its inputs are retained until the last of them is done.
    Fused(Box<Graph>),
}

/// How long an array from outside counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Retention {
    /// From its first use to its last: the pipeline loads it.
    #[default]
    UntilUsed,
    /// Always: the program that runs the pipeline keeps it.
    Throughout,
    /// Never: it is in a file, or another program's.
    NotCounted,
}

impl Node {
    /// What a reader calls it: the operator, or the kind of step.
    fn operator(&self) -> String {
        match &self.work {
            Work::Source(_) | Work::Argument(_) => "source".into(),
            Work::Law { operator, .. } | Work::Given { operator, .. } => operator.clone(),
            Work::View(_) => "slice".into(),
            Work::Join(_) => "join".into(),
            Work::Fused(inside) => {
                let names: Vec<String> = inside.steps().map(Node::operator).collect();
                names.join(" + ")
            }
        }
    }
}

impl Graph {
    /// How the graph says that it runs, if it does: then its steps are tasks that were cut before.
    pub fn executor(&self) -> Option<Executor> {
        self.executor
    }

    /// Names of the operators that it needs laws for, those inside of its tasks among them.
    pub fn operators(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for node in &self.nodes {
            match &node.work {
                Work::Law { operator, .. } => names.extend([operator.as_str()]),
                Work::Fused(inside) => names.extend(inside.operators()),
                _ => {}
            }
        }
        names
    }

    fn steps(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !matches!(node.work, Work::Source(_) | Work::Argument(_)))
    }
}
