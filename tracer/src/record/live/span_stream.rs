//! A client that is sent every span that has ended. Nothing is dropped, and the recording does not
//! wait: a client that reads slowly is sent later what the trace has.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use memtrace_trace::SpanCursor;
use memtrace_trace::rows::SpanRow;
use rustc_hash::FxHashSet;

use super::subscribers::{line, send};
use crate::live_protocol::{Finished, Line};
use crate::record::fold::Fold;

/// This much is encoded for a client before it has read any of it.
const UNSENT_MAX: usize = 64 << 10;
/// Spans that have ended and may change that are encoded at once.
const ENDED_MAX: usize = 32;
/// The longest time for one client: the recorded program may be waiting (this is a part of sampling
/// processes, every 50 ms).
const TURN: Duration = Duration::from_millis(5);
/// When the recording has ended, a client that reads nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection to such a client.
pub struct SpanStream {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// How far it has got in the spans that have ended and change no more.
    cursor: SpanCursor,
    /// Spans that were sent when they had ended, and may have changed since.
    sent: FxHashSet<u32>,
}

impl SpanStream {
    /// One that has just connected, and is sent the first line; `None` if the socket is no good.
    pub fn new(stream: UnixStream, greeting: &Line) -> Option<SpanStream> {
        stream.set_nonblocking(true).ok()?;
        Some(SpanStream {
            stream,
            unsent: line(greeting),
            cursor: SpanCursor::default(),
            sent: FxHashSet::default(),
        })
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
        while self.unsent.len() < UNSENT_MAX {
            let Some(row) = fold.next_span(&mut self.cursor) else { break };
            // If it was sent when it ended, it is sent again with its one-time bytes. What else came
            // later (outputs of its own end, bounds without garbage) is in the trace alone.
            if !self.sent.remove(&row.span) || row.one_time_bytes > 0 {
                self.encode_row(fold, row);
            }
        }
        if self.unsent.len() < UNSENT_MAX {
            let ended = fold.ended_spans(|span| self.sent.insert(span));
            let rows: Vec<SpanRow> = ended.take(ENDED_MAX).collect();
            rows.into_iter().for_each(|row| self.encode_row(fold, row));
        }
        self.unsent.len() > before
    }

    fn encode_row(&mut self, fold: &Fold, row: SpanRow) {
        let (pid, tid) = (fold.process(row.process).row.pid, fold.thread(row.thread).tid);
        self.unsent.extend(line(&Line::Span(Box::new(Finished { pid, tid, row }))));
    }
}
