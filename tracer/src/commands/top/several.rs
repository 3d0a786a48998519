//! Several recordings of this machine that are watched together: those whose traces lie in one
//! directory. One that begins later is taken in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use memtrace_trace::traces_in;

use super::merged::merged;
use super::recording::{Ended, Recording, Watched};
use crate::live_protocol::{Figures, Peak};

/// Recordings that began meanwhile are looked for this often at most.
const LOOK: Duration = Duration::from_secs(2);

/// What a recording sends, by its trace; `None` when nothing more comes.
type Sent = (PathBuf, Option<Figures>);

/// The recordings.
pub struct Several {
    directory: PathBuf,
    every: Duration,
    /// The last figures of each; `None` before the first.
    last: BTreeMap<PathBuf, Option<Figures>>,
    running: usize,
    peak: Peak,
    sender: Sender<Sent>,
    received: Receiver<Sent>,
    looked: Instant,
}

impl Several {
    /// Connects to all recordings in `directory`.
    ///
    /// # Errors
    /// Nothing records there on this machine.
    pub fn open(directory: &Path, every: Duration) -> Result<Several> {
        let (sender, received) = channel();
        let (last, peak) = Default::default();
        let (directory, looked) = (directory.to_owned(), Instant::now());
        let mut several = Several { directory, every, last, running: 0, peak, sender, received, looked };
        several.take_in()?;
        if several.running == 0 {
            let shown = several.directory.display();
            bail!("nothing in {shown} is recorded on this machine (any more): memtrace report {shown}");
        }
        Ok(several)
    }

    /// Connects to those that are not known yet.
    fn take_in(&mut self) -> Result<()> {
        self.looked = Instant::now();
        for trace in traces_in(&self.directory)? {
            if self.last.contains_key(&trace) {
                continue;
            }
            let Some(recording) = Recording::try_open(&trace, self.every)? else { continue };
            self.last.insert(trace.clone(), None);
            self.running += 1;
            let sender = self.sender.clone();
            std::thread::Builder::new()
                .spawn(move || follow(recording, &trace, &sender))
                .context("cannot start a thread")?;
        }
        Ok(())
    }

    /// Receives until that time; until each has sent something, where one has not yet.
    fn receive(&mut self, until: Instant) {
        let is_known = |several: &Several| several.last.values().all(Option::is_some);
        let was_known = is_known(self);
        while self.running > 0 && (was_known || !is_known(self)) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((trace, figures)) = self.received.recv_timeout(left) else { return };
            let last = self.last.entry(trace).or_default();
            match figures {
                Some(figures) => *last = Some(figures),
                None => {
                    self.running -= 1;
                    last.iter_mut().for_each(|figures| figures.ended = true);
                }
            }
        }
    }

    fn figures(&mut self) -> Figures {
        let known: Vec<&Figures> = self.last.values().flatten().collect();
        let command = known.first().map_or("", |figures| figures.command.as_str());
        let command = format!("{} recordings, {} running: {command}", self.last.len(), self.running);
        let mut peak = self.peak;
        let figures = merged(&known, &mut peak);
        self.peak = peak;
        Figures { trace: self.directory.display().to_string(), command, ended: self.running == 0, ..figures }
    }
}

impl Watched for Several {
    /// It never waits for longer than from one refresh to the next.
    fn wait_at_most(&self, _limit: Duration) -> Result<()> {
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Figures>> {
        if self.running == 0 {
            return Ok(None);
        }
        if self.looked.elapsed() >= LOOK {
            self.take_in()?;
        }
        self.receive(Instant::now() + self.every);
        Ok(Some(self.figures()))
    }

    fn ending(&self) -> Result<Ended> {
        Ok(Ended(format!("the recordings have ended: memtrace report {}", self.directory.display())))
    }
}

/// Passes on what one sends; what cannot be understood is its end.
fn follow(mut recording: Recording, trace: &Path, sender: &Sender<Sent>) {
    while let Ok(Some(figures)) = recording.next() {
        if sender.send((trace.to_owned(), Some(figures))).is_err() {
            return;
        }
    }
    let _ = sender.send((trace.to_owned(), None));
}
