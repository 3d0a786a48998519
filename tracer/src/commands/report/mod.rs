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
mod several;
mod sites;
mod source_text;
mod spans;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_trace::{Trace, traces_in};

pub use self::summary::fitted;
use super::json;
use super::usage::Usage;
use crate::terminal::{columns_of, is_quiet, print, to_stderr};

/// Which trace to report, and how.
#[derive(Args)]
pub struct Report {
    /// Trace directory, or a directory of traces: of ranks, of a job array
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
    let traces = traces_in(&arguments.trace)?;
    let [directory] = &traces[..] else {
        arguments.check_of_several(&traces)?;
        several::show(&traces, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let trace = Trace::open(directory)?;
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

impl Report {
    /// Refuses what is said of one trace only.
    fn check_of_several(&self, traces: &[PathBuf]) -> Result<()> {
        let of_one = [
            (self.details, "--details"),
            (self.all_spans, "--all-spans"),
            (self.stacks, "--stacks"),
            (self.leaks, "--leaks"),
            (self.histograms, "--histograms"),
            (self.recompute, "--recompute"),
            (self.html.is_some(), "--html"),
        ];
        let Some((_, option)) = of_one.iter().find(|(is_there, _)| *is_there) else { return Ok(()) };
        let (directory, first) = (self.trace.display(), traces[0].display());
        bail!(Usage(format!("{option} is of one trace, and {directory} has several; name one, e.g. {first}")))
    }
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
