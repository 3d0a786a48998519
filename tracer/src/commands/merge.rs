//! `merge`: one model of several.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use memtrace_analysis::Model;

use super::law::{Described, save_and_describe};
use super::{fitted, output};

/// Arguments of `merge`.
#[derive(Args)]
pub struct Merge {
    /// Models that `fit` or `sweep` wrote
    #[arg(required = true, num_args = 2.., value_name = "MODEL.json")]
    models: Vec<PathBuf>,
    /// Where to write the merged model; - is standard output
    #[arg(short, long, value_name = "MODEL.json")]
    output: PathBuf,
    /// Print what the model has as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    described: Described,
}

/// `memtrace merge`
pub fn run(arguments: &Merge) -> Result<ExitCode> {
    output::check(&arguments.output, arguments.json)?;
    let models = arguments.models.iter().map(Model::load).collect::<Result<Vec<_>, _>>()?;
    let merged = models.into_iter().reduce(|merged, model| merged.merge(&model));
    let merged = merged.context("there is nothing to merge")?;
    if arguments.json {
        return fitted::save(&merged, &arguments.output);
    }
    save_and_describe(&merged, &arguments.output, &arguments.described, &[])?;
    Ok(ExitCode::SUCCESS)
}
