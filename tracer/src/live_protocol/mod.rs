//! What a recording sends to clients that watch it: one JSON object a line, over the socket that
//! its probes connect to. What is not known to an older or newer memtrace is left out; nothing here
//! is kept on disk.

mod spans;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use memtrace_trace::Totals;
use memtrace_trace::rows::{ArrayInfo, FrameRow};
use memtrace_wire::handshake::Hello;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::spans::{Finished, Line};

/// The socket's name in the directory of a trace.
pub const SOCKET: &str = ".socket";

/// True if a recorder listens in the directory of a trace.
pub fn is_recorded(trace: &Path) -> bool {
    // Short enough for a socket's address, wherever the directory is (108 bytes, unix(7)).
    File::open(trace).is_ok_and(|opened| {
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd())).is_ok()
    })
}

/// Figures are not sent more often than this.
pub const EVERY_MIN_MS: u32 = 100;

/// What a client sends first: as long as the hello of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Figures, at an interval.
    Figures {
        /// Milliseconds from one set of figures to the next.
        every_ms: u32,
    },
    /// Every span, as soon as it has ended ([`Line`]).
    Spans,
}

impl Request {
    const FIGURES: [u8; 8] = *b"mtwatch1";
    const SPANS: [u8; 8] = *b"mtspans1";

    /// To bytes.
    pub fn encode(self) -> [u8; Hello::BYTES] {
        let mut bytes = [0; Hello::BYTES];
        match self {
            Request::Figures { every_ms } => {
                bytes[..8].copy_from_slice(&Self::FIGURES);
                bytes[8..12].copy_from_slice(&every_ms.to_le_bytes());
            }
            Request::Spans => bytes[..8].copy_from_slice(&Self::SPANS),
        }
        bytes
    }

    /// From bytes; `None` if they are of something else.
    pub fn decode(bytes: &[u8; Hello::BYTES]) -> Option<Request> {
        let every_ms = u32::from_le_bytes(*bytes[8..].first_chunk()?);
        match *bytes.first_chunk()? {
            Self::FIGURES => Some(Request::Figures { every_ms: every_ms.max(EVERY_MIN_MS) }),
            Self::SPANS => Some(Request::Spans),
            _ => None,
        }
    }
}

/// One line of the socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The call stack of a site that figures will name: sent once.
    Stack(Stack),
    /// How the recording stands.
    Figures(Box<Figures>),
}

/// A call stack whose native frames have no names yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// The site.
    pub site: u64,
    /// Its frames, outermost first; each has its place here as its number.
    pub frames: Vec<FrameRow>,
    /// Of each frame, the build of the file that it is in; empty if it is in none, or that has no
    /// id.
    pub builds: Vec<String>,
}

/// How a recording stands. Bytes and counts mean what they mean in `report --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Figures {
    /// Directory of the trace.
    pub trace: String,
    /// The recorded command.
    pub command: String,
    /// Process id of the recorder.
    pub recorder: u32,
    /// Since the recording began.
    pub seconds: f64,
    /// These are the last: the trace is complete.
    pub ended: bool,
    /// Exit status of the command, once it has ended.
    pub exit: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Live bytes of all processes now.
    pub live_bytes: u64,
    /// Of them, what came through an allocator's symbols.
    pub heap_bytes: u64,
    /// Resident bytes of all processes now, the probe's rings left out.
    pub resident_bytes: u64,
    /// Driver bytes of all devices now; this and what follows: `None` if no memory of a device was
    /// seen so far.
    pub device_driver_bytes: Option<u64>,
    /// Used bytes of all devices now.
    pub device_used_bytes: Option<u64>,
    /// The largest of each so far.
    pub peak: Peak,
    /// Sums over all processes so far.
    pub totals: Totals,
    /// Events lost so far.
    pub lost: Lost,
    /// What may not be exceeded, the one with the least room left first.
    pub limits: Vec<Limit>,
    /// Processes that run, the largest first: no more than [`LISTED_MAX`].
    pub processes: Vec<Process>,
    /// How many run.
    pub processes_running: u64,
    /// How many have ended; one that executes another program begins anew.
    pub processes_ended: u64,
    /// Spans that are open, those with the most working bytes first: no more than [`LISTED_MAX`].
    pub spans: Vec<Span>,
    /// How many are open.
    pub spans_running: u64,
    /// What ran or runs, by name, the largest working peak first: no more than [`LISTED_MAX`].
    pub operators: Vec<Operator>,
    /// How many names there are.
    pub operators_seen: u64,
    /// Call stacks that have the most live bytes or have grown most.
    pub sites: Vec<Site>,
    /// Live blocks that a plan has placed, by tier and call stack, those with the most bytes first: no
    /// more than [`LISTED_MAX`].
    pub placed: Vec<Placed>,
}

/// Entries that a list has at most: the largest.
pub const LISTED_MAX: usize = 200;

/// Peaks so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Peak {
    /// Of live bytes, all processes together.
    pub live_bytes: u64,
    /// Of heap bytes, all processes together.
    pub heap_bytes: u64,
    /// Of the resident bytes of any one process.
    pub resident_bytes: u64,
    /// Of the sum of resident bytes, as sampled.
    pub resident_sum_bytes: u64,
    /// When live bytes peaked, since the recording began.
    pub seconds: f64,
    /// Of driver bytes of all devices.
    pub device_driver_bytes: Option<u64>,
    /// Of used bytes of all devices.
    pub device_used_bytes: Option<u64>,
}

/// What is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Lost {
    /// Events dropped because a ring was full or unavailable.
    pub events: u64,
}

/// A bound on memory, and what is used of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limit {
    /// `cgroup`, `address_space` (RLIMIT_AS) or `machine`.
    pub kind: String,
    /// The control group, or the process.
    pub name: String,
    /// The bound.
    pub limit_bytes: u64,
    /// What counts against it now, whichever process uses it.
    pub used_bytes: u64,
}

impl Limit {
    /// Bytes until it is reached.
    pub fn room(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// A process that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Process {
    /// Index in the trace.
    pub process: u32,
    /// Process id.
    pub pid: u32,
    /// That of its parent.
    pub ppid: u32,
    /// Its MPI rank, or that in a step of a scheduler; `None` if it has none.
    pub rank: Option<u32>,
    /// Command line.
    pub command: String,
    /// Since it began.
    pub seconds: f64,
    /// Live bytes now.
    pub live_bytes: u64,
    /// Of them, heap bytes.
    pub heap_bytes: u64,
    /// Mapped by the program itself, touched or not.
    pub mapped_bytes: u64,
    /// Resident bytes when last seen, the probe's rings left out; 0 if it was not sampled yet.
    pub resident_bytes: u64,
    /// Peak of live bytes so far.
    pub peak_live_bytes: u64,
    /// Peak of resident bytes so far.
    pub peak_resident_bytes: u64,
    /// Driver bytes of all devices now; this and what follows: `None` if it had no memory of a
    /// device so far.
    pub device_driver_bytes: Option<u64>,
    /// Used bytes of all devices now.
    pub device_used_bytes: Option<u64>,
    /// Peak of driver bytes so far.
    pub peak_device_driver_bytes: Option<u64>,
}

/// An operator in flight.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Span {
    /// Index in the trace.
    pub span: u32,
    /// The one it runs inside of.
    pub parent: Option<u32>,
    /// Name of the operator.
    pub operator: String,
    /// Which of its calls in this process, from 0.
    pub call: u32,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Since it began.
    pub seconds: f64,
    /// Bytes allocated in it and not yet released.
    pub working_bytes: u64,
    /// Their peak so far.
    pub working_peak_bytes: u64,
    /// Used bytes of devices allocated in it and not yet released; `None` if its process had none
    /// so far.
    pub device_bytes: Option<u64>,
    /// Their peak so far.
    pub device_peak_bytes: Option<u64>,
    /// Bytes of its inputs.
    pub input_bytes: u64,
    /// The first of its inputs.
    pub input: Option<ArrayInfo>,
    /// Its parameters, as the trace has them.
    pub params: Map<String, Value>,
    /// Its working peak when it will have ended, by the law of its operator (`--model`) and what it
    /// did so far.
    pub predicted_peak_bytes: Option<u64>,
    /// Part of the law's steps that are done, 0 to 1.
    pub progress: Option<f64>,
    /// Its process will have more live bytes than it may (`--memory-limit`).
    pub exceeds: bool,
}

/// The calls of an operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Operator {
    /// Name.
    pub name: String,
    /// Calls that began.
    pub started: u64,
    /// Calls that ended. What is neither finished nor running went down with its process.
    pub finished: u64,
    /// Calls that are open.
    pub running: u64,
    /// Largest working peak of any call so far.
    pub working_peak_bytes: u64,
    /// Time in finished calls.
    pub seconds: f64,
}

/// A call stack that has live bytes. Of small blocks a sample was taken: then bytes are estimates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Site {
    /// Id in the trace.
    pub site: u64,
    /// Where it is; the client fills this in.
    pub place: String,
    /// Live bytes now.
    pub live_bytes: u64,
    /// How much more that is than [`Site::over_seconds`] ago.
    pub grew_bytes: i64,
    /// What it is compared with.
    pub over_seconds: f64,
}

/// Live blocks of one call stack that a plan has placed in one tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Placed {
    /// `small-pages`, `huge-pages`, `dram` or `node:N`.
    pub tier: String,
    /// Id of the call stack in the trace; `None` if it was not recorded.
    pub site: Option<u64>,
    /// Where it is; the client fills this in.
    pub place: String,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Of them, those that the plan has moved to swap or to the slow node, and not back. What the
    /// program has touched since may be in memory all the same.
    pub out_bytes: u64,
}

#[cfg(test)]
mod tests {
    use memtrace_wire::handshake::Wants;

    use super::*;

    #[test]
    fn a_request_is_distinguished_from_the_hello_of_a_probe() {
        for request in [Request::Figures { every_ms: 250 }, Request::Spans] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
            assert_eq!(Hello::decode(&request.encode()), None);
        }
        assert_eq!(Request::decode(&Hello::new(1, 2, [3; 16], Wants::First).encode()), None);
        let often = Request::decode(&Request::Figures { every_ms: 0 }.encode());
        assert_eq!(often, Some(Request::Figures { every_ms: EVERY_MIN_MS }));
    }

    #[test]
    fn what_another_version_does_not_say_is_left_out() {
        let message: Message = serde_json::from_str(r#"{"figures": {"live_bytes": 7, "new": []}}"#).unwrap();
        let figures = Figures { live_bytes: 7, ..Figures::default() };
        assert_eq!(message, Message::Figures(Box::new(figures)));
    }
}
