//! `predict`: the bytes of an operator at a shape.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use memtrace_analysis::model::Proof;
use memtrace_analysis::shape::joined;
use memtrace_analysis::{Model, Prediction, predict as predict_law};

use super::json;
use super::law::{WhichLaw, write_terms};
use super::usage::Usage;
use crate::terminal::print;
use crate::units::Bytes;

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

/// `memtrace predict`
pub fn run(arguments: &Predict) -> Result<ExitCode> {
    let model = Model::load(&arguments.model)?;
    let law = arguments.law.select(&model)?;
    let prediction = predict_law(law, &arguments.law.shape.0).map_err(Usage::from)?;
    if arguments.json {
        json::print(&prediction)?;
    } else {
        let mut text = String::new();
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
        if let Some(learned) = &prediction.learned {
            writeln!(
                text,
                "  learned       from {} calls since the fit; without them {}",
                learned.observations,
                Bytes(learned.fitted_bytes)
            )?;
        }
        writeln!(
            text,
            "  input         {:>9}   together {}",
            Bytes(prediction.input_bytes),
            Bytes(prediction.total_bytes)
        )?;
        writeln!(text, "  output        {:>9}", Bytes(prediction.output_bytes))?;
        write_one_time(&mut text, &prediction)?;
        write_resident(&mut text, &prediction)?;
        if prediction.data_dependent == Some(true) {
            writeln!(text, "  depends on what is in the arrays: at most is for the worst that was run")?;
        }
        match &prediction.unverified_because {
            Some(reason) => writeln!(text, "  unverified: {reason}")?,
            None if prediction.extrapolated => writeln!(text, "  {}", extrapolation(&prediction))?,
            None => {}
        }
        print(&text)?;
    }
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

fn write_on_devices(text: &mut String, prediction: &Prediction) -> Result<()> {
    if let Some(reason) = &prediction.device_unknown {
        writeln!(text, "  on devices      unknown: {reason}")?;
    }
    let Some(device) = &prediction.device else { return Ok(()) };
    writeln!(
        text,
        "  on devices    {:>9}   at most {} ({}); with its input, {} retained before and what pools keep {}",
        Bytes(device.peak_bytes),
        Bytes(device.upper_bytes),
        device.confidence,
        Bytes(device.before_bytes),
        Bytes(device.reserved_bytes)
    )?;
    Ok(())
}

fn write_one_time(text: &mut String, prediction: &Prediction) -> Result<()> {
    let (touched, allocated) = (prediction.one_time_bytes, prediction.one_time_allocated_bytes);
    let part = if touched < allocated {
        format!(": what is touched of {} that a first call allocates", Bytes(allocated))
    } else {
        String::new()
    };
    writeln!(text, "  one-time      {:>9}   per process{part}", Bytes(touched))?;
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
    let touched = prediction.model.resident.as_ref().map_or(1.0, |resident| resident.touched);
    if touched < 1.0 {
        writeln!(
            text,
            "                            {:.0} % of the working peak is never written to, so it is not resident",
            100.0 * (1.0 - touched)
        )?;
    }
    Ok(())
}
