//! The figures as JSON lines, for programs.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use super::recording::Watched;
use crate::terminal::without_controls;

/// A recorder sends the first figures within 0.1 s, unless the machine is at its limits.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints figures as they come, until the recording ends or they are no longer read.
///
/// # Errors
/// The recording was cut short, or the figures cannot be written.
pub fn follow(recording: &mut dyn Watched, once: bool) -> Result<()> {
    if once {
        recording.wait_at_most(PATIENCE)?;
    }
    while let Some(figures) = recording.next()? {
        let line = without_controls(&serde_json::to_string(&figures)?) + "\n";
        let mut out = std::io::stdout().lock();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            other => other.context("cannot write to standard output")?,
        }
        if once || figures.ended {
            return Ok(());
        }
    }
    recording.ending().map(|_| ())
}
