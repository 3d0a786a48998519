//! `--model` and `--memory-limit` of `record`.

use std::path::PathBuf;

use clap::Args;
use memtrace_analysis::Model;

use crate::record::PredictionOptions;
use crate::terminal::is_quiet;
use crate::units::parse_limit;

/// What is predicted of operators while they run.
#[derive(Args, Clone)]
pub struct PredictionArguments {
    /// Predict the peaks of operators while they run by these laws: memtrace top shows them
    #[arg(long, value_name = "MODEL.json", hide_short_help = true, help_heading = "Predictions")]
    model: Option<PathBuf>,
    /// Say of an operator while it runs that its process will hold more live bytes than this
    #[arg(long, value_name = "SIZE", value_parser = parse_limit, requires = "model")]
    #[arg(hide_short_help = true, help_heading = "Predictions")]
    memory_limit: Option<u64>,
}

impl PredictionArguments {
    /// Reads the laws; `None` without `--model`.
    ///
    /// # Errors
    /// The model cannot be read.
    pub fn read(&self) -> Result<Option<PredictionOptions>, memtrace_analysis::Error> {
        let model = self.model.as_ref().map(Model::load).transpose()?;
        Ok(model.map(|model| PredictionOptions { model, limit_bytes: self.memory_limit, quiet: is_quiet() }))
    }
}
