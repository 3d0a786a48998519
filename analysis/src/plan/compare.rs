//! Chunks chosen otherwise, as a baseline: by Dask itself (`chunks="auto"`), or by the user.

use super::answer::Compared;
use super::candidate::Law;
use super::error::PlanError;
use super::grid::Grid;
use super::request::Request;
use super::search::Search;

/// `array.chunk-size`, and `array.chunk-size-tolerance` has no effect without earlier chunks:
/// Dask's defaults.
const CHUNK_BYTES: f64 = 128.0 * 1024.0 * 1024.0;

/// More chunks than this are not compared.
const MOST_COMPARED: u64 = 100_000;

/// The chunks that a plan is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaselineChunks {
    /// Dask's, with `chunks="auto"`.
    Auto,
    /// Chunks of these lengths.
    Chunks(Vec<u64>),
}

impl BaselineChunks {
    /// What its chunks need.
    ///
    /// # Errors
    /// As [`super::recommend`]; where the law has no value for a block as large as that, or there would be too many of
    /// them; chunks that are none of the array or smaller than the halo.
    pub fn compared(&self, request: &Request, law: Law) -> Result<Compared, PlanError> {
        request.check()?;
        let chunk = match self {
            BaselineChunks::Auto => auto_chunk(&request.shape, request.item_bytes),
            BaselineChunks::Chunks(lengths) => given(request, lengths)?,
        };
        let grid = Grid { shape: request.shape.clone(), chunk, halo: request.halo.clone() };
        if grid.chunks() > MOST_COMPARED {
            let why = format!("there would be {} chunks: too many to compare", grid.chunks());
            return Err(PlanError::Request(why));
        }
        let needs = Search::new(request, law, None)?.needs(grid)?;
        Ok(match self {
            BaselineChunks::Auto => Compared::Auto(needs),
            BaselineChunks::Chunks(_) => Compared::Chunks(needs),
        })
    }
}

fn given(request: &Request, lengths: &[u64]) -> Result<Vec<u64>, PlanError> {
    let (shape, halo) = (&request.shape, &request.halo);
    let whole = lengths.len() == shape.len() && lengths.iter().zip(shape).all(|(c, n)| (1..=*n).contains(c));
    if !whole {
        let why = "chunks to compare with have one length per axis of the array, from 1 to the axis's own";
        return Err(PlanError::Request(why.into()));
    }
    let grid = Grid { shape: shape.clone(), chunk: lengths.to_vec(), halo: halo.clone() };
    for (axis, &halo) in halo.iter().enumerate() {
        // The last chunk is the smallest.
        let smallest = grid.sizes(axis).last().copied().unwrap_or(0);
        if grid.count(axis) > 1 && smallest < halo {
            return Err(PlanError::Request(format!(
                "chunks of {} along axis {axis} leave one of {smallest}, which is smaller than the halo, {halo}",
                lengths[axis]
            )));
        }
    }
    Ok(grid.chunk)
}

/// `dask.array.core.auto_chunks` without earlier chunks (2026.8): equal sides of 128 MiB together;
/// axes that are shorter stay whole and the others grow.
fn auto_chunk(shape: &[u64], item_bytes: u64) -> Vec<u64> {
    let mut chunk: Vec<Option<u64>> = vec![None; shape.len()];
    loop {
        let whole: f64 = chunk.iter().flatten().map(|&side| side as f64).product();
        let free = chunk.iter().filter(|side| side.is_none()).count();
        let side = (CHUNK_BYTES / item_bytes as f64 / whole.max(1.0)).powf(1.0 / free.max(1) as f64);
        let short: Vec<usize> =
            (0..shape.len()).filter(|&axis| chunk[axis].is_none() && (shape[axis] as f64) < side).collect();
        if short.is_empty() {
            return (0..shape.len()).map(|axis| chunk[axis].unwrap_or((side as u64).max(1))).collect();
        }
        short.into_iter().for_each(|axis| chunk[axis] = Some(shape[axis]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `dask.array.core.normalize_chunks("auto", shape, dtype=...)` answers (Dask 2026.8).
    #[test]
    fn chooses_as_dask_does() {
        let cases: [(&[u64], u64, &[u64]); 9] = [
            (&[200, 200, 200], 4, &[200, 200, 200]),
            (&[400, 400, 400], 4, &[322, 322, 322]),
            (&[651, 951, 462], 4, &[322, 322, 322]),
            (&[1600, 60, 60], 4, &[1600, 60, 60]),
            (&[10_000_000], 8, &[10_000_000]),
            (&[100_000, 1009], 8, &[16_627, 1009]),
            (&[1000, 50, 1000, 30], 2, &[211, 50, 211, 30]),
            (&[650, 950, 1000], 8, &[255, 255, 255]),
            (&[1, 1], 1 << 40, &[1, 1]),
        ];
        for (shape, item_bytes, chunk) in cases {
            assert_eq!(auto_chunk(shape, item_bytes), chunk, "{shape:?}");
        }
    }
}
