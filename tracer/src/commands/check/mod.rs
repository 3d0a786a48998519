//! `check`: whether a trace or a model stays within the budgets of `memtrace.toml`.

mod budget;
mod formats;
mod model;
mod outcome;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use memtrace_analysis::Model;
use memtrace_trace::Trace;

use self::budget::Budgets;
use self::formats::Format;
#[cfg(test)]
pub use self::outcome::Checked;

/// Exit status where a budget is exceeded.
const EXCEEDED: u8 = 4;

/// What to check, and against what.
#[derive(Args)]
pub struct Check {
    /// Trace directory, or a model that `fit` or `sweep` wrote
    #[arg(value_name = "TRACE|MODEL.json")]
    subject: PathBuf,
    /// File with [[budget]] tables; the nearest memtrace.toml or pyproject.toml by default
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// `memtrace check`
pub fn run(arguments: &Check) -> Result<ExitCode> {
    let budgets = match &arguments.budget {
        Some(file) => Budgets::read(file)?,
        None => Budgets::nearest(&std::env::current_dir().context("there is no working directory")?)?,
    };
    let checked = if arguments.subject.is_dir() {
        trace::check(&Trace::open(&arguments.subject)?, &budgets)?
    } else {
        model::check(&Model::load(&arguments.subject)?, &arguments.subject, &budgets)?
    };
    let checked = checked.finished();
    arguments.format.print(&checked, budgets.file())?;
    Ok(if checked.holds() { ExitCode::SUCCESS } else { ExitCode::from(EXCEEDED) })
}
