//! Empties the rings of an event before they are full: a thread of its own that sleeps until one is
//! half full.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memtrace_perf::{Missing, Record, Sampler};

use crate::signals;

/// A record, and the ring it came through.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// The ring.
    pub ring: u32,
    /// The record.
    pub record: Record,
}

/// See the module. Dropping it ends the thread.
pub(super) struct Reader {
    shared: Arc<Mutex<Shared>>,
    /// The thread stops when this end is closed.
    _stop: Option<UnixStream>,
}

struct Shared {
    sampler: Sampler,
    records: Vec<Sampled>,
}

impl Shared {
    fn read(&mut self) {
        let Shared { sampler, records } = self;
        sampler.read(|ring, record| records.push(Sampled { ring, record }));
    }
}

impl Reader {
    /// Without a thread (there may be no more of them) rings are read in each round all the same.
    pub(super) fn start(sampler: Sampler) -> Reader {
        let shared = Arc::new(Mutex::new(Shared { sampler, records: Vec::new() }));
        let stop = Reader::spawn(shared.clone()).ok();
        Reader { shared, _stop: stop }
    }

    fn spawn(shared: Arc<Mutex<Shared>>) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::Builder::new().name("samples".into()).spawn(move || {
            signals::block();
            let mut waiter = lock(&shared).sampler.waiter(theirs.as_fd());
            while waiter.wait() {
                lock(&shared).read();
            }
        })?;
        Ok(ours)
    }

    /// Moves what has come to the end of `records`.
    pub(super) fn take(&self, records: &mut Vec<Sampled>) {
        let mut shared = lock(&self.shared);
        shared.read();
        records.append(&mut shared.records);
    }

    pub(super) fn missing(&self) -> Missing {
        lock(&self.shared).sampler.missing
    }
}

/// A thread that panicked left nothing half done: what was read may be read again as nothing.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
