//! Bytes that only the framework knows: buffers of a store's codec, pieces of chunks that are cut anew.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::grid::Grid;
use super::worker_bytes::WorkerBytes;

/// Chunks that a worker computes, and what is counted for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    /// Lengths of the chunks along each axis.
    pub chunks: Vec<Vec<u64>>,
    /// Of one task, its block with halo among them.
    pub task_bytes: u64,
    /// Source chunks that a worker retains in addition.
    pub frontier_bytes: u64,
}

type Count = dyn Fn(&Counted) -> u64 + Send + Sync;

/// What a worker needs for chunks in addition to all that is counted for them.
#[derive(Clone)]
pub struct Extra {
    count: Arc<Count>,
    known: Arc<Mutex<BTreeMap<Counted, u64>>>,
}

impl Extra {
    /// `count` gives bytes of a worker; it is called one time for the same chunks.
    pub fn new(count: impl Fn(&Counted) -> u64 + Send + Sync + 'static) -> Extra {
        Extra { count: Arc::new(count), known: Arc::default() }
    }

    /// `None` if these chunks were not counted yet and none may be: `left` says how many more.
    pub(super) fn bytes(
        &self,
        grid: &Grid,
        task_bytes: u64,
        worker: &WorkerBytes,
        left: &Cell<usize>,
    ) -> Option<u64> {
        let chunks = (0..grid.chunk.len()).map(|axis| grid.sizes(axis)).collect();
        let counted = Counted { chunks, task_bytes, frontier_bytes: worker.frontier };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = known.get(&counted) {
            return Some(*bytes);
        }
        left.set(left.get().checked_sub(1)?);
        let bytes = (self.count)(&counted);
        known.insert(counted, bytes);
        Some(bytes)
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Extra")
    }
}

/// The same function.
impl PartialEq for Extra {
    fn eq(&self, other: &Extra) -> bool {
        Arc::ptr_eq(&self.count, &other.count)
    }
}
