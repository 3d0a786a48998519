//! `diff`: what changed from one trace to another, as text, JSON or a page.

mod page;
mod tables;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use memtrace_analysis::report::diff::diff;
use memtrace_trace::Trace;

use super::{json, output};
use crate::terminal::{columns_of, print, say};
use crate::units::Bytes;

/// Which traces to compare, and how to show it.
#[derive(Args)]
pub struct Compared {
    /// Trace directory of the earlier recording
    before: PathBuf,
    /// Trace directory of the later recording
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write an HTML page; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

/// `memtrace diff`
pub fn run(arguments: &Compared) -> Result<ExitCode> {
    let diff = diff(&Trace::open(&arguments.before)?, &Trace::open(&arguments.after)?)?;
    if let Some(file) = &arguments.html {
        let page = page::html(&diff)?;
        output::write(file, page.as_bytes())?;
        if !output::is_standard(file) {
            say(&format!("{} ({})", file.display(), Bytes(page.len() as u64)));
        }
    } else if arguments.json {
        json::print(&diff)?;
    } else {
        print(&text::text(&diff, columns_of(&std::io::stdout()))?)?;
    }
    Ok(ExitCode::SUCCESS)
}
