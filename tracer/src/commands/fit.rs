//! `fit`: a model of traces.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use memtrace_trace::{Trace, traces_in};

use super::law::{Described, save_and_describe};
use super::{fitted, output};
use crate::terminal::Progress;

/// Arguments of `fit`.
#[derive(Args)]
pub struct Fit {
    /// Trace directories, or directories of traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Where to write the model; - is standard output
    #[arg(short, long, value_name = "MODEL.json", default_value = "model.json")]
    output: PathBuf,
    /// Print what the model has as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    described: Described,
}

/// `memtrace fit`
pub fn run(arguments: &Fit) -> Result<ExitCode> {
    output::check(&arguments.output, arguments.json)?;
    let named = arguments.traces.iter().map(traces_in).collect::<Result<Vec<_>, _>>()?;
    let traces = named.concat().iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::start("fitting laws");
    let model = memtrace_analysis::fit(&traces)?;
    drop(progress);
    if arguments.json {
        return fitted::save(&model, &arguments.output);
    }
    save_and_describe(&model, &arguments.output, &arguments.described, &[])?;
    Ok(ExitCode::SUCCESS)
}
