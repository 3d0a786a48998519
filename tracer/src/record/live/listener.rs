//! Somebody who is told of every span that has ended. Nothing is dropped and nobody is waited for: spans stay in memory
//! as long as the recording runs, so a listener that reads slowly is told of them later.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::audience::{line, send};
use crate::record::fold::Fold;
use crate::top::{Finished, Line};

/// So much is written down for a listener before it has read any of it.
const UNSENT_MAX: usize = 64 << 10;
/// A listener is seen to for so long at a time: the recorded program may be waiting (a look at processes, which this is
/// a part of, happens every 50 ms).
const TURN: Duration = Duration::from_millis(5);
/// When the recording has ended, a listener that reads nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// A listener.
pub struct Listener {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// Spans before this one were looked at.
    next: u32,
    /// Of them, those of which there may be more to tell.
    waiting: Vec<Waiting>,
}

/// A span of which there may be more to tell.
#[derive(Clone, Copy)]
struct Waiting {
    span: u32,
    /// It was told when it ended; its once bytes are not known yet.
    told: bool,
}

impl Listener {
    /// One that has just come, and is greeted; `None` if the socket is no good.
    pub fn new(stream: UnixStream, greeting: &Line) -> Option<Listener> {
        stream.set_nonblocking(true).ok()?;
        Some(Listener { stream, unsent: line(greeting), next: 0, waiting: Vec::new() })
    }

    /// Tells what there is to tell, as far as it is read. False if nobody reads any more.
    pub fn tell(&mut self, fold: &Fold) -> bool {
        let begun = Instant::now();
        loop {
            if !send(&self.stream, &mut self.unsent) {
                return false;
            }
            if !self.unsent.is_empty() || begun.elapsed() > TURN || !self.write_down(fold) {
                return true;
            }
        }
    }

    /// Everything has ended: tells the rest, and that it is all. False if it was not read.
    pub fn tell_last(&mut self, fold: &Fold) -> bool {
        let waits = self.stream.set_nonblocking(false);
        if waits.and_then(|()| self.stream.set_write_timeout(Some(PATIENCE))).is_err() {
            return false;
        }
        // What was written down before goes first, as `write_down` does nothing where there is no room.
        while self.write_rest() {
            if !self.write_down(fold) {
                self.unsent.extend(line(&Line::Ended { spans: fold.spans.count() }));
                return self.write_rest();
            }
        }
        false
    }

    /// Writes all that is written down; the socket waits. False if it was not read.
    fn write_rest(&mut self) -> bool {
        let written = self.stream.write_all(&self.unsent).is_ok();
        self.unsent.clear();
        written
    }

    /// Writes down what has ended since, up to a bound. False if there was nothing, or no room.
    fn write_down(&mut self, fold: &Fold) -> bool {
        let before = self.unsent.len();
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain_mut(|span| self.unsent.len() >= UNSENT_MAX || self.look(fold, span));
        self.waiting = waiting;
        while self.unsent.len() < UNSENT_MAX && u64::from(self.next) < fold.spans.count() {
            let mut span = Waiting { span: self.next, told: false };
            self.next += 1;
            if self.look(fold, &mut span) {
                self.waiting.push(span);
            }
        }
        self.unsent.len() > before
    }

    /// Writes a span down if there is something new to tell. True if there may be more.
    fn look(&mut self, fold: &Fold, waiting: &mut Waiting) -> bool {
        let Some(span) = fold.spans.glance(waiting.span) else { return false };
        let process = &fold.processes[span.row.process as usize];
        let over = process.end.is_some();
        let news = if waiting.told { over && span.row.once_bytes > 0 } else { over || span.end.is_some() };
        if news {
            let (pid, tid) = (process.row.pid, fold.threads[span.row.thread as usize].tid);
            let row = fold.spans.row(waiting.span, |stamp| fold.clock.ns(stamp), |site| fold.sites.id(site));
            let told = row.map(|row| line(&Line::Span(Box::new(Finished { pid, tid, row }))));
            self.unsent.extend(told.into_iter().flatten());
            waiting.told = true;
        }
        // Only the first call of an operator in its process has once bytes.
        !over && (!waiting.told || span.row.call == 0)
    }
}
