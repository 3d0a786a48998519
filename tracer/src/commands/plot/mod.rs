//! `plot`: a trace, a law of a model, or a plan as an SVG, or in an HTML page.

mod figure;
mod law;
mod plan;
mod svg;
mod trace;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use memtrace_analysis::{Law, Model, Query};
use memtrace_trace::Trace;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use self::figure::Figure;
use self::plan::Planned;
use super::arguments::parse_parameter;
use super::markup::head;
use super::output;
use super::usage::Usage;
use crate::terminal::say;
use crate::units::Bytes;

/// Larger plans are refused.
const MAX_FILE_BYTES: u64 = 1 << 28;

/// What to draw.
#[derive(Args)]
pub struct Plot {
    /// A trace, a model, or a plan: what `recommend --format json` or `plan --json` printed
    #[arg(value_name = "TRACE|MODEL|PLAN")]
    of: PathBuf,
    /// The SVG to write, or an HTML page with it if it is named so; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "plot.svg")]
    output: PathBuf,
    /// The operator of a model's law [default: the one of the largest recorded peak]
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Element type, if the model has laws for several
    #[arg(long, requires = "operator")]
    dtype: Option<String>,
    /// A parameter's value, if the model has laws for several
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter, requires = "operator")]
    params: Vec<(String, Value)>,
}

/// Draws it.
pub fn run(arguments: &Plot) -> Result<ExitCode> {
    let is_page = arguments.output.extension().is_some_and(|name| name.eq_ignore_ascii_case("html"));
    if !is_page {
        output::check_svg(&arguments.output, "a plot")?;
    }
    let figure = figure(arguments)?;
    let svg = svg::svg(&figure)?;
    let text = if is_page { format!("{}</head>\n{svg}</html>\n", head(&figure.title)) } else { svg };
    output::write(&arguments.output, text.as_bytes())?;
    if !output::is_standard(&arguments.output) {
        say(&format!("{} shows {}", arguments.output.display(), arguments.of.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn figure(arguments: &Plot) -> Result<Figure> {
    let path = &arguments.of;
    if path.is_dir() {
        arguments.refuse_operator()?;
        return trace::figure(&Trace::open(path)?);
    }
    let text = read(path)?;
    if is_model(&text) {
        let model = Model::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
        return law::figure(arguments.law(&model)?);
    }
    arguments.refuse_operator()?;
    let planned: Planned = serde_json::from_str(&text).ok().with_context(|| {
        format!(
            "{} is no trace, no model, and no plan as recommend --format json or plan --json prints it",
            path.display()
        )
    })?;
    Ok(planned.figure())
}

impl Plot {
    /// Only models have laws of operators.
    fn refuse_operator(&self) -> Result<()> {
        match &self.operator {
            Some(operator) => bail!(Usage(format!(
                "{} is no model, which has laws: leave out --operator {operator}",
                self.of.display()
            ))),
            None => Ok(()),
        }
    }

    fn law<'a>(&self, model: &'a Model) -> Result<&'a Law> {
        let Some(operator) = &self.operator else {
            let own = model.laws.iter().filter(|law| !law.is_internal());
            let peak = |law: &&Law| law.trained_on.iter().map(|run| run.working_peak_bytes).max();
            return own.max_by_key(peak).context("the model has no law to draw; fit one to more traces");
        };
        Ok(model.find(&Query {
            operator,
            dtype: self.dtype.as_deref(),
            params: self.params.iter().cloned().collect(),
            any_version: true,
            ..Query::default()
        })?)
    }
}

/// What a model's JSON has and no plan's.
#[derive(Deserialize)]
struct Laws {
    #[serde(rename = "laws")]
    _laws: IgnoredAny,
}

fn is_model(text: &str) -> bool {
    serde_json::from_str::<Laws>(text).is_ok()
}

fn read(path: &Path) -> Result<String> {
    let unread = || format!("cannot read {}", path.display());
    let mut text = String::new();
    File::open(path)
        .with_context(unread)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(unread)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("{} is larger than {}", path.display(), Bytes(MAX_FILE_BYTES));
    }
    Ok(text)
}
