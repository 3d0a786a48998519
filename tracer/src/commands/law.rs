//! Laws of a model: which one is meant, and its figures in words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use memtrace_analysis::law::Size;
use memtrace_analysis::model::file::CHANGED;
use memtrace_analysis::model::predict::Explanation;
use memtrace_analysis::shape::joined;
use memtrace_analysis::{Law, Model, Prediction, Query, predict as predict_law};
use serde_json::Value;

use super::arguments::parse_parameter;
use super::output;
use crate::terminal::{print, say};
use crate::units::{Bytes, Shape};

/// Which law of a model, at which shape.
#[derive(Args)]
pub struct WhichLaw {
    /// The operator, as recorded or its last part
    #[arg(long, value_name = "NAME")]
    operator: String,
    /// Shape of its input
    #[arg(long, value_name = "N,N,...")]
    pub shape: Shape,
    /// Element type, if the model has laws for several
    #[arg(long)]
    dtype: Option<String>,
    /// A parameter's value, if the model has laws for several; also layout, device, threads, or a
    /// library's version
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    params: Vec<(String, Value)>,
    /// Answer even if the law is for other versions of libraries than --param names
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
            say(CHANGED);
        }
        Ok(model.find(&Query {
            operator: &self.operator,
            dtype: self.dtype.as_deref(),
            params: self.params.iter().cloned().collect(),
            libraries: BTreeMap::new(),
            any_version: self.any_version,
            dims: Some(self.shape.0.len()),
        })?)
    }
}

/// Which laws of a model are described.
#[derive(Args)]
pub struct Described {
    /// Also describe the laws of what libraries call inside of these operators
    #[arg(long)]
    all: bool,
}

/// Saves a model and prints its laws: those of operators that the user has `named` first. On
/// standard output, the model alone.
pub fn save_and_describe(
    model: &Model,
    output: &Path,
    described: &Described,
    named: &[String],
) -> Result<()> {
    if output::is_standard(output) {
        return output::write(output, model.to_json()?.as_bytes());
    }
    model.save(output)?;
    let mut text = String::new();
    let is_named = |law: &&Law| named.contains(&law.key.operator);
    let (first, others): (Vec<&Law>, Vec<&Law>) = model.laws.iter().partition(is_named);
    let (internal, others): (Vec<&Law>, Vec<&Law>) = others.into_iter().partition(|law| law.is_internal());
    let shown = first.into_iter().chain(others);
    for law in shown.chain(internal.iter().copied().filter(|_| described.all)) {
        describe(&mut text, law)?;
    }
    if !internal.is_empty() && !described.all {
        let plural = if internal.len() == 1 { "" } else { "s" };
        writeln!(text, "and {} law{plural} of what libraries call inside of these: --all", internal.len())?;
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
        if sums_depend_on_the_shape(law, &prediction.model) {
            writeln!(text, "  these sums at  {}", joined(&run.shape))?;
        }
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
    if law.one_time.bytes > 0 {
        let largest = law.one_time.blocks.first().map_or(String::new(), |block| {
            format!("; largest: one {} of {}", block.kind, Bytes(block.bytes))
        });
        writeln!(text, "  one-time per process: {}{largest}", Bytes(law.one_time.bytes))?;
    }
    for note in &law.notes {
        writeln!(text, "  note: {note}")?;
    }
    Ok(())
}

/// True if what is written as bytes instead of as a form is more at a larger shape.
fn sums_depend_on_the_shape(law: &Law, model: &Explanation) -> bool {
    model.terms.len() > SHOWN_TERMS || !matches!(law.residual, Size::Bounded { .. })
}

/// The bytes of a prediction, term by term.
pub fn write_terms(text: &mut String, prediction: &Prediction) -> Result<()> {
    writeln!(text, "  working peak = {}", peak_words(&prediction.model))?;
    if let Some(device) = &prediction.device {
        writeln!(text, "  on devices   = {}", peak_words(&device.model))?;
    }
    writeln!(text, "  input        = {}", prediction.model.inputs.join(" + "))?;
    Ok(())
}

/// Terms that are written out; of the others, the sum.
const SHOWN_TERMS: usize = 6;

fn peak_words(model: &Explanation) -> String {
    let mut parts: Vec<String> =
        model.terms.iter().map(|term| term.words.clone()).take(SHOWN_TERMS).collect();
    let others: Vec<u64> = model.terms.iter().skip(SHOWN_TERMS).map(|term| term.bytes).collect();
    if !others.is_empty() {
        let plural = if others.len() == 1 { "" } else { "s" };
        parts.push(format!("{} in {} more term{plural}", Bytes(others.iter().sum()), others.len()));
    }
    if model.residual_bytes > 0 {
        parts.push(format!("{} of small blocks", Bytes(model.residual_bytes)));
    }
    let set_at = model.set_at.as_ref().map_or(String::new(), |place| format!(", set at {place}"));
    // Nothing that counts is a law, too: an operator that works only on a device.
    let words = if parts.is_empty() { "0".to_owned() } else { parts.join(" + ") };
    format!("{words}{set_at}")
}
