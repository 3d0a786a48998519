//! The runs of a sweep in its directory: those that are there from before, and those it makes.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use memtrace_analysis::profile;
use memtrace_analysis::shape::joined;
use memtrace_analysis::sweep::Recorded;
use memtrace_trace::{Meta, Trace};
use rustix::fs::{FlockOperation, flock};

use super::Sweep;
use super::variants::Variant;
use crate::record;

/// Exit status of a program that SIGKILL ended, as a shell gives it.
const KILLED: i32 = 128 + libc::SIGKILL;

/// A run of the command.
pub enum Run {
    /// It ended well.
    Recorded(Box<Recorded>),
    /// It was killed or failed: a sentence on how.
    Failed(String),
    /// This signal requested the end of the sweep.
    Interrupted(i32),
}

/// Where the traces of a sweep are, and how they are made.
pub struct Runs<'a> {
    arguments: &'a Sweep,
    /// A directory of traces.
    pub output: PathBuf,
    /// Held as long as the sweep goes on.
    _lock: File,
}

impl Runs<'_> {
    /// Makes the directory, or takes one that no other sweep is writing to.
    pub fn open(arguments: &Sweep) -> Result<Runs<'_>> {
        let unnamed = || PathBuf::from(format!("memtrace.sweep.{}", std::process::id()));
        let output = arguments.output.clone().unwrap_or_else(unnamed);
        let place = output.display();
        std::fs::create_dir_all(&output).with_context(|| format!("cannot make the directory {place}"))?;
        let lock = File::open(&output).with_context(|| format!("cannot read the directory {place}"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another sweep is writing to {place}: wait for it, or choose another directory with -o");
        }
        Ok(Runs { arguments, output, _lock: lock })
    }

    /// The run at a shape: what is there from before, or a new one.
    pub fn at(&self, variant: &Variant, shape: &[u64]) -> Result<Run> {
        let directory = self.output.join(variant.directory(shape));
        let command = variant.fill_in(&self.arguments.command, shape);
        if let Some(earlier) = self.earlier(&directory, &command, shape)? {
            return Ok(earlier);
        }
        let outcome = record::run(&self.options(directory.clone(), command));
        if let Some(signal) = record::interrupted() {
            // A program may have ended in order on that signal, with half of its work.
            let _ = std::fs::remove_dir_all(&directory);
            return Ok(Run::Interrupted(signal));
        }
        match outcome {
            Ok(record::Outcome { cut_short: Some(why), .. }) => bail!("{why}"),
            Ok(outcome) if outcome.code == 0 => {
                let trace = Trace::open(&directory).context("the run left no trace")?;
                Ok(Run::Recorded(Box::new(self.read(&trace, shape)?)))
            }
            Ok(outcome) => Ok(Run::Failed(failed(outcome.code, shape, &directory))),
            Err(failure) => Err(failure.into()),
        }
    }

    /// What an earlier sweep left of this run: a complete trace is used, one that the kernel cut
    /// short means that the shape is too large; what a run of this command left unfinished or
    /// failed is removed, to be recorded again. Nothing else is: a trace of another command, or one
    /// that cannot be used or read, may be wanted.
    fn earlier(&self, directory: &Path, command: &[OsString], shape: &[u64]) -> Result<Option<Run>> {
        if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
            || !directory.exists()
        {
            return Ok(None);
        }
        let place = directory.display();
        let is_trace = ["meta.json", "allocations", "processes.parquet", "spans.parquet"]
            .iter()
            .any(|name| directory.join(name).exists());
        if !is_trace {
            bail!("{place} is in the way and is no trace: move it, or choose another directory with -o");
        }
        let kept = || format!("{place} is in the way: move it, or choose another directory with -o");
        match Trace::open(directory) {
            Ok(trace) => {
                let meta = trace.meta();
                let parts = command.iter().map(|part| part.to_string_lossy());
                // A recorder that died at once wrote down no command.
                if !meta.command.is_empty() && !meta.command.iter().map(String::as_str).eq(parts) {
                    bail!("{place} is the trace of another command: choose another directory with -o");
                }
                match meta.exit.filter(|_| meta.complete) {
                    Some(KILLED) => return Ok(Some(Run::Failed(failed(KILLED, shape, directory)))),
                    Some(0) => {
                        let recorded = self.read(&trace, shape).with_context(kept)?;
                        return Ok(Some(Run::Recorded(Box::new(recorded))));
                    }
                    _ => {}
                }
            }
            // The recorder died before it wrote any table.
            Err(memtrace_trace::Error::NotATrace(_)) => {}
            Err(error) => return Err(error).with_context(kept),
        }
        std::fs::remove_dir_all(directory)
            .with_context(|| format!("cannot remove the broken trace {place}"))?;
        Ok(None)
    }

    /// The spans of a trace, which has some of every operator.
    fn read(&self, trace: &Trace, shape: &[u64]) -> Result<Recorded> {
        let profile = profile::read(trace)?;
        for operator in &self.arguments.operators {
            if !profile.runs.iter().any(|run| run.span.operator == *operator) {
                let known: std::collections::BTreeSet<&str> =
                    profile.runs.iter().map(|run| run.span.operator.as_str()).collect();
                let others = known.into_iter().collect::<Vec<_>>().join(", ");
                let others = if others.is_empty() { String::new() } else { format!("; it called {others}") };
                let others = profile.notes.iter().fold(others, |text, note| format!("{text}; {note}"));
                bail!(
                    "the run at {} finished no call of {operator} that can be used{others}: {}",
                    joined(shape),
                    "check its name, and that the command calls it"
                );
            }
        }
        Ok(Recorded { peak_bytes: peak(trace.meta()), profile })
    }

    fn options(&self, output: PathBuf, command: Vec<OsString>) -> record::Options {
        record::Options {
            prints_to_stderr: true,
            operators: self.arguments.operators.clone(),
            cuda: self.arguments.cuda,
            ..record::Options::of(output, command)
        }
    }
}

/// What the processes of a run needed at most.
fn peak(meta: &Meta) -> u64 {
    let peak = &meta.peak;
    peak.live_bytes.max(peak.resident_bytes).max(peak.resident_sum_bytes)
}

fn failed(code: i32, shape: &[u64], directory: &Path) -> String {
    let how = if code == KILLED { "was killed".to_owned() } else { format!("failed with {code}") };
    format!("the command {how} at {}; its trace is {}", joined(shape), directory.display())
}
