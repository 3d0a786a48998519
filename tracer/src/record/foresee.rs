//! Foresight: says of running operators that they will need more than they may (`--model`, `--memory-limit`).

use std::path::PathBuf;

use clap::Args;
use memtrace_analysis::Model;
use rustc_hash::FxHashSet;

use super::fold::Fold;
use super::session::Session;
use super::spans::Glance;
use crate::cli::say;
use crate::units::{Bytes, parse_size};

/// What may be asked for.
#[derive(Args, Clone)]
pub struct Foretell {
    /// Foretell the peaks of operators while they run by these laws: memtrace top shows them
    #[arg(long, value_name = "MODEL.json")]
    model: Option<PathBuf>,
    /// Say of an operator while it runs that its process will hold more live bytes than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "model")]
    memory_limit: Option<u64>,
}

impl Foretell {
    /// Reads the laws; `None` if nothing is asked for.
    ///
    /// # Errors
    /// The model cannot be read.
    pub fn read(&self, quiet: bool) -> Result<Option<Foresight>, memtrace_analysis::Error> {
        let model = self.model.as_ref().map(Model::load).transpose()?;
        Ok(model.map(|model| Foresight { model, limit_bytes: self.memory_limit, quiet }))
    }
}

/// What is asked for.
#[derive(Clone)]
pub struct Foresight {
    /// Laws of operators.
    pub model: Model,
    /// What one process may hold, bytes.
    pub limit_bytes: Option<u64>,
    /// Say nothing.
    pub quiet: bool,
}

/// Who may hold how much, and of whom it was said that it will hold more.
#[derive(Default)]
pub struct Limit {
    /// What one process may hold, bytes.
    pub bytes: Option<u64>,
    quiet: bool,
    said: FxHashSet<u32>,
}

impl Limit {
    /// As asked for.
    pub fn new(foresight: &Foresight) -> Limit {
        Limit { bytes: foresight.limit_bytes, quiet: foresight.quiet, said: FxHashSet::default() }
    }

    /// Bytes that the span's process will hold at its peak, if that is more than it may.
    pub fn excess(&self, fold: &Fold, span: &Glance) -> Option<u64> {
        let process = &fold.processes[span.row.process as usize];
        let beside = process.live().saturating_sub(span.working_bytes);
        let peak = beside.saturating_add(span.forecast?.least_bytes);
        self.bytes.filter(|limit| peak > *limit).map(|_| peak)
    }
}

impl Session {
    /// Says of each running span once that it will make its process exceed the limit.
    pub(super) fn warn_of_excess(&mut self) {
        let limit = &mut self.limit;
        let Some(bytes) = limit.bytes.filter(|_| !limit.quiet) else { return };
        for number in self.fold.spans.unfinished() {
            let Some(span) = self.fold.spans.glance(number) else { continue };
            let Some(peak) = limit.excess(&self.fold, &span) else { continue };
            if limit.said.insert(number) {
                say(&sentence(&span, self.fold.processes[span.row.process as usize].row.pid, peak, bytes));
            }
        }
    }
}

/// `gst3d 200×200×200 of process 42 will exceed its budget of 1.50 GB: 2.15 GB foretold; now at 61 % of its steps`
fn sentence(span: &Glance, pid: u32, peak: u64, limit: u64) -> String {
    let shape = span.row.inputs.first().map(|input| {
        let lengths: Vec<String> = input.shape.iter().map(u64::to_string).collect();
        format!(" {}", lengths.join("×"))
    });
    let progress = span.forecast.and_then(|forecast| forecast.progress);
    let progress =
        progress.map_or(String::new(), |part| format!("; now at {:.0} % of its steps", part * 100.0));
    let (operator, shape) = (&span.row.operator, shape.unwrap_or_default());
    let (peak, limit) = (Bytes(peak), Bytes(limit));
    format!("{operator}{shape} of process {pid} will exceed its budget of {limit}: {peak} foretold{progress}")
}
