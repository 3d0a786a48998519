//! `recommend`: chunks of one operator, or the longest axis that fits, on the command line.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use memtrace_analysis::placement::swap::Machine;
use memtrace_analysis::plan::{
    Answer, BaselineChunks, Bound, Choice, Compared, Minimise, Options, Plan, PlanError, Reach, SlowMemory,
    Source, Target, Workers,
};
use memtrace_analysis::shape::joined;
use memtrace_analysis::{Law, Model, predict};
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::parse_workers;
use super::json;
use super::law::WhichLaw;
use super::usage::Usage;
use crate::record::free_memory;
use crate::terminal::{Progress, print, say};
use crate::units::{Bytes, parse_limit, parse_size};

/// Arguments of `recommend`.
#[derive(Args)]
pub struct Recommend {
    /// A model that `fit` or `sweep` wrote
    model: PathBuf,
    #[command(flatten)]
    law: WhichLaw,
    /// Memory limit of each worker, e.g. 1.5GB [default, if a device has a limit: what is free
    /// here]
    #[arg(long, visible_alias = "fast-memory", value_name = "SIZE", value_parser = parse_limit)]
    memory_limit: Option<u64>,
    /// Memory of the GPU that each worker has to itself, e.g. 80GB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    device_memory_limit: Option<u64>,
    /// Slow memory (swap, best zram) of each worker in addition, e.g. 4GB: chunks that need it are
    /// taken where moves cost less than smaller chunks do, and workers may use all of their limit
    #[arg(long, value_name = "SIZE", value_parser = parse_limit, requires = "machine")]
    slow_memory: Option<u64>,
    /// What moves cost, as `place calibrate` measured it
    #[arg(long, value_name = "MACHINE.json", requires = "slow_memory")]
    machine: Option<PathBuf>,
    /// Instead of chunks: how long this axis may be for one call; batch is the first
    #[arg(long, value_name = "AXIS|batch", value_parser = parse_axis, conflicts_with_all = ["workers",
          "threads_per_worker", "halo", "whole_axes", "source", "storage_chunks", "minimise", "compare",
          "slow_memory"])]
    axis: Option<usize>,
    /// With --axis: lengths that are multiples of this
    #[arg(long, value_name = "N", default_value_t = 1, requires = "axis")]
    multiple: u64,
    /// Number of workers, or auto: as many as are worth having
    #[arg(long, value_name = "N|auto", value_parser = parse_workers, default_value = "1")]
    workers: Workers,
    /// Threads of each worker
    #[arg(long, default_value_t = 1)]
    threads_per_worker: u64,
    /// Cells per face that a chunk needs from its neighbours, one number per axis or one for all
    #[arg(long, value_name = "N,N,...", value_parser = parse_lengths)]
    halo: Option<Lengths>,
    /// Axes that must stay in one chunk
    #[arg(long, value_name = "AXIS,...", value_parser = parse_lengths)]
    whole_axes: Option<Lengths>,
    /// Where tasks get their cells from
    #[arg(long, value_enum, default_value_t = From::Dask)]
    source: From,
    /// Chunk lengths of the store that the array lies in: chunks are made of whole ones where these
    /// fit
    #[arg(long, value_name = "N,N,...", value_parser = parse_lengths)]
    storage_chunks: Option<Lengths>,
    /// What the chunks are to make small
    #[arg(long, value_enum, default_value_t = Least::Time)]
    minimise: Least,
    /// Also show what Dask's own choice of chunks would need, or chunks of these lengths
    #[arg(long, value_name = "auto|N,N,...", value_parser = parse_baseline)]
    compare: Option<BaselineChunks>,
    /// Resident size of a worker before its first task [default: the recorded process's + 110 MB
    /// for Dask]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    baseline: Option<u64>,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// What `recommend --json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Found {
    /// Chunks.
    Chunks(Answer),
    /// With --axis.
    Axis(Reach),
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum Format {
    /// Sentences
    Text,
    /// All of it
    Json,
    /// A tuple of tuples for Dask's rechunk
    Dask,
    /// The chunks of a DASF dataset
    Dasf,
    /// #SBATCH lines
    Slurm,
    /// Resources of a container in Kubernetes
    K8s,
    /// Environment variables
    Env,
}

#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// Tasks of one graph that neighbours share (map_overlap)
    Dask,
    /// Each task reads its chunk and halo from a store
    Storage,
    /// A few blocks at a time, each from a graph of its own
    Waves,
}

#[derive(Clone, Copy, ValueEnum)]
enum Least {
    /// Seconds until the result is there
    Time,
    /// The peak of a worker
    Memory,
    /// The number of chunks
    Tasks,
}

#[derive(Clone)]
struct Lengths(Vec<u64>);

fn parse_lengths(text: &str) -> Result<Lengths, String> {
    let lengths = text.split(',').map(|length| length.trim().parse()).collect::<Result<_, _>>();
    lengths.map(Lengths).map_err(|_| format!("{text:?} is not a list of numbers; write 2,2,2"))
}

fn parse_baseline(text: &str) -> Result<BaselineChunks, String> {
    if text == "auto" {
        Ok(BaselineChunks::Auto)
    } else {
        parse_lengths(text).map(|lengths| BaselineChunks::Chunks(lengths.0))
    }
}

fn parse_axis(text: &str) -> Result<usize, String> {
    if text == "batch" {
        Ok(0)
    } else {
        text.parse().map_err(|_| "write a number from 0 on, or batch".to_owned())
    }
}

/// `memtrace recommend`
pub fn run(arguments: &Recommend) -> Result<ExitCode> {
    if arguments.memory_limit.or(arguments.device_memory_limit).is_none() {
        return Err(Usage("name the memory limit of a worker, e.g. --memory-limit 1.5GB".to_owned()).into());
    }
    let model = Model::load(&arguments.model)?;
    let law = arguments.law.select(&model)?;
    if let Some(axis) = arguments.axis {
        return reach(arguments, law, axis);
    }
    let progress = Progress::start("choosing chunks");
    let answer = arguments.options()?.recommend(law, arguments.law.shape.0.clone()).map_err(usage)?;
    drop(progress);
    let text = match (&answer, arguments.format()) {
        (_, Format::Json) => {
            let status = ExitCode::from(if matches!(answer, Answer::Refusal(_)) { 3 } else { 0 });
            return json::print(&Found::Chunks(answer)).map(|()| status);
        }
        (Answer::Plan(plan), Format::Text) => sentences(plan)?,
        (Answer::Plan(plan), Format::Dask) => plan.render(Target::Dask),
        (Answer::Plan(plan), Format::Dasf) => plan.render(Target::Dasf),
        (Answer::Plan(plan), Format::Slurm) => plan.render(Target::Slurm),
        (Answer::Plan(plan), Format::K8s) => plan.render(Target::Kubernetes),
        (Answer::Plan(plan), Format::Env) => plan.render(Target::Env),
        (Answer::Refusal(refusal), _) => {
            say(&refusal.why);
            return Ok(ExitCode::from(3));
        }
    };
    print(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// How long an axis may be.
fn reach(arguments: &Recommend, law: &Law, axis: usize) -> Result<ExitCode> {
    let shape = arguments.law.shape.0.clone();
    let found = arguments.options()?.longest(law, shape, axis, arguments.multiple).map_err(usage)?;
    let status = ExitCode::from(if matches!(found, Reach::Refusal(_)) { 3 } else { 0 });
    match (&found, arguments.format()) {
        (_, Format::Json) => json::print(&Found::Axis(found))?,
        (Reach::Longest(longest), Format::Text) => {
            let prediction = predict(law, &longest.shape)?;
            let confidence = Bound::confidence(longest.bound_by, &prediction);
            let bound = longest.bound_by.map_or("nothing", |bound| bound.words());
            let (axis, length) = (longest.axis, longest.length);
            print(&format!("axis {axis}: {length}, bound by {bound} ({confidence})\n  {}\n", longest.why))?;
        }
        (Reach::Refusal(refusal), Format::Text) => say(&refusal.why),
        _ => return Err(Usage("with --axis the format is text or json".to_owned()).into()),
    }
    Ok(status)
}

fn usage(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Request(reason) => Usage(reason).into(),
        other => other.into(),
    }
}

impl Recommend {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    fn options(&self) -> Result<Options> {
        let lengths = |lengths: &Option<Lengths>| lengths.clone().map(|Lengths(each)| each);
        let whole = lengths(&self.whole_axes).unwrap_or_default();
        let known = Options::new(self.memory_limit.unwrap_or_else(|| self.free_memory()));
        let machine = self.machine.as_deref().map(Machine::load).transpose()?;
        let slow = |bytes| machine.map(|machine| SlowMemory::of(&machine, bytes));
        Ok(Options {
            device_limit_bytes: self.device_memory_limit,
            workers: self.workers,
            threads_per_worker: self.threads_per_worker,
            halo: lengths(&self.halo).unwrap_or_else(|| known.halo.clone()),
            whole_axes: whole.into_iter().map(|axis| axis as usize).collect(),
            baseline_bytes: self.baseline,
            source: match self.source {
                From::Dask => Source::Dask,
                From::Storage => Source::Storage,
                From::Waves => Source::Waves,
            },
            storage_chunks: lengths(&self.storage_chunks),
            minimise: match self.minimise {
                Least::Time => Minimise::Time,
                Least::Memory => Minimise::Memory,
                Least::Tasks => Minimise::Tasks,
            },
            compare: self.compare.clone(),
            slow: self.slow_memory.and_then(slow),
            ..known
        })
    }

    /// What each worker may have of this machine's free memory: the workers are taken to share it.
    fn free_memory(&self) -> u64 {
        let workers = if let Workers::Number(number) = self.workers { number } else { 1 };
        free_memory().unwrap_or(u64::MAX) / workers.max(1)
    }
}

fn sentences(plan: &Plan) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "chunks of {} ({} tasks)", joined(&plan.chunk_shape), plan.tasks)?;
    let confidence = plan.confidence.as_ref().map_or_else(String::new, |words| format!("   ({words})"));
    writeln!(text, "  one task      {:>9}{confidence}", Bytes(plan.predicted_task_bytes))?;
    writeln!(
        text,
        "  one worker    {:>9}   of {} usable ({} limit)",
        Bytes(plan.predicted_worker_bytes),
        Bytes(plan.budget_bytes),
        Bytes(plan.memory_limit_bytes)
    )?;
    if let Some(reason) = &plan.unverified_because {
        writeln!(text, "  unverified: {reason}")?;
    }
    if let Some(slow) = &plan.slow {
        writeln!(
            text,
            "  slow memory   {:>9}   of {}; there and back with each round of tasks, {:.1} s in all",
            Bytes(slow.predicted_moved_bytes),
            Bytes(slow.limit_bytes),
            slow.predicted_seconds
        )?;
    }
    if let Some(device) = &plan.device {
        writeln!(
            text,
            "  its device    {:>9}   of {}{}",
            Bytes(device.predicted_worker_bytes),
            Bytes(device.limit_bytes),
            plan.bound_by.map_or(String::new(), |bound| format!("; {} rules", bound.words()))
        )?;
    }
    writeln!(
        text,
        "  time          {:>7.1} s   ± {:.0} %, as the recorded times spread",
        plan.predicted_seconds,
        100.0 * plan.seconds_spread
    )?;
    if !plan.tried.is_empty() {
        writeln!(text, "  workers       {:>9}   of {} threads", plan.workers, plan.threads_per_worker)?;
    }
    write!(text, "  {}", plan.why)?;
    if plan.pareto.len() > 1 {
        write!(text, "\nchoices of which none is better in all")?;
        for choice in &plan.pareto {
            write!(text, "\n  {}", choice_line(choice))?;
        }
    }
    if let Some(compared) = &plan.compare {
        let (whose, choice) = match compared {
            Compared::Auto(choice) => ("Dask's own choice (chunks=\"auto\")", choice),
            Compared::Chunks(choice) => ("the choice it is compared with", choice),
        };
        let verdict = if choice.fits { "fits" } else { "does not fit" };
        write!(text, "\n{whose} {verdict}\n  {}", choice_line(choice))?;
    }
    Ok(text)
}

fn choice_line(choice: &Choice) -> String {
    let device = choice.predicted_device_bytes;
    format!(
        "chunks of {:<16} {:>6} tasks {:>7.1} s   worker {:>9}{}",
        joined(&choice.chunk_shape),
        choice.tasks,
        choice.predicted_seconds,
        Bytes(choice.predicted_worker_bytes).to_string(),
        device.map_or_else(String::new, |bytes| format!("   device {:>9}", Bytes(bytes).to_string())),
    )
}
