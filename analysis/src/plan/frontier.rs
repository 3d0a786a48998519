//! The frontier: how many source chunks a worker retains because neighbours still need them.
//!
//! `map_overlap` and a reduction of its result make a graph in which an operator task needs the
//! source chunk below it and all its neighbours, and a tree of reductions joins the results.
//! Dask's `order` walks the tree depth first, towards the most inputs; a chunk is retained from its
//! first use to its last. Walking the same tree the same way gives the number `dask.order`
//! (2026.8) itself gives: 41 of 64 chunks for 4×4×4 (41 here), 8 of 32 for slabs (8), 193 of 512
//! for 8×8×8 (194), 53 of 256 for 16×16×1 (54).
//!
//! Measured on two workers (docs/results/chunks.md): slicing tasks and whole source chunks move to
//! whichever worker is idle, so that *each* worker retains as much as a single one would, not half
//! of it.

use std::cmp::Reverse;
use std::ops::Range;

use super::grid::Grid;

/// Dask's `split_every` for a reduction over all axes: 4 per reduction, spread over the axes.
fn fan_in(ndim: usize) -> u64 {
    match ndim {
        0 | 1 => 4,
        _ => 2,
    }
}

/// Larger graphs are not walked: their frontier is bounded instead.
pub(crate) const MOST_WALKED: u64 = 1_000;

/// The most source chunks retained at once when the graph's tasks run in order. 0 where no block
/// needs a neighbour: Dask fuses reading and computing then, and nothing waits.
pub(crate) fn retained_chunks(grid: &Grid) -> u64 {
    if overlapping_chunks(grid) == 1 {
        return u64::from(grid.halo.iter().any(|&halo| halo > 0));
    }
    if grid.chunks() > MOST_WALKED { most_retained_chunks(grid) } else { Walk::new(grid).run() }
}

/// A number of retained chunks that the walk does not exceed: layers across the longest axis, two
/// for every level of the tree along it. Up to three times too many for cubes of chunks.
fn most_retained_chunks(grid: &Grid) -> u64 {
    let (all, longest) = (overlapping_chunks(grid), longest_axis(grid));
    let levels = u64::from(longest.next_power_of_two().ilog2());
    (2 * levels * (all / longest)).min(all)
}

/// Chunks of the axes along which blocks need their neighbours.
fn overlapping_chunks(grid: &Grid) -> u64 {
    overlapping(grid).fold(1, u64::saturating_mul)
}

fn longest_axis(grid: &Grid) -> u64 {
    overlapping(grid).max().unwrap_or(1)
}

fn overlapping(grid: &Grid) -> impl Iterator<Item = u64> {
    (0..grid.shape.len()).filter(|&axis| grid.overlaps(axis)).map(|axis| grid.count(axis))
}

/// A number of retained chunks that [`retained_chunks`] does not fall below, cheap to get: the
/// neighbours of a block in the middle, and 2.5 layers across the longest axis (the walk goes
/// along it, and the layers between what is done and what is not are all needed).
pub(super) fn least_retained_chunks(grid: &Grid) -> u64 {
    let (all, longest) = (overlapping_chunks(grid), longest_axis(grid));
    if all == 1 {
        return retained_chunks(grid);
    }
    let neighbours = overlapping(grid).map(|count| count.min(3)).fold(1, u64::saturating_mul);
    neighbours.max(5 * (all / longest) / 2).min(all)
}

const UNUSED: u64 = u64::MAX;

/// The order in which the walk computes blocks, each as its place along every axis. Grids of more
/// than [`MOST_WALKED`] blocks are not walked; theirs is a long way round.
pub(crate) fn block_order(grid: &Grid) -> Vec<Vec<u64>> {
    let mut order = Vec::new();
    Tree::new(grid).leaves(&mut |blocks| order.extend_from_slice(blocks));
    order
}

/// The tree of reductions that the walk goes down.
#[derive(Clone)]
struct Tree {
    counts: Vec<u64>,
    /// How far a block reaches along each axis: 1 where it needs its neighbours.
    reach: Vec<u64>,
    fan_in: u64,
}

impl Tree {
    fn new(grid: &Grid) -> Self {
        let counts: Vec<u64> = (0..grid.shape.len()).map(|axis| grid.count(axis)).collect();
        let reach = (0..counts.len()).map(|axis| u64::from(grid.overlaps(axis))).collect();
        Tree { reach, fan_in: fan_in(counts.len()), counts }
    }

    /// Visits the blocks, those that one reduction joins at a time.
    fn leaves(&self, visit: &mut dyn FnMut(&[Vec<u64>])) {
        let mut span = self.fan_in;
        while self.counts.iter().any(|&count| span < count) {
            span *= self.fan_in;
        }
        self.reduce(&vec![0; self.counts.len()], span, visit);
    }

    /// Visits the node of the reduction tree that starts at block `first` and is `span` blocks
    /// wide along every axis.
    fn reduce(&self, first: &[u64], span: u64, visit: &mut dyn FnMut(&[Vec<u64>])) {
        let step = span / self.fan_in;
        let mut children = self.children(first, span, step);
        children.sort_by_cached_key(|child| Reverse(self.inputs(child, step)));
        if step > 1 {
            children.iter().for_each(|child| self.reduce(child, step, visit));
        } else {
            visit(&children);
        }
    }

    fn children(&self, first: &[u64], span: u64, step: u64) -> Vec<Vec<u64>> {
        let starts =
            |axis: usize| (first[axis]..self.counts[axis].min(first[axis] + span)).step_by(step as usize);
        product((0..first.len()).map(|axis| starts(axis).collect()))
    }

    /// Source chunks that the blocks of a node need.
    fn inputs(&self, first: &[u64], span: u64) -> u64 {
        (0..first.len())
            .map(|axis| {
                let end = (first[axis] + span + self.reach[axis]).min(self.counts[axis]);
                end - first[axis].saturating_sub(self.reach[axis])
            })
            .product()
    }

    fn around(&self, axis: usize, at: u64) -> Range<u64> {
        at.saturating_sub(self.reach[axis])..(at + self.reach[axis] + 1).min(self.counts[axis])
    }
}

/// One pass over the tree.
struct Walk {
    tree: Tree,
    /// Per source chunk: operator tasks that still need it, [`UNUSED`] before it is loaded.
    uses_left: Vec<u64>,
    retained: u64,
    most_retained: u64,
}

impl Walk {
    fn new(grid: &Grid) -> Self {
        let tree = Tree::new(grid);
        let chunks = tree.counts.iter().product::<u64>() as usize;
        Walk { tree, uses_left: vec![UNUSED; chunks], retained: 0, most_retained: 0 }
    }

    fn run(mut self) -> u64 {
        let tree = self.tree.clone();
        tree.leaves(&mut |blocks| {
            blocks.iter().for_each(|block| self.neighbours(block, Self::load));
            blocks.iter().for_each(|block| self.neighbours(block, Self::compute));
        });
        self.most_retained
    }

    fn load(&mut self, source: usize) {
        if self.uses_left[source] == UNUSED {
            self.uses_left[source] = self.consumers(source);
            self.retained += 1;
            self.most_retained = self.most_retained.max(self.retained);
        }
    }

    fn compute(&mut self, source: usize) {
        self.uses_left[source] -= 1;
        self.retained -= u64::from(self.uses_left[source] == 0);
    }

    /// Takes `step` with every source chunk that a block needs, its own among them.
    fn neighbours(&mut self, block: &[u64], step: fn(&mut Self, usize)) {
        self.along(block, 0, step);
    }

    /// The same for the axes that are left, `index` being that of the axes before.
    fn along(&mut self, block: &[u64], index: usize, step: fn(&mut Self, usize)) {
        let axis = self.tree.counts.len() - block.len();
        let Some((&at, rest)) = block.split_first() else { return step(self, index) };
        for at in self.tree.around(axis, at) {
            self.along(rest, index * self.tree.counts[axis] as usize + at as usize, step);
        }
    }

    /// Operator tasks that need a source chunk: being a neighbour is mutual.
    fn consumers(&self, source: usize) -> u64 {
        let mut rest = source as u64;
        let mut consumers = 1;
        for axis in (0..self.tree.counts.len()).rev() {
            let at = rest % self.tree.counts[axis];
            rest /= self.tree.counts[axis];
            let around = self.tree.around(axis, at);
            consumers *= around.end - around.start;
        }
        consumers
    }
}

/// Every choice of one value per axis, the last axis changing fastest.
fn product(axes: impl Iterator<Item = Vec<u64>>) -> Vec<Vec<u64>> {
    axes.fold(vec![Vec::new()], |chosen, axis| {
        let longer = |at: &Vec<u64>, &value: &u64| at.iter().copied().chain([value]).collect();
        chosen.iter().flat_map(|at| axis.iter().map(move |value| longer(at, value))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained(counts: [u64; 3], halo: [u64; 3]) -> u64 {
        let chunk = vec![10; 3];
        let shape = counts.iter().map(|count| count * 10).collect();
        retained_chunks(&Grid { shape, chunk, halo: halo.to_vec() })
    }

    /// The numbers `dask.order` gives for `map_overlap(...).mean()` on these grids.
    #[test]
    fn follows_dasks_order_within_a_few_chunks() {
        for (counts, dask) in [
            ([4, 4, 4], 41),
            ([8, 1, 1], 5),
            ([16, 1, 1], 6),
            ([32, 1, 1], 8),
            ([4, 4, 1], 11),
            ([8, 8, 1], 25),
            ([16, 16, 1], 53),
            ([6, 6, 6], 123),
            ([8, 8, 8], 193),
            ([10, 10, 10], 518),
        ] {
            let ours = retained(counts, [2, 2, 2]) as f64;
            assert!((ours / f64::from(dask) - 1.0).abs() <= 0.05, "{counts:?}: {ours}, Dask {dask}");
        }
    }

    #[test]
    fn nothing_is_retained_without_a_halo_and_one_chunk_where_no_neighbour_is() {
        assert_eq!(retained([4, 4, 4], [0, 0, 0]), 0);
        assert_eq!(retained([4, 4, 1], [0, 0, 2]), 1);
        assert_eq!(retained([1, 1, 1], [2, 2, 2]), 1);
    }

    #[test]
    fn the_bounds_enclose_the_walk() {
        let grid = |a: u64, b: u64, c: u64| Grid {
            shape: vec![a * 10, b * 10, c * 10],
            chunk: vec![10; 3],
            halo: vec![2; 3],
        };
        let small = (1..=6).flat_map(|a| (1..=6).flat_map(move |b| (1..=6).map(move |c| grid(a, b, c))));
        for grid in small.chain([grid(16, 16, 1), grid(40, 3, 3), grid(2, 64, 5), grid(100, 5, 3)]) {
            let walked = if grid.chunks() > 1 { Walk::new(&grid).run() } else { 1 };
            assert!(least_retained_chunks(&grid) <= walked, "{grid:?}: {walked}");
            assert!(grid.chunks() == 1 || walked <= most_retained_chunks(&grid), "{grid:?}: {walked}");
        }
    }

    #[test]
    fn a_long_row_holds_few_whatever_its_length() {
        assert!(retained([1000, 1, 1], [2, 2, 2]) <= 15);
        assert!(retained([4000, 1, 1], [2, 2, 2]) <= 24);
        assert_eq!(retained([1, 1, 32], [2, 2, 2]), retained([32, 1, 1], [2, 2, 2]));
    }
}
