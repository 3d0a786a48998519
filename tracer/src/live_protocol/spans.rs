//! What a recording sends to clients that requested spans: one JSON object a line, on the socket of
//! [`super::SOCKET`].

use memtrace_trace::rows::SpanRow;
use serde::Serialize;

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Which recording this is: the first line.
    Recording {
        /// Directory of the trace.
        trace: String,
        /// Host name.
        host: String,
        /// Process id of the recorder.
        recorder: u32,
        /// Time 0 of all spans, nanoseconds since 1970-01-01 UTC.
        start_unix_ns: i64,
    },
    /// A span that has ended, or never will: its process is gone. The same span comes again if its
    /// one-time bytes, which are known when its process has ended, are not 0.
    Span(Box<Finished>),
    /// The recording has ended: the last line. The connection is closed when the trace is complete.
    Ended {
        /// How many spans the trace has. A client that has got fewer did not read in time.
        spans: u64,
    },
}

/// A span as the trace has it.
#[derive(Debug, Serialize)]
pub struct Finished {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its row in `spans`.
    #[serde(flatten)]
    pub row: SpanRow,
}
