//! A client that is sent every span that has ended. Nothing is dropped, and the recording does not
//! wait: spans stay in memory as long as it runs, so a client that reads slowly is sent them later.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::subscribers::{line, send};
use crate::live_protocol::{Finished, Line};
use crate::record::fold::Fold;

/// This much is encoded for a client before it has read any of it.
const UNSENT_MAX: usize = 64 << 10;
/// The longest time for one client: the recorded program may be waiting (this is a part of sampling
/// processes, every 50 ms).
const TURN: Duration = Duration::from_millis(5);
/// When the recording has ended, a client that reads nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection to such a client.
pub struct SpanStream {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// Spans before this one were examined.
    next: u32,
    /// Of them, those that are still to be sent, or sent again.
    waiting: Vec<Waiting>,
}

/// A span that is still to be sent, or sent again.
#[derive(Clone, Copy)]
struct Waiting {
    span: u32,
    /// It was sent when it ended; its one-time bytes are not known yet.
    sent: bool,
}

impl SpanStream {
    /// One that has just connected, and is sent the first line; `None` if the socket is no good.
    pub fn new(stream: UnixStream, greeting: &Line) -> Option<SpanStream> {
        stream.set_nonblocking(true).ok()?;
        Some(SpanStream { stream, unsent: line(greeting), next: 0, waiting: Vec::new() })
    }

    /// Sends what there is to send, as far as it is read. False if the client is gone.
    pub fn send(&mut self, fold: &Fold) -> bool {
        let begun = Instant::now();
        loop {
            if !send(&self.stream, &mut self.unsent) {
                return false;
            }
            if !self.unsent.is_empty() || begun.elapsed() > TURN || !self.encode(fold) {
                return true;
            }
        }
    }

    /// Everything has ended: sends the rest, and that it is all. False if it was not read.
    pub fn send_last(&mut self, fold: &Fold) -> bool {
        let waits = self.stream.set_nonblocking(false);
        if waits.and_then(|()| self.stream.set_write_timeout(Some(PATIENCE))).is_err() {
            return false;
        }
        // What was encoded before goes first, as `encode` does nothing where there is no room.
        while self.write_rest() {
            if !self.encode(fold) {
                self.unsent.extend(line(&Line::Ended { spans: fold.spans().count() }));
                return self.write_rest();
            }
        }
        false
    }

    /// Writes all that is encoded; the socket waits. False if it was not read.
    fn write_rest(&mut self) -> bool {
        let written = self.stream.write_all(&self.unsent).is_ok();
        self.unsent.clear();
        written
    }

    /// Encodes what has ended since, up to a bound. False if there was nothing, or no room.
    fn encode(&mut self, fold: &Fold) -> bool {
        let before = self.unsent.len();
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain_mut(|span| self.unsent.len() >= UNSENT_MAX || self.encode_span(fold, span));
        self.waiting = waiting;
        while self.unsent.len() < UNSENT_MAX && u64::from(self.next) < fold.spans().count() {
            let mut span = Waiting { span: self.next, sent: false };
            self.next += 1;
            if self.encode_span(fold, &mut span) {
                self.waiting.push(span);
            }
        }
        self.unsent.len() > before
    }

    /// Encodes a span if something about it is new. True if there may be more.
    fn encode_span(&mut self, fold: &Fold, waiting: &mut Waiting) -> bool {
        let Some(span) = fold.spans().view(waiting.span) else { return false };
        let process = fold.process(span.row.process);
        let over = process.end.is_some();
        let news =
            if waiting.sent { over && span.row.one_time_bytes > 0 } else { over || span.end.is_some() };
        if news {
            let (pid, tid) = (process.row.pid, fold.thread(span.row.thread).tid);
            let (clock, sites) = (fold.clock(), fold.sites());
            let row = fold.spans().row(waiting.span, |stamp| clock.ns(stamp), |site| sites.id(site));
            let encoded = row.map(|row| line(&Line::Span(Box::new(Finished { pid, tid, row }))));
            self.unsent.extend(encoded.into_iter().flatten());
            waiting.sent = true;
        }
        // Only the first call of an operator in its process has one-time bytes.
        !over && (!waiting.sent || span.row.call == 0)
    }
}
