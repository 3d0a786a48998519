//! `plan`: pipelines of operators on the command line.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use memtrace_analysis::Model;
use memtrace_analysis::graph::{
    self, Answer, ChunkPlan, Executor, Fit, Forecast, Graph, Libraries, Limits, Refusal,
};
use memtrace_analysis::model::joined;
use memtrace_analysis::plan::{Process, Workers, recorded_bytes};
use serde_json::{Value, json};

use crate::cli::{Usage, print, say};
use crate::units::{Bytes, parse_size};

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
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<u64>,
    /// Workers that share the chunks, or auto: as many as are worth having
    #[arg(long, value_name = "N|auto", value_parser = parse_workers, requires = "memory_limit")]
    workers: Option<Workers>,
    /// Steps that a process runs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    threads_per_worker: u64,
    /// Run the steps as they are listed, and cut nothing [default: what the graph says, else sequential]
    #[arg(long, value_enum)]
    executor: Option<Kind>,
    /// Resident size of a process before its first step [default: the recorded process's, + 110 MB for a Dask worker]
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

pub fn parse_workers(text: &str) -> Result<Workers, String> {
    match text {
        "auto" => Ok(Workers::Auto),
        _ => match text.parse() {
            Ok(number) if number > 0 => Ok(Workers::Number(number)),
            _ => Err("write a number of workers, or auto".into()),
        },
    }
}

/// `memtrace plan`
pub fn run(arguments: &Plan) -> Result<ExitCode> {
    let model = Model::load(&arguments.model)?;
    let graph = Graph::parse(&read(&arguments.graph)?)
        .with_context(|| format!("cannot use {}", arguments.graph.display()))?;
    let executor = arguments.executor(&graph);
    if let (Some(limit), None) = (arguments.memory_limit, executor) {
        return chunks(arguments, &model, &graph, limit);
    }
    if arguments.workers.is_some() {
        return Err(Usage(
            "--workers is for whole arrays that are to be cut; this graph runs as it is".into(),
        )
        .into());
    }
    let executor = executor.unwrap_or(Executor::Sequential);
    let forecast = graph::foretell(&model, &Libraries::default(), &graph, executor)?;
    let Some(limit) = arguments.memory_limit else {
        let text = if arguments.json { json(&forecast)? } else { sentences(&forecast)? };
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let process = executor.process(forecast.baseline_bytes);
    let baseline = arguments.baseline.unwrap_or(process.baseline_bytes);
    let fit = graph::check(&forecast, limit, process.budget_fraction, baseline);
    if let (Err(refusal), false) = (&fit, arguments.json) {
        return refused(refusal, false);
    }
    let text = match (&fit, arguments.json) {
        (Ok(fit), false) => sentences(&forecast)? + &fits(fit)?,
        (Ok(fit), true) => with(&forecast, "fit", json!(fit))?,
        (Err(refusal), _) => with(&forecast, "refusal", json!(refusal))?,
    };
    print(&text)?;
    Ok(ExitCode::from(if fit.is_ok() { 0 } else { 3 }))
}

impl Plan {
    /// How to run the steps as they are; `None`: whole arrays, which may be cut.
    fn executor(&self, graph: &Graph) -> Option<Executor> {
        let threads = self.threads_per_worker;
        let kind = self.executor.map(|kind| match kind {
            Kind::Sequential => Executor::Sequential,
            Kind::Threaded => Executor::Threaded { threads },
            Kind::Distributed => Executor::Distributed { threads },
        });
        kind.or(graph.executor())
    }
}

fn chunks(arguments: &Plan, model: &Model, graph: &Graph, limit: u64) -> Result<ExitCode> {
    let worker = Process::dask_worker(recorded_bytes(model));
    let limits = Limits {
        memory_limit_bytes: limit,
        budget_fraction: worker.budget_fraction,
        workers: arguments.workers.unwrap_or(Workers::Number(1)),
        threads_per_worker: arguments.threads_per_worker,
        baseline_bytes: arguments.baseline.unwrap_or(worker.baseline_bytes),
    };
    match graph::recommend(model, &Libraries::default(), graph, &limits).map_err(usage)? {
        Answer::Refusal(refusal) => refused(&refusal, arguments.json),
        Answer::Plan(plan) => {
            let text = if arguments.json { json(&plan)? } else { chunk_sentences(&plan)? };
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn usage(error: graph::Error) -> anyhow::Error {
    match error {
        graph::Error::Request(what) => Usage(what).into(),
        other => other.into(),
    }
}

fn refused(refusal: &Refusal, as_json: bool) -> Result<ExitCode> {
    if as_json {
        print(&json(refusal)?)?;
    } else {
        say(&refusal.why);
    }
    Ok(ExitCode::from(3))
}

fn read(path: &Path) -> Result<String> {
    use std::io::Read;
    let context = || format!("cannot read the graph {}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(context)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).with_context(context)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("the graph {} is larger than 1 GiB", path.display());
    }
    Ok(text)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// A forecast with one more member.
fn with(forecast: &Forecast, name: &str, member: Value) -> Result<String> {
    let mut value = json!(forecast);
    value[name] = member;
    json(&value)
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
        writeln!(text, "  {} by steps that run beside it", Bytes(set_by.others_bytes))?;
    }
    if set_by.held_bytes > 0 {
        let shown = set_by.held.iter().take(4);
        let names: Vec<String> = shown.map(|held| format!("{} {}", held.step, Bytes(held.bytes))).collect();
        let more = if set_by.held.len() > 4 { ", …" } else { "" };
        writeln!(text, "  {} held: {}{more}", Bytes(set_by.held_bytes), names.join(", "))?;
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
        let alone = each.alone.as_ref().filter(|alone| **alone != plan.chunk_shape);
        let alone = alone.map_or(String::new(), |alone| format!("   (alone: chunks of {})", joined(alone)));
        writeln!(
            text,
            "  {}: blocks of {}, {}{alone}",
            each.operator,
            joined(&each.block_shape),
            Bytes(each.task_bytes)
        )?;
    }
    writeln!(text, "  {}", plan.why)?;
    Ok(text)
}
