//! `plan`: pipelines of operators on the command line.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use memtrace_analysis::Model;
use memtrace_analysis::graph::{
    self, Answer, ChunkPlan, Executor, Fit, Forecast, Graph, Libraries, Options, Planned, Refusal,
};
use memtrace_analysis::plan::Workers;
use memtrace_analysis::shape::joined;
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::parse_workers;
use super::json;
use super::usage::Usage;
use crate::terminal::{Progress, print, say};
use crate::units::{Bytes, parse_limit, parse_size};

/// Larger graphs are refused.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Arguments of `plan`.
#[derive(Args)]
pub struct Plan {
    /// A model that `fit` or `sweep` wrote
    model: PathBuf,
    /// A pipeline: sources and steps (docs/planning.md)
    graph: PathBuf,
    /// Memory limit of each process: whole arrays are cut into chunks that fit, tasks are checked
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    memory_limit: Option<u64>,
    /// Workers that share the chunks, or auto: as many as are worth having
    #[arg(long, value_name = "N|auto", value_parser = parse_workers)]
    workers: Option<Workers>,
    /// Steps that a process runs at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads_per_worker: u64,
    /// Run the steps as they are listed, and cut nothing [default: what the graph has, else
    /// sequential]
    #[arg(long, value_enum)]
    executor: Option<Kind>,
    /// Resident size of a process before its first step [default: the recorded process's, + 110 MB
    /// for a Dask worker]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    baseline: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// One step after another
    Sequential,
    /// Dask's schedulers for one machine
    Threaded,
    /// A worker of distributed
    Distributed,
}

/// `memtrace plan`
pub fn run(arguments: &Plan) -> Result<ExitCode> {
    let model = Model::load(&arguments.model)?;
    let graph = Graph::parse(&read(&arguments.graph)?)
        .with_context(|| format!("cannot use {}", arguments.graph.display()))?;
    let progress = Progress::start("planning");
    let planned = arguments.options().plan(&model, &Libraries::default(), &graph).map_err(usage)?;
    drop(progress);
    if arguments.json {
        let found = Found::new(planned);
        json::print(&found)?;
        return Ok(ExitCode::from(if found.is_refusal() { 3 } else { 0 }));
    }
    let text = match planned {
        Planned::Chunks(Answer::Refusal(refusal)) | Planned::AsItIs { fit: Some(Err(refusal)), .. } => {
            say(&refusal.why);
            return Ok(ExitCode::from(3));
        }
        Planned::Chunks(Answer::Plan(plan)) => chunk_sentences(&plan)?,
        Planned::AsItIs { forecast, fit: None } => sentences(&forecast)?,
        Planned::AsItIs { forecast, fit: Some(Ok(fit)) } => sentences(&forecast)? + &fits(&fit)?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What `plan --json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Found {
    /// Chunks of the source.
    Chunks(Answer),
    /// The pipeline as it stands.
    AsItIs {
        /// What it needs.
        #[serde(flatten)]
        forecast: Box<Forecast>,
        /// It fits the memory limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        fit: Option<Fit>,
        /// It does not fit.
        #[serde(skip_serializing_if = "Option::is_none")]
        refusal: Option<Refusal>,
    },
}

impl Found {
    fn new(planned: Planned) -> Found {
        match planned {
            Planned::Chunks(answer) => Found::Chunks(answer),
            Planned::AsItIs { forecast, fit } => {
                let (fit, refusal) = match fit {
                    Some(Ok(fit)) => (Some(fit), None),
                    Some(Err(refusal)) => (None, Some(refusal)),
                    None => (None, None),
                };
                Found::AsItIs { forecast, fit, refusal }
            }
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Found::Chunks(Answer::Refusal(_)) | Found::AsItIs { refusal: Some(_), .. })
    }
}

impl Plan {
    fn options(&self) -> Options {
        let threads = self.threads_per_worker;
        Options {
            memory_limit_bytes: self.memory_limit,
            workers: self.workers,
            threads_per_worker: threads,
            executor: self.executor.map(|kind| match kind {
                Kind::Sequential => Executor::Sequential,
                Kind::Threaded => Executor::Threaded { threads },
                Kind::Distributed => Executor::Distributed { threads },
            }),
            budget_fraction: None,
            baseline_bytes: self.baseline,
        }
    }
}

fn usage(error: graph::Error) -> anyhow::Error {
    match error {
        graph::Error::Request(what) => Usage(what).into(),
        other => other.into(),
    }
}

fn read(path: &Path) -> Result<String> {
    use std::io::Read;
    let context = || format!("cannot read the graph {}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(context)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).with_context(context)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("the graph {} is larger than {}", path.display(), Bytes(MAX_FILE_BYTES));
    }
    Ok(text)
}

fn sentences(forecast: &Forecast) -> Result<String> {
    let mut text = String::new();
    let set_by = &forecast.set_by;
    let peak = Bytes(forecast.peak_bytes);
    writeln!(text, "peak {peak}   at most {} ({})", Bytes(forecast.upper_bytes), forecast.confidence)?;
    writeln!(
        text,
        "  set by {} (step {}), which needs {}",
        set_by.operator,
        set_by.step,
        Bytes(set_by.working_bytes)
    )?;
    if set_by.others_bytes > 0 {
        writeln!(text, "  {} by steps that run at the same time", Bytes(set_by.others_bytes))?;
    }
    if set_by.retained_bytes > 0 {
        let shown = set_by.retained.iter().take(4);
        let names: Vec<String> =
            shown.map(|value| format!("{} {}", value.step, Bytes(value.bytes))).collect();
        let more = if set_by.retained.len() > 4 { ", …" } else { "" };
        writeln!(text, "  {} retained: {}{more}", Bytes(set_by.retained_bytes), names.join(", "))?;
    }
    let width =
        forecast.operators.iter().map(|each| each.operator.chars().count()).max().unwrap_or(0).clamp(8, 40);
    writeln!(text, "  {:width$}  steps    working  live then      time", "operator")?;
    for each in &forecast.operators {
        let name: String = each.operator.chars().take(width).collect();
        let (working, live) = (Bytes(each.working_bytes), Bytes(each.live_bytes));
        writeln!(text, "  {name:width$} {:>6}  {working:>9}  {live:>9} {:>7.2} s", each.steps, each.seconds)?;
    }
    writeln!(
        text,
        "  results {}; {:.2} s from the first step to the last",
        Bytes(forecast.result_bytes),
        forecast.seconds
    )?;
    if forecast.extrapolated {
        writeln!(text, "  outside the shapes that laws were trained on")?;
    }
    Ok(text)
}

fn fits(fit: &Fit) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "  one process {} of {} usable ({} limit)",
        Bytes(fit.process_bytes),
        Bytes(fit.budget_bytes),
        Bytes(fit.memory_limit_bytes)
    )?;
    Ok(text)
}

fn chunk_sentences(plan: &ChunkPlan) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "chunks of {} for {} ({} tasks)", joined(&plan.chunk_shape), plan.source, plan.tasks)?;
    writeln!(text, "  workers       {:>9}   of {} threads", plan.workers, plan.threads_per_worker)?;
    writeln!(
        text,
        "  one worker    {:>9}   of {} usable ({} limit)",
        Bytes(plan.predicted_worker_bytes),
        Bytes(plan.budget_bytes),
        Bytes(plan.memory_limit_bytes)
    )?;
    writeln!(text, "  time          {:>7.1} s", plan.predicted_seconds)?;
    for each in &plan.operators {
        let separate = each.separate.as_ref().filter(|separate| **separate != plan.chunk_shape);
        let separate =
            separate.map_or(String::new(), |chunks| format!("   (by itself: chunks of {})", joined(chunks)));
        writeln!(
            text,
            "  {}: blocks of {}, {}{separate}",
            each.operator,
            joined(&each.block_shape),
            Bytes(each.task_bytes)
        )?;
    }
    writeln!(text, "  {}", plan.why)?;
    Ok(text)
}
