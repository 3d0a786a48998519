//! Chunk grids: how an array can be cut, and what a cut means for the blocks.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::iter::successors;

/// More chunks than this are not tried: a `map_overlap` graph has up to 27 tasks per chunk, and
/// Dask's scheduler would be busy for many minutes before the first result.
pub(crate) const MOST_CHUNKS: u64 = 10_000;

/// More grids than this are not tried: 25 lengths along each of three axes are fewer.
const MOST_GRIDS: u64 = 16_384;

/// Blocks that are dealt out to workers one by one.
const MOST_DEALT: u64 = 2_000;

/// Splits per axis that are all tried. Beyond them only twice as many each time, and a quarter more
/// each time where that does not make too many grids.
const DENSE_SPLITS: u64 = 16;

/// An array cut into equal chunks with one smaller last chunk per axis (what zarr, xarray and
/// Cubed can store), and its halo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    pub(crate) halo: Vec<u64>,
}

impl Grid {
    /// Number of chunks along an axis.
    pub(crate) fn count(&self, axis: usize) -> u64 {
        self.shape[axis].div_ceil(self.chunk[axis])
    }

    /// Number of chunks; saturates, so that absurd grids are merely too many.
    pub(crate) fn chunks(&self) -> u64 {
        (0..self.shape.len()).fold(1u64, |product, axis| product.saturating_mul(self.count(axis)))
    }

    /// Sizes of the chunks along an axis.
    pub(crate) fn sizes(&self, axis: usize) -> Vec<u64> {
        let (length, chunk) = (self.shape[axis], self.chunk[axis]);
        (0..self.count(axis)).map(|i| chunk.min(length - i * chunk)).collect()
    }

    /// The largest chunk with its halo: the shape the operator sees. At the array's faces there
    /// is no halo, so with two chunks along an axis a block has it on one side only.
    pub(crate) fn block(&self) -> Vec<u64> {
        (0..self.shape.len()).map(|axis| self.extents(axis).iter().map(|e| e.0).max().unwrap_or(1)).collect()
    }

    /// Where the cells of each chunk along an axis begin and end, its halo among them or not.
    pub(crate) fn spans(&self, axis: usize, with_halo: bool) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (length, chunk) = (self.shape[axis], self.chunk[axis]);
        let halo = if with_halo { self.halo[axis] } else { 0 };
        (0..self.count(axis)).map(move |at| {
            let start = at * chunk;
            (start.saturating_sub(halo), start.saturating_add(chunk).saturating_add(halo).min(length))
        })
    }

    /// Chunk + halo along an axis as (length, how many chunks have it), for the first, the
    /// middle and the last chunks.
    fn extents(&self, axis: usize) -> Vec<(u64, u64)> {
        let (length, chunk, halo) = (self.shape[axis], self.chunk[axis], self.halo[axis]);
        let count = self.count(axis);
        if count == 1 {
            return vec![(length, 1)];
        }
        let last = length - (count - 1) * chunk;
        let mut extents = vec![(chunk.saturating_add(halo), 1), (last.saturating_add(halo), 1)];
        if count > 2 {
            extents.push((chunk.saturating_add(halo.saturating_mul(2)), count - 2));
        }
        extents
    }

    /// Cells of each kind of block as (cells, how many such blocks), largest first.
    fn blocks(&self) -> Vec<(f64, u64)> {
        let mut kinds = vec![(1.0, 1u64)];
        for axis in 0..self.shape.len() {
            let extents = self.extents(axis);
            kinds = kinds
                .iter()
                .flat_map(|&(cells, n)| {
                    extents.iter().map(move |&(e, m)| (cells * e as f64, n.saturating_mul(m)))
                })
                .collect();
        }
        kinds.sort_by(|a, b| b.0.total_cmp(&a.0));
        kinds
    }

    /// Cells that the busiest of `slots` computes when every free slot takes the largest block
    /// that is left, and cells that all of them compute. Both count halos.
    pub(crate) fn work(&self, slots: u64) -> (f64, f64) {
        let blocks = self.blocks();
        let total: f64 = blocks.iter().map(|&(cells, n)| cells * n as f64).sum();
        if self.chunks() > slots.saturating_mul(64) {
            // This many blocks even out; what remains is the last one of an unlucky slot.
            return (total / slots as f64 + blocks[0].0 / 2.0, total);
        }
        if self.chunks() > MOST_DEALT {
            // Too many to be dealt out one by one: all as large as the mean.
            let rounds = self.chunks().div_ceil(slots) as f64;
            return (rounds * total / self.chunks() as f64, total);
        }
        let mut loads: BinaryHeap<Reverse<Load>> =
            (0..slots.min(self.chunks())).map(|_| Reverse(Load(0.0))).collect();
        for (cells, n) in blocks {
            for _ in 0..n {
                if let Some(mut least) = loads.peek_mut() {
                    least.0.0 += cells;
                }
            }
        }
        (loads.into_iter().map(|Reverse(Load(cells))| cells).fold(0.0, f64::max), total)
    }

    /// Axes along which a block needs its neighbours.
    pub(crate) fn overlaps(&self, axis: usize) -> bool {
        self.halo[axis] > 0 && self.count(axis) > 1
    }
}

/// A finite number of cells, ordered.
#[derive(PartialEq)]
struct Load(f64);

impl Eq for Load {}

impl Ord for Load {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Every grid worth considering: ⌈n/k⌉ along each axis, no chunk below the halo, whole axes whole.
/// Where all lengths of all axes make too many grids, those of the axes with the most are thinned
/// out.
pub(crate) fn candidates(
    shape: &[u64],
    halo: &[u64],
    whole_axes: &[usize],
    aligned: Option<&[u64]>,
) -> Vec<Grid> {
    let lengths = |is_fine: bool| -> Vec<Vec<u64>> {
        let of_axis = |(axis, &length): (usize, &u64)| {
            let unit = aligned.map_or(1, |chunk| chunk[axis]).clamp(1, length);
            let is_whole = whole_axes.contains(&axis);
            if is_whole { vec![length] } else { axis_chunks(length, halo[axis], unit, is_fine) }
        };
        shape.iter().enumerate().map(of_axis).collect()
    };
    let fine = lengths(true);
    let mut lengths = if grids_of(&fine) <= MOST_GRIDS { fine } else { lengths(false) };
    thin(&mut lengths);
    let mut grids = vec![Grid { shape: shape.to_vec(), chunk: Vec::new(), halo: halo.to_vec() }];
    for sizes in lengths {
        grids = grids
            .iter()
            .flat_map(|grid| {
                sizes.iter().map(|&size| {
                    let mut grid = grid.clone();
                    grid.chunk.push(size);
                    grid
                })
            })
            .filter(|grid| partial_chunks(grid) <= MOST_CHUNKS)
            .collect();
    }
    grids
}

/// Drops every second cut of the axis that has the most, of several the last, until few enough
/// grids are left. The whole axis stays, and its halves as long as there is any cut.
fn thin(lengths: &mut [Vec<u64>]) {
    while grids_of(lengths) > MOST_GRIDS {
        let Some(longest) = lengths.iter_mut().max_by_key(|sizes| sizes.len()) else { return };
        let cuts = longest.len() - 1;
        let keeps = |(at, _): &(usize, &u64)| *at == 0 || (at % 2 == 1 && cuts > 1);
        *longest = longest.iter().enumerate().filter(keeps).map(|(_, &length)| length).collect();
    }
}

/// Every length of an axis with every length of the others.
fn grids_of(lengths: &[Vec<u64>]) -> u64 {
    lengths.iter().fold(1, |product, sizes| product.saturating_mul(sizes.len() as u64))
}

/// Chunks along the axes decided so far.
fn partial_chunks(grid: &Grid) -> u64 {
    (0..grid.chunk.len()).fold(1u64, |product, axis| product.saturating_mul(grid.count(axis)))
}

/// Chunk lengths for an axis, longest first: multiples of `unit`. A last chunk below the halo is
/// refused: Dask would silently rechunk it.
fn axis_chunks(length: u64, halo: u64, unit: u64, is_fine: bool) -> Vec<u64> {
    let mut sizes = Vec::new();
    for splits in splits(MOST_CHUNKS.min(length), is_fine) {
        let chunk = length.div_ceil(splits).div_ceil(unit).saturating_mul(unit).min(length);
        let last = length - (length.div_ceil(chunk) - 1) * chunk;
        if sizes.last() != Some(&chunk) && (splits == 1 || last >= halo) {
            sizes.push(chunk);
        }
    }
    sizes
}

/// Into how many chunks an axis is cut, at most so many.
fn splits(most: u64, is_fine: bool) -> BTreeSet<u64> {
    let next =
        |add: fn(u64) -> u64| successors(Some(DENSE_SPLITS), move |splits| Some(splits + add(*splits)));
    let doubled = next(|splits| splits).take_while(|splits| *splits <= most);
    let quarters = next(|splits| splits / 4).take_while(|splits| is_fine && *splits <= most);
    (1..=DENSE_SPLITS.min(most)).chain(doubled).chain(quarters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_cuts_are_there_beside_the_doublings() {
        for length in [20, 64, 1024, 4096, 24_000_000] {
            let (coarse, fine) = (axis_chunks(length, 0, 1, false), axis_chunks(length, 0, 1, true));
            assert!(coarse.iter().all(|chunk| fine.contains(chunk)), "{length}");
            let close = |pair: &[u64]| pair[0] * 4 <= pair[1] * 5 + 4;
            assert!(fine.windows(2).all(|pair| pair[0] > pair[1]), "{length}");
            assert!(fine.windows(2).filter(|pair| pair[0] * 16 <= length).all(close), "{length}: {fine:?}");
        }
    }

    #[test]
    fn fine_cuts_make_way_where_they_are_too_many() {
        let lengths = |shape: &[u64]| {
            let grids = candidates(shape, &vec![0; shape.len()], &[], None);
            grids.iter().map(|grid| grid.chunk[shape.len() - 1]).collect::<BTreeSet<u64>>()
        };
        assert!(
            lengths(&[4000, 4000]).contains(&200) && lengths(&[4000, 4000]).contains(&(4000u64.div_ceil(25)))
        );
        assert!(lengths(&[16, 16, 4000, 4000]).contains(&1000));
    }
}
