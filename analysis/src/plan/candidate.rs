//! Grids that a search compares.

use super::grid::Grid;
use super::time::Duration;
use super::worker_bytes::WorkerBytes;
use crate::error::Error;
use crate::model::TaskBytes;

/// Bytes and seconds of one call for an input of a shape.
pub(super) type Law<'a> = &'a dyn Fn(&[u64]) -> Result<TaskBytes, Error>;

/// A grid with its time.
pub(super) struct Timed {
    pub(super) grid: Grid,
    pub(super) duration: Duration,
    /// See [`Duration::rank`].
    pub(super) rank: f64,
}

/// A candidate: a grid with its memory.
pub(super) struct Candidate<'a> {
    pub(super) timed: &'a Timed,
    pub(super) task: TaskBytes,
    pub(super) worker: WorkerBytes,
}
