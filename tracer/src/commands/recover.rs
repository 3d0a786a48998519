//! `recover`: closes a trace whose recorder died.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{json, report};
use crate::symbols;
use crate::terminal::say;
use crate::units::Bytes;

/// Arguments of `recover`.
#[derive(Args)]
pub struct Recover {
    /// Trace directory
    trace: PathBuf,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// What `recover --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Closed {
    /// The trace was complete: nothing was changed.
    was_complete: bool,
    /// Blocks that were live when the recorder last wrote them.
    live_blocks: usize,
    /// The sum of their bytes, without those of devices.
    live_bytes: u64,
}

/// `memtrace recover`
pub fn run(arguments: &Recover) -> Result<ExitCode> {
    let directory = &arguments.trace;
    let found = memtrace_trace::recover(directory)?;
    let (was_complete, live_blocks, live_bytes) = (found.was_complete, found.live_blocks, found.live_bytes);
    if !was_complete {
        symbols::name_trace(directory)?;
    }
    if arguments.json {
        json::print(&Closed { was_complete, live_blocks, live_bytes })?;
    } else if was_complete {
        say(&format!("{} is complete; nothing was changed", directory.display()));
    } else {
        say(&format!("closed; {live_blocks} blocks ({}) were live", Bytes(live_bytes)));
        report::finished(directory, false)?;
    }
    Ok(ExitCode::SUCCESS)
}
