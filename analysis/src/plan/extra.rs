//! Bytes that only the framework knows: buffers of a store's codec, pieces of chunks that are cut anew.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::grid::Grid;
use super::worker_bytes::WorkerBytes;

/// Counting may mean building the framework's graph (0.1 s each): grids beyond so many are not taken.
const MOST_COUNTED: usize = 100;

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

    /// `None` if too many other grids were counted.
    pub(super) fn bytes(&self, grid: &Grid, task_bytes: u64, worker: &WorkerBytes) -> Option<u64> {
        let chunks = (0..grid.chunk.len()).map(|axis| grid.sizes(axis)).collect();
        let counted = Counted { chunks, task_bytes, frontier_bytes: worker.frontier };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = known.get(&counted) {
            return Some(*bytes);
        }
        if known.len() >= MOST_COUNTED {
            return None;
        }
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
