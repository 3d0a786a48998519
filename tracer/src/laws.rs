//! `fit`, `predict` and `recommend`: `memtrace-analysis` on the command line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use memtrace_analysis::file::CHANGED;
use memtrace_analysis::model::{Proof, joined};
use memtrace_analysis::plan::{
    self, Answer, Choice, Compared, Minimise, Plan, PlanError, Request, Source, Target, Workers,
};
use memtrace_analysis::{Ask, Law, Model, Prediction, predict as predict_law};
use memtrace_trace::Trace;
use serde_json::Value;

use crate::cli::{Shape, Usage, parse_shape_argument, print};
use crate::plan::parse_workers;
use crate::units::{Bytes, parse_shape, parse_size};

/// Arguments of `fit`.
#[derive(Args)]
pub struct Fit {
    /// Trace directories
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Where to write the model
    #[arg(short, long, value_name = "MODEL.json")]
    output: PathBuf,
}

/// Arguments of `predict`.
#[derive(Args)]
pub struct Predict {
    /// A model that `fit` or `sweep` wrote
    model: PathBuf,
    #[command(flatten)]
    law: WhichLaw,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which law of a model, at which shape.
#[derive(Args)]
struct WhichLaw {
    /// The operator, as recorded or its last part
    #[arg(long, value_name = "NAME")]
    operator: String,
    /// Shape of its input
    #[arg(long, value_name = "N,N,...", value_parser = parse_shape_argument)]
    shape: Shape,
    /// Element type, if the model has laws for several
    #[arg(long)]
    dtype: Option<String>,
    /// A parameter's value, if the model has laws for several; also layout, device, threads, or a library's version
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    params: Vec<(String, Value)>,
    /// Answer even if the law is for other versions of libraries than --param asks for
    #[arg(long)]
    any_version: bool,
}

impl WhichLaw {
    fn select<'a>(&self, model: &'a Model) -> Result<&'a Law> {
        if model.notes.iter().any(|note| note == CHANGED) {
            crate::cli::say(CHANGED);
        }
        Ok(model.find(&Ask {
            operator: &self.operator,
            dtype: self.dtype.as_deref(),
            params: self.params.iter().cloned().collect(),
            libraries: BTreeMap::new(),
            any_version: self.any_version,
            dims: Some(self.shape.0.len()),
        })?)
    }
}

/// Arguments of `merge`.
#[derive(Args)]
pub struct Merge {
    /// Models that `fit` or `sweep` wrote
    #[arg(required = true, num_args = 2.., value_name = "MODEL.json")]
    models: Vec<PathBuf>,
    /// Where to write the merged model
    #[arg(short, long, value_name = "MODEL.json")]
    output: PathBuf,
}

/// Arguments of `recommend`.
#[derive(Args)]
pub struct Recommend {
    /// A model that `fit` or `sweep` wrote
    model: PathBuf,
    #[command(flatten)]
    law: WhichLaw,
    /// Memory limit of each worker, e.g. 1.5GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: u64,
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
    /// Chunk lengths of the store that the array lies in: chunks are made of whole ones where these fit
    #[arg(long, value_name = "N,N,...", value_parser = parse_lengths)]
    storage_chunks: Option<Lengths>,
    /// What the chunks are to make small
    #[arg(long, value_enum, default_value_t = Least::Time)]
    minimise: Least,
    /// Also show what Dask's own choice of chunks would need
    #[arg(long, value_enum)]
    compare: Option<Compare>,
    /// Resident size of a worker before its first task [default: the recorded process's + 110 MB for Dask]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    baseline: Option<u64>,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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

#[derive(Clone, Copy, ValueEnum)]
enum Compare {
    /// chunks="auto"
    Auto,
}

#[derive(Clone)]
struct Lengths(Vec<u64>);

fn parse_lengths(text: &str) -> Result<Lengths, String> {
    let lengths = text.split(',').map(|length| length.trim().parse()).collect::<Result<_, _>>();
    lengths.map(Lengths).map_err(|_| format!("{text:?} is not a list of numbers; write 2,2,2"))
}

pub fn parse_parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    // A number, true or false; anything else is text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.to_string(), value))
}

/// `memtrace fit`
pub fn fit(arguments: &Fit) -> Result<ExitCode> {
    let traces = arguments.traces.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    save_and_describe(&memtrace_analysis::fit(&traces)?, &arguments.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Saves a model and prints its laws.
pub fn save_and_describe(model: &Model, output: &Path) -> Result<()> {
    model.save(output)?;
    let mut text = String::new();
    for law in &model.laws {
        describe(&mut text, law)?;
    }
    for note in &model.notes {
        writeln!(text, "note: {note}")?;
    }
    writeln!(text, "model: {}", output.display())?;
    print(&text)
}

fn describe(text: &mut String, law: &Law) -> Result<()> {
    writeln!(text, "{}({}): {}", law.key.operator, law.key.dtype, law.proof)?;
    let largest = law.trained_on.iter().max_by_key(|run| run.working_peak_bytes);
    if let Some(run) = largest {
        let prediction = predict_law(law, &run.shape)?;
        write_terms(text, &prediction)?;
    }
    let mut shapes: Vec<String> = law.trained_on.iter().map(|run| joined(&run.shape)).collect();
    shapes.dedup();
    writeln!(text, "  trained on {}", shapes.join(", "))?;
    if law.once.bytes > 0 {
        let largest = law.once.blocks.first().map_or(String::new(), |block| {
            format!("; largest: one {} of {}", block.kind, Bytes(block.bytes))
        });
        writeln!(text, "  once per process: {}{largest}", Bytes(law.once.bytes))?;
    }
    for note in &law.notes {
        writeln!(text, "  note: {note}")?;
    }
    Ok(())
}

fn write_terms(text: &mut String, prediction: &Prediction) -> Result<()> {
    let shown = 6;
    let words: Vec<&str> =
        prediction.model.terms.iter().map(|term| term.words.as_str()).take(shown).collect();
    let rest: u64 = prediction.model.terms.iter().skip(shown).map(|term| term.bytes).sum();
    let rest = rest + prediction.model.residual_bytes;
    let more = if rest > 0 { format!(" + {} of small blocks", Bytes(rest)) } else { String::new() };
    let set_at = prediction.model.set_at.as_ref().map_or(String::new(), |place| format!(", set at {place}"));
    writeln!(text, "  working peak = {}{more}{set_at}", words.join(" + "))?;
    writeln!(text, "  input        = {}", prediction.model.inputs.join(" + "))?;
    Ok(())
}

/// `memtrace merge`
pub fn merge(arguments: &Merge) -> Result<ExitCode> {
    let models = arguments.models.iter().map(Model::load).collect::<Result<Vec<_>, _>>()?;
    let merged = models.into_iter().reduce(|merged, model| merged.merge(&model));
    save_and_describe(&merged.context("there is nothing to merge")?, &arguments.output)?;
    Ok(ExitCode::SUCCESS)
}

fn write_resident(text: &mut String, prediction: &Prediction) -> Result<()> {
    let (Some(bytes), Some(upper)) = (prediction.resident_bytes, prediction.resident_upper_bytes) else {
        return Ok(());
    };
    let settings = prediction.model.resident.as_ref().map_or("", |resident| &resident.settings);
    let under = if settings.is_empty() { "glibc's defaults" } else { settings };
    writeln!(
        text,
        "  resident      {:>9}   at most {}, the whole process, under {under}",
        Bytes(bytes),
        Bytes(upper)
    )?;
    Ok(())
}

/// `memtrace predict`
pub fn predict(arguments: &Predict) -> Result<ExitCode> {
    let model = Model::load(&arguments.model)?;
    let law = arguments.law.select(&model)?;
    let prediction = predict_law(law, &arguments.law.shape.0).map_err(Usage::from)?;
    let mut text = String::new();
    if arguments.json {
        text = serde_json::to_string_pretty(&prediction)? + "\n";
    } else {
        writeln!(text, "{} at {}", prediction.operator, joined(&prediction.shape))?;
        writeln!(
            text,
            "  working peak  {:>9}   at most {} ({})",
            Bytes(prediction.peak_bytes),
            Bytes(prediction.upper_bytes),
            prediction.confidence
        )?;
        write_terms(&mut text, &prediction)?;
        writeln!(
            text,
            "  input         {:>9}   together {}",
            Bytes(prediction.input_bytes),
            Bytes(prediction.total_bytes)
        )?;
        writeln!(text, "  output        {:>9}", Bytes(prediction.output_bytes))?;
        writeln!(text, "  once          {:>9}   per process", Bytes(prediction.once_bytes))?;
        write_resident(&mut text, &prediction)?;
        if prediction.data_dependent == Some(true) {
            writeln!(text, "  depends on what is in the arrays: at most is for the worst that was run")?;
        }
        if prediction.extrapolated {
            writeln!(text, "  {}", extrapolation(&prediction))?;
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// How far a proof reaches, where the shape is beyond the training runs.
fn extrapolation(prediction: &Prediction) -> String {
    match &prediction.model.evidence {
        Proof::Exact { shape, .. } | Proof::WorstCase { shape, .. } => {
            let within = prediction.shape.iter().zip(shape).all(|(n, verified)| n <= verified);
            let verified = joined(shape);
            match within {
                true => format!("larger than its training runs, within the {verified} that verified it"),
                false => format!(
                    "beyond the {verified} that verified it: an operator that takes another course at some size needs something else there"
                ),
            }
        }
        _ => "outside the shapes it was trained on".to_owned(),
    }
}

/// `memtrace recommend`
pub fn recommend(arguments: &Recommend) -> Result<ExitCode> {
    let model = Model::load(&arguments.model)?;
    let law = arguments.law.select(&model)?;
    let bytes = |shape: &[u64]| law.bytes(shape);
    let request = request(arguments, law).map_err(usage)?;
    let found = match arguments.workers {
        Workers::Number(_) => plan::recommend(&request, &bytes),
        Workers::Auto => plan::recommend_workers(&request, &bytes),
    };
    let mut answer = found.map_err(usage)?;
    if let (Answer::Plan(plan), Some(Compare::Auto)) = (&mut answer, arguments.compare) {
        let asked = Request { workers: plan.workers, ..request };
        plan.compare = Some(Compared { auto: plan::auto(&asked, &bytes).map_err(usage)? });
    }
    let text = match (&answer, arguments.format) {
        (_, Format::Json) => serde_json::to_string_pretty(&answer)?,
        (Answer::Plan(plan), Format::Text) => sentences(plan)?,
        (Answer::Plan(plan), Format::Dask) => plan.render(Target::Dask),
        (Answer::Plan(plan), Format::Dasf) => plan.render(Target::Dasf),
        (Answer::Plan(plan), Format::Slurm) => plan.render(Target::Slurm),
        (Answer::Plan(plan), Format::K8s) => plan.render(Target::Kubernetes),
        (Answer::Plan(plan), Format::Env) => plan.render(Target::Env),
        (Answer::Refusal(refusal), _) => {
            crate::cli::say(&refusal.why);
            return Ok(ExitCode::from(3));
        }
    };
    print(&(text + "\n"))?;
    Ok(ExitCode::from(if matches!(answer, Answer::Refusal(_)) { 3 } else { 0 }))
}

fn usage(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Request(reason) => Usage(reason).into(),
        other => other.into(),
    }
}

fn request(arguments: &Recommend, law: &Law) -> Result<Request, PlanError> {
    let shape = arguments.law.shape.0.clone();
    let known = Request::of(law, shape.clone(), arguments.memory_limit)?;
    let lengths = |lengths: &Option<Lengths>| lengths.clone().map(|Lengths(each)| each);
    let halo = match lengths(&arguments.halo) {
        None => vec![0; shape.len()],
        Some(one) if one.len() == 1 => vec![one[0]; shape.len()],
        Some(each) => each,
    };
    let whole = lengths(&arguments.whole_axes).unwrap_or_default();
    let workers = match arguments.workers {
        Workers::Number(number) => number,
        Workers::Auto => 1,
    };
    Ok(Request {
        halo,
        whole_axes: whole.into_iter().map(|axis| axis as usize).collect(),
        workers,
        threads_per_worker: arguments.threads_per_worker,
        baseline_bytes: arguments.baseline.unwrap_or(known.baseline_bytes),
        source: match arguments.source {
            From::Dask => Source::Dask,
            From::Storage => Source::Storage,
            From::Waves => Source::Waves,
        },
        storage_chunks: lengths(&arguments.storage_chunks),
        minimise: match arguments.minimise {
            Least::Time => Minimise::Time,
            Least::Memory => Minimise::Memory,
            Least::Tasks => Minimise::Tasks,
        },
        ..known
    })
}

fn sentences(plan: &Plan) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "chunks of {} ({} tasks)", joined(&plan.chunk_shape), plan.tasks)?;
    writeln!(text, "  one task      {:>9}", Bytes(plan.predicted_task_bytes))?;
    writeln!(
        text,
        "  one worker    {:>9}   of {} usable ({} limit)",
        Bytes(plan.predicted_worker_bytes),
        Bytes(plan.budget_bytes),
        Bytes(plan.memory_limit_bytes)
    )?;
    writeln!(text, "  time          {:>7.1} s", plan.predicted_seconds)?;
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
    if let Some(Compared { auto }) = &plan.compare {
        let verdict = if auto.fits { "fits" } else { "does not fit" };
        write!(text, "\nDask's own choice (chunks=\"auto\") {verdict}\n  {}", choice_line(auto))?;
    }
    Ok(text)
}

fn choice_line(choice: &Choice) -> String {
    format!(
        "chunks of {:<16} {:>6} tasks {:>7.1} s   worker {:>9}",
        joined(&choice.chunk_shape),
        choice.tasks,
        choice.predicted_seconds,
        Bytes(choice.predicted_worker_bytes).to_string()
    )
}

/// Reads `A..B`.
pub fn parse_range(text: &str) -> Result<(Vec<u64>, Vec<u64>), String> {
    let (from, to) = text.split_once("..").ok_or("write two shapes, e.g. 37,41,43..60,60,60")?;
    Ok((parse_shape(from)?, parse_shape(to)?))
}
