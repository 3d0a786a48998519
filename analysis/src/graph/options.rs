//! What a user gives for a pipeline: the command line and Python make their requests of it.

use super::answer::{Answer, Limits};
use super::check::{Fit, Refusal, check};
use super::choose::recommend;
use super::error::Error;
use super::predict::{Forecast, predict};
use super::{Executor, Graph, Libraries};
use crate::model::Model;
use crate::plan::{Process, Workers, recorded_bytes};

/// A process with more threads is refused.
const MOST_THREADS: u64 = 4096;

/// Options of a pipeline's plan; where one is `None`, the graph, the laws and the process have the value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Memory limit of each process, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Workers that share the chunks.
    pub workers: Option<Workers>,
    /// Threads of each.
    pub threads_per_worker: u64,
    /// How to run the steps as they are.
    pub executor: Option<Executor>,
    /// Part of the limit that a process may use.
    pub budget_fraction: Option<f64>,
    /// Resident bytes of a process before its first step.
    pub baseline_bytes: Option<u64>,
}

/// The plan of a pipeline.
#[derive(Debug, Clone)]
pub enum Planned {
    /// Whole arrays were cut into chunks, or none fit.
    Chunks(Answer),
    /// The graph runs as it is.
    AsItIs {
        /// What it needs.
        forecast: Box<Forecast>,
        /// Whether that fits, if there is a limit.
        fit: Option<Result<Fit, Refusal>>,
    },
}

impl Options {
    /// Cuts whole arrays into chunks if there is a limit, else predicts the graph as it is.
    ///
    /// # Errors
    /// [`Error::Request`]: the options contradict each other or the graph; otherwise the graph cannot be planned.
    pub fn plan(&self, model: &Model, libraries: &Libraries, graph: &Graph) -> Result<Planned, Error> {
        self.check()?;
        let executor = self.executor.or(graph.executor());
        if let (Some(limit), None) = (self.memory_limit_bytes, executor) {
            let limits = self.limits(model, limit);
            return recommend(model, libraries, graph, &limits).map(Planned::Chunks);
        }
        if self.workers.is_some() {
            let why = "workers are for whole arrays that are to be cut; this graph runs as it is";
            return Err(Error::Request(why.into()));
        }
        let executor = executor.unwrap_or(Executor::Sequential);
        let forecast = Box::new(predict(model, libraries, graph, executor)?);
        let fit = self.memory_limit_bytes.map(|limit| self.fit(&forecast, executor, limit));
        Ok(Planned::AsItIs { forecast, fit })
    }

    fn check(&self) -> Result<(), Error> {
        if !(1..=MOST_THREADS).contains(&self.threads_per_worker) {
            let why = format!("threads per worker must be from 1 to {MOST_THREADS}");
            return Err(Error::Request(why));
        }
        if self.workers.is_some() && self.memory_limit_bytes.is_none() {
            let why = "workers are for chunks that fit a memory limit: give that too";
            return Err(Error::Request(why.into()));
        }
        Ok(())
    }

    fn limits(&self, model: &Model, limit: u64) -> Limits {
        let worker = Process::dask_worker(recorded_bytes(model));
        Limits {
            memory_limit_bytes: limit,
            budget_fraction: self.budget_fraction.unwrap_or(worker.budget_fraction),
            workers: self.workers.unwrap_or(Workers::Number(1)),
            threads_per_worker: self.threads_per_worker,
            baseline_bytes: self.baseline_bytes.unwrap_or(worker.baseline_bytes),
        }
    }

    fn fit(&self, forecast: &Forecast, executor: Executor, limit: u64) -> Result<Fit, Refusal> {
        let process = executor.process(forecast.baseline_bytes);
        let fraction = self.budget_fraction.unwrap_or(process.budget_fraction);
        check(forecast, limit, fraction, self.baseline_bytes.unwrap_or(process.baseline_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"version": 1, "sources": {"v": {"shape": [100, 100, 100], "dtype": "f4"}},
        "steps": [{"name": "a", "bytes": {"per_element": 8}, "inputs": ["v"]}]"#;

    fn graph(rest: &str) -> Graph {
        Graph::parse(&format!("{WHOLE}{rest}}}")).expect("a graph")
    }

    fn plan(options: &Options, graph: &Graph) -> Result<Planned, Error> {
        options.plan(&Model::default(), &Libraries::default(), graph)
    }

    fn options() -> Options {
        Options {
            memory_limit_bytes: Some(1_000_000_000),
            workers: None,
            threads_per_worker: 1,
            executor: None,
            budget_fraction: None,
            baseline_bytes: None,
        }
    }

    #[test]
    fn arrays_are_cut_if_there_is_a_limit_and_no_executor() {
        let whole = graph("");
        assert!(matches!(plan(&options(), &whole), Ok(Planned::Chunks(Answer::Plan(_)))));
        let unlimited = Options { memory_limit_bytes: None, ..options() };
        assert!(matches!(plan(&unlimited, &whole), Ok(Planned::AsItIs { fit: None, .. })));
        let sequential = Options { executor: Some(Executor::Sequential), ..options() };
        assert!(matches!(plan(&sequential, &whole), Ok(Planned::AsItIs { fit: Some(Ok(_)), .. })));
        let narrow = Options { memory_limit_bytes: Some(1_000), ..sequential };
        assert!(matches!(plan(&narrow, &whole), Ok(Planned::AsItIs { fit: Some(Err(_)), .. })));
    }

    #[test]
    fn options_that_contradict_each_other_are_one_sentence() {
        let refused = |options: &Options, graph: &Graph| match plan(options, graph) {
            Err(Error::Request(why)) => why,
            other => panic!("{other:?}"),
        };
        let whole = graph("");
        let cut = graph(r#", "executor": "sequential""#);
        let shared = Options { workers: Some(Workers::Number(2)), ..options() };
        assert!(refused(&shared, &cut).contains("runs as it is"));
        let unlimited = Options { memory_limit_bytes: None, ..shared };
        assert!(refused(&unlimited, &whole).contains("memory limit"));
        for threads_per_worker in [0, 4097] {
            let options = Options { threads_per_worker, ..options() };
            assert!(refused(&options, &whole).contains("from 1 to 4096"));
        }
        let none = Options { workers: Some(Workers::Number(0)), ..options() };
        assert!(refused(&none, &whole).contains("at least 1"));
    }
}
