//! `fit`, `merge` and `predict`: `memtrace-analysis` on the command line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use memtrace_analysis::file::CHANGED;
use memtrace_analysis::model::{Proof, joined};
use memtrace_analysis::predict::Explanation;
use memtrace_analysis::{Ask, Law, Model, Prediction, predict as predict_law};
use memtrace_trace::Trace;
use serde_json::Value;

use crate::cli::{Shape, Usage, parse_shape_argument, print};
use crate::units::{Bytes, parse_shape};

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
pub struct WhichLaw {
    /// The operator, as recorded or its last part
    #[arg(long, value_name = "NAME")]
    operator: String,
    /// Shape of its input
    #[arg(long, value_name = "N,N,...", value_parser = parse_shape_argument)]
    pub shape: Shape,
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
    /// The law.
    ///
    /// # Errors
    /// None, or several, answer.
    pub fn select<'a>(&self, model: &'a Model) -> Result<&'a Law> {
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
    if let Some(there) = &law.on_devices {
        writeln!(text, "  on devices: {}", there.law.proof)?;
        for note in &there.law.notes {
            writeln!(text, "  note on devices: {note}")?;
        }
    }
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
    writeln!(text, "  working peak = {}", peak_words(&prediction.model))?;
    if let Some(device) = &prediction.device {
        writeln!(text, "  on devices   = {}", peak_words(&device.model))?;
    }
    writeln!(text, "  input        = {}", prediction.model.inputs.join(" + "))?;
    Ok(())
}

fn peak_words(model: &Explanation) -> String {
    let shown = 6;
    let words: Vec<&str> = model.terms.iter().map(|term| term.words.as_str()).take(shown).collect();
    let rest: u64 = model.terms.iter().skip(shown).map(|term| term.bytes).sum();
    let rest = rest + model.residual_bytes;
    let more = if rest > 0 { format!(" + {} of small blocks", Bytes(rest)) } else { String::new() };
    let set_at = model.set_at.as_ref().map_or(String::new(), |place| format!(", set at {place}"));
    // Nothing that counts is a law, too: an operator that works on a device alone.
    let words = if words.is_empty() { "0".to_owned() } else { words.join(" + ") };
    format!("{words}{more}{set_at}")
}

/// `memtrace merge`
pub fn merge(arguments: &Merge) -> Result<ExitCode> {
    let models = arguments.models.iter().map(Model::load).collect::<Result<Vec<_>, _>>()?;
    let merged = models.into_iter().reduce(|merged, model| merged.merge(&model));
    save_and_describe(&merged.context("there is nothing to merge")?, &arguments.output)?;
    Ok(ExitCode::SUCCESS)
}

fn write_on_devices(text: &mut String, prediction: &Prediction) -> Result<()> {
    if let Some(reason) = &prediction.device_unknown {
        writeln!(text, "  on devices      unknown: {reason}")?;
    }
    let Some(device) = &prediction.device else { return Ok(()) };
    writeln!(
        text,
        "  on devices    {:>9}   at most {} ({}); with its input, {} held before and what pools keep {}",
        Bytes(device.peak_bytes),
        Bytes(device.upper_bytes),
        device.confidence,
        Bytes(device.before_bytes),
        Bytes(device.reserved_bytes)
    )?;
    Ok(())
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
        write_on_devices(&mut text, &prediction)?;
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

/// Reads `A..B`.
pub fn parse_range(text: &str) -> Result<(Vec<u64>, Vec<u64>), String> {
    let (from, to) = text.split_once("..").ok_or("write two shapes, e.g. 37,41,43..60,60,60")?;
    Ok((parse_shape(from)?, parse_shape(to)?))
}
