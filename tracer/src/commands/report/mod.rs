//! `report`: the summary that people read, also printed at the end of a recording, and the report
//! as JSON, or as a page.

mod accesses;
mod children;
mod clock;
mod details;
mod devices;
mod ending;
mod histograms;
mod killed;
mod laws;
mod leaks;
mod next;
mod operators;
mod page;
mod places;
mod planned;
mod processes;
mod recomputed;
mod refused;
mod resident;
mod sites;
mod source_text;
mod spans;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_trace::Trace;

pub use self::summary::fitted;
use super::json;
use crate::terminal::{columns_of, is_quiet, print, to_stderr};

/// Which trace to report, and how.
#[derive(Args)]
pub struct Report {
    /// Trace directory
    trace: PathBuf,
    /// Print everything: all tables, resident memory, processes
    #[arg(long, conflicts_with_all = ["json", "recompute"])]
    details: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// With --json: list every span, not only the 1,000 largest of each operator and 20,000 in all
    #[arg(long, requires = "json")]
    all_spans: bool,
    /// With --json: list the call stacks of 1,000 sites, not only the places of 100
    #[arg(long, requires = "json")]
    stacks: bool,
    /// List what was live when the program ended, by place, and what calls of operators left
    #[arg(long, conflicts_with_all = ["all_spans", "stacks", "recompute"])]
    leaks: bool,
    /// Count heap blocks by size, and by how long they were live
    #[arg(long, conflicts_with_all = ["details", "all_spans", "stacks", "leaks", "recompute", "html"])]
    histograms: bool,
    /// Derive the figures from the rows, and say where they differ from those folded while
    /// recording
    #[arg(long, conflicts_with_all = ["all_spans", "stacks"])]
    recompute: bool,
    /// Write one HTML page that shows everything and needs no network; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["details", "json", "leaks", "recompute"])]
    html: Option<PathBuf>,
    /// With --html: show laws of this model beside the calls of its operators
    #[arg(long, value_name = "FILE", requires = "html")]
    model: Option<PathBuf>,
    /// With --html: show this plan beside what the workers held; recommend --format json or plan
    /// --json printed it
    #[arg(long, value_name = "FILE", requires = "html")]
    plan: Option<PathBuf>,
    /// With --html: leave the text of source lines out
    #[arg(long, requires = "html")]
    no_source: bool,
}

/// `memtrace report`
pub fn run(arguments: &Report) -> Result<ExitCode> {
    let trace = Trace::open(&arguments.trace)?;
    if let Some(file) = &arguments.html {
        let (model, plan) = (arguments.model.as_deref(), arguments.plan.as_deref());
        page::write(&trace, file, &page::Beside { model, plan, source: !arguments.no_source })?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.recompute {
        return recomputed::show(&trace, arguments.json);
    }
    if arguments.histograms {
        histograms::show(&trace, arguments.json)?;
    } else if arguments.leaks {
        leaks::show(&trace, arguments.json)?;
    } else if arguments.json {
        let listed = Listed { all_spans: arguments.all_spans, stacks: arguments.stacks };
        json::print(&report(&trace, listed)?)?;
    } else if arguments.details {
        print(&details::text(&trace)?)?;
    } else {
        print(&summary::text(&trace, columns_of(&std::io::stdout()))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a trace that was just recorded: writes its summary to stderr, unless `--quiet`, or prints the
/// report as JSON.
pub fn finished(output: &Path, as_json: bool) -> Result<()> {
    if as_json {
        json::print(&report(&Trace::open(output)?, Listed::default())?)?;
    } else if !is_quiet() {
        to_stderr(&summary::text(&Trace::open(output)?, columns_of(&std::io::stderr()))?);
    }
    Ok(())
}
