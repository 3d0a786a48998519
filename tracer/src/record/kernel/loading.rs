//! Loads the BPF programs on a thread of its own: that takes some ten milliseconds. The thread goes
//! on with those that no command has to wait for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use memtrace_ebpf::{Attached, Error, Parts, Rest};

use super::Kernel;
use crate::signals;

/// What sees the kernel's side of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// BPF programs where they are allowed, else /proc.
    Auto,
    /// BPF programs, or no recording.
    Ebpf,
    /// /proc: sampled sizes, and VmHWM.
    Proc,
}

/// Lack of memory is not reported of processes that run for less time than this.
const BEFORE_PRESSURE: Duration = Duration::from_millis(100);

/// Programs that are being loaded; empty if none are to be.
pub struct Loading(Option<Result<Loaded, Error>>);

struct Loaded {
    loaded: Receiver<Result<memtrace_ebpf::Kernel, Error>>,
    attacher: Attacher,
    calls: bool,
}

/// The thread that attaches the rest of the programs.
pub(super) struct Attacher {
    requests: Sender<Request>,
    /// Receives once system calls are reported.
    calls: Receiver<()>,
    thread: JoinHandle<(Attached, Result<(), Error>)>,
}

/// What the thread is requested to do.
enum Request {
    Calls,
    Stop,
}

impl Loading {
    /// Begins to load, unless `source` needs no programs.
    pub fn start(source: Source, parts: Parts) -> Loading {
        Loading((source != Source::Proc).then(|| {
            let (ready, loaded) = channel();
            let (requests, requested) = channel();
            let (report_calls, calls) = channel();
            let load = move || {
                signals::block();
                load(parts, &ready, &requested, &report_calls)
            };
            let thread = std::thread::Builder::new().spawn(load).map_err(Error::Thread)?;
            Ok(Loaded { loaded, attacher: Attacher { requests, calls, thread }, calls: parts.calls })
        }))
    }

    /// Waits for it; `None` if nothing is to be loaded.
    pub fn wait(self) -> Option<Result<Kernel, Error>> {
        let loaded = |Loaded { loaded, attacher, calls }| {
            let programs = loaded.recv().unwrap_or(Err(Error::GaveUp));
            programs.map(|programs| Kernel::new(programs, attacher, calls))
        };
        Some(self.0?.and_then(loaded))
    }
}

impl Attacher {
    /// Attaches the programs that report system calls.
    pub(super) fn request_calls(&self) {
        let _ = self.requests.send(Request::Calls);
    }

    /// True once, after these are attached.
    pub(super) fn calls_began(&self) -> bool {
        self.calls.try_recv().is_ok()
    }

    /// Ends the thread.
    pub(super) fn stop(self) -> (Attached, Result<(), Error>) {
        let _ = self.requests.send(Request::Stop);
        self.thread.join().unwrap_or_else(|_| (Attached::default(), Err(Error::GaveUp)))
    }
}

fn load(
    parts: Parts,
    ready: &Sender<Result<memtrace_ebpf::Kernel, Error>>,
    requested: &Receiver<Request>,
    report_calls: &Sender<()>,
) -> (Attached, Result<(), Error>) {
    let mut attached = Attached::default();
    let (kernel, mut rest) = match memtrace_ebpf::Kernel::load(parts) {
        Ok((kernel, rest)) => (Ok(kernel), rest),
        Err(error) => (Err(error), Rest::default()),
    };
    let _ = ready.send(kernel);
    let mut result = Ok(());
    let mut patience = BEFORE_PRESSURE;
    loop {
        match requested.recv_timeout(patience) {
            Ok(Request::Calls) => {
                let calls = attached.calls(&mut rest);
                if calls.is_ok() {
                    let _ = report_calls.send(());
                }
                result = result.and(calls);
            }
            Err(RecvTimeoutError::Timeout) => {
                result = result.and_then(|()| attached.pressure(&mut rest));
                patience = Duration::MAX;
            }
            Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => return (attached, result),
        }
    }
}
