//! Native frames are named while the trace is closed.

use std::sync::mpsc::{RecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use memtrace_trace::rows::{FrameRow, SiteRow};

use crate::record::sites::Unnamed;
use crate::signals;

type Named = (Vec<SiteRow>, Vec<FrameRow>);

/// See the module.
pub enum Naming {
    Elsewhere(JoinHandle<Result<Named, RecvError>>),
    /// There can be no more threads.
    Here(Unnamed),
}

impl Naming {
    /// Begins.
    pub fn start(unnamed: Unnamed) -> Naming {
        let (send, sent) = sync_channel(1);
        let work = move || {
            signals::block();
            sent.recv().map(Unnamed::named)
        };
        let Ok(thread) = Builder::new().name("memtrace-names".into()).spawn(work) else {
            return Naming::Here(unnamed);
        };
        match send.send(unnamed) {
            Ok(()) => Naming::Elsewhere(thread),
            Err(unsent) => Naming::Here(unsent.0),
        }
    }

    /// The rows with names; `None` if they have to stay without, by a defect.
    pub fn finish(self) -> Option<Named> {
        match self {
            Naming::Elsewhere(thread) => thread.join().ok()?.ok(),
            Naming::Here(unnamed) => Some(unnamed.named()),
        }
    }
}
