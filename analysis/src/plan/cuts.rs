//! Feasible chunk shapes of a request.

use super::error::PlanError;
use super::grid::{self, Grid};
use super::request::Request;

/// A way to cut an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The largest chunk.
    pub chunk: Vec<u64>,
    /// The largest chunk with its halo: what a task is given.
    pub block: Vec<u64>,
    /// Number of chunks.
    pub tasks: u64,
}

/// The feasible chunk shapes of a request: those that [`recommend`] tries, or those of `chunks`.
///
/// # Errors
/// A request that contradicts itself, or a chunk that is none of its array.
pub fn chunk_shapes(request: &Request, chunks: Option<Vec<Vec<u64>>>) -> Result<Vec<Cut>, PlanError> {
    request.check()?;
    let (shape, halo) = (&request.shape, &request.halo);
    let cuts = |chunk: &Vec<u64>| {
        chunk.len() == shape.len() && chunk.iter().zip(shape).all(|(&c, &n)| (1..=n).contains(&c))
    };
    let grids = match chunks {
        None => grid::candidates(shape, halo, &request.whole_axes, None),
        Some(chunks) if chunks.iter().all(cuts) => {
            let grid = |chunk| Grid { shape: shape.clone(), chunk, halo: halo.clone() };
            chunks.into_iter().map(grid).collect()
        }
        Some(_) => {
            let why = "a chunk has one length per axis of the array, from 1 to the axis's own";
            return Err(PlanError::Request(why.into()));
        }
    };
    let cut = |grid: Grid| Cut { block: grid.block(), tasks: grid.chunks(), chunk: grid.chunk };
    Ok(grids.into_iter().map(cut).collect())
}
