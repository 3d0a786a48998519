//! Alignment: the view of the runs in which one allocation sequence serves every shape.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::course::{Course, SizedCourse};
use super::fold;
use crate::profile::{Block, Program};

/// Thresholds tried in this order, bytes.
pub const THRESHOLDS: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Blocks up to this size may come and go with the shape without being part of the sequence.
const MAX_WORKSPACE: u64 = 1 << 20;
/// By how much such blocks may raise the peak of a run, together.
const MAX_RAISED: u64 = 1 << 20;
/// The part of a larger peak that a sequence explains at least.
const LEAST_EXPLAINED: f64 = 0.1;
/// Fewest shapes that must take one course if not all do.
const MAJORITY: usize = 3;

/// The part of a program that is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Blocks of at least this many bytes.
    pub threshold: u64,
    /// True if loops are folded into the fewest repetitions.
    pub folded: bool,
    /// Call stacks whose blocks are left out: workspaces that some shapes need and others do not.
    pub workspaces: BTreeSet<u64>,
}

/// Runs that took the same course.
#[derive(Debug, Clone)]
pub struct Alignment {
    /// The part of them that was compared.
    pub view: View,
    /// The common sequence.
    pub course: Course,
    /// Which runs took it (indices).
    pub runs: Vec<usize>,
    /// Per block, its bytes in each of those runs.
    pub bytes: Vec<Vec<u64>>,
    /// Per block, its call stack, where any run recorded it.
    pub sites: Vec<Option<u64>>,
    /// True if the runs of some shape took another course.
    pub partial: bool,
}

impl View {
    /// A program in this view.
    pub fn of(&self, program: &Program) -> SizedCourse {
        let wanted = |block: &Block| block.bytes >= self.threshold && !self.is_workspace(block);
        let sized = SizedCourse::of(program, wanted);
        if self.folded { fold::fold(&sized) } else { sized }
    }

    /// By how much the workspaces raise the largest live sum.
    pub fn workspace_bytes(&self, program: &Program) -> u64 {
        if self.workspaces.is_empty() {
            return 0;
        }
        let all = SizedCourse::of(program, |block| block.bytes >= self.threshold).peak();
        let rest =
            SizedCourse::of(program, |block| block.bytes >= self.threshold && !self.is_workspace(block));
        all.saturating_sub(rest.peak())
    }

    fn is_workspace(&self, block: &Block) -> bool {
        block.site.is_some_and(|site| self.workspaces.contains(&site))
    }
}

/// The first view in which runs of every shape take one course. Views are tried from the lowest
/// threshold to the highest, plain and with loops folded; then all of these without workspaces. If
/// none fits every shape, the first in which at least three shapes take one course; else `None`.
///
/// `points` are the runs' shapes. Of several runs of a shape, those that take another course (a
/// garbage collection ran, a cache was filled) are left out.
pub fn align(programs: &[&Program], points: &[Vec<u64>]) -> Option<Alignment> {
    let shapes = points.iter().collect::<BTreeSet<_>>().len();
    let views = views(programs, points);
    let mut seen: Vec<Vec<SizedCourse>> = Vec::with_capacity(views.len());
    let coverages = if shapes > MAJORITY { vec![shapes, MAJORITY] } else { vec![shapes] };
    for least in coverages {
        for (index, view) in views.iter().enumerate() {
            if seen.len() == index {
                seen.push(programs.iter().map(|program| view.of(program)).collect());
            }
            if let Some((course, runs)) = common(&seen[index], points, least)
                && explains(&seen[index], programs, &runs)
            {
                return Some(alignment(view, &seen[index], course, runs, least < shapes));
            }
        }
    }
    None
}

fn alignment(
    view: &View,
    sized: &[SizedCourse],
    course: Course,
    runs: Vec<usize>,
    partial: bool,
) -> Alignment {
    let blocks = 0..course.kinds.len();
    let bytes = |block: usize| runs.iter().map(|&run| sized[run].bytes[block]).collect();
    let site = |block: usize| runs.iter().find_map(|&run| sized[run].sites[block]);
    let (bytes, sites) = (blocks.clone().map(bytes).collect(), blocks.map(site).collect());
    Alignment { view: view.clone(), bytes, sites, course, runs, partial }
}

/// False if a sequence has next to nothing of what its largest run had live: what is left out of it
/// is the law then, and a sequence would hide how that grows.
fn explains(sized: &[SizedCourse], programs: &[&Program], runs: &[usize]) -> bool {
    let whole = |run: usize| SizedCourse::of(programs[run], |_| true).peak();
    let largest = runs.iter().copied().max_by_key(|run| whole(*run));
    largest.is_none_or(|run| {
        let whole = whole(run);
        whole <= MAX_WORKSPACE || sized[run].peak() as f64 >= LEAST_EXPLAINED * whole as f64
    })
}

fn views(programs: &[&Program], points: &[Vec<u64>]) -> Vec<View> {
    let workspaces = THRESHOLDS.map(|threshold| workspaces(programs, points, threshold));
    let plain = THRESHOLDS.map(|threshold| (threshold, BTreeSet::new()));
    let without = THRESHOLDS.into_iter().zip(workspaces).filter(|(threshold, workspaces)| {
        let view = View { threshold: *threshold, folded: false, workspaces: workspaces.clone() };
        let bytes = |program: &&Program| view.workspace_bytes(program);
        !workspaces.is_empty() && programs.iter().map(bytes).all(|bytes| bytes <= MAX_RAISED)
    });
    let both = |(threshold, workspaces): (u64, BTreeSet<u64>)| {
        [false, true].map(|folded| View { threshold, folded, workspaces: workspaces.clone() })
    };
    plain.into_iter().chain(without).flat_map(both).collect()
}

/// The blocks of one call stack over all runs.
struct Blocks {
    /// How many each run has.
    counts: Vec<usize>,
    sizes: BTreeSet<u64>,
}

impl Blocks {
    /// True if all have one size, at most a megabyte, and some runs have more of them than others.
    /// One size says so at two shapes only: at one, every block has it.
    fn come_and_go(&self, points: &[Vec<u64>]) -> bool {
        let one_size = self.sizes.len() == 1 && self.sizes.iter().all(|bytes| *bytes <= MAX_WORKSPACE);
        let with_any = self.counts.iter().zip(points).filter(|(count, _)| **count > 0);
        let shapes = with_any.map(|(_, point)| point).collect::<BTreeSet<_>>().len();
        one_size && shapes > 1 && self.counts.iter().any(|count| *count != self.counts[0])
    }
}

/// Call stacks whose blocks come and go.
fn workspaces(programs: &[&Program], points: &[Vec<u64>], threshold: u64) -> BTreeSet<u64> {
    let mut sites: BTreeMap<u64, Blocks> = BTreeMap::new();
    for (run, program) in programs.iter().enumerate() {
        for block in program.blocks.iter().filter(|block| block.bytes >= threshold) {
            let Some(site) = block.site else { continue };
            let of_site = sites
                .entry(site)
                .or_insert_with(|| Blocks { counts: vec![0; programs.len()], sizes: BTreeSet::new() });
            of_site.counts[run] += 1;
            of_site.sizes.insert(block.bytes);
        }
    }
    sites.into_iter().filter(|(_, blocks)| blocks.come_and_go(points)).map(|(site, _)| site).collect()
}

/// The course that covers at least `least` shapes; the most of them, then the most runs, if several
/// do.
fn common(sized: &[SizedCourse], points: &[Vec<u64>], least: usize) -> Option<(Course, Vec<usize>)> {
    let mut courses: HashMap<&Course, Vec<usize>> = HashMap::new();
    for (run, sized) in sized.iter().enumerate() {
        courses.entry(&sized.course).or_default().push(run);
    }
    let covered = |runs: &[usize]| runs.iter().map(|&run| &points[run]).collect::<BTreeSet<_>>().len();
    let covering = courses.into_iter().filter(|(_, runs)| covered(runs) >= least);
    let (course, runs) =
        covering.max_by_key(|(_, runs)| (covered(runs), runs.len(), std::cmp::Reverse(runs[0])))?;
    Some((course.clone(), runs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrace_trace::rows::Kind;

    use crate::profile::{Block, Event};

    fn program(blocks: &[u64], events: Vec<Event>) -> Program {
        let block =
            |&bytes: &u64| Block { kind: Kind::Malloc, bytes, output: false, site: None, untouched: 0 };
        Program { blocks: blocks.iter().map(block).collect(), events }
    }

    use Event::{Alloc, Free};

    #[test]
    fn a_stray_small_block_raises_the_threshold_and_no_more() {
        let calm = program(&[1 << 20, 1 << 21], vec![Alloc(0), Alloc(1), Free(0)]);
        let stray = program(&[1 << 19, 5000, 1 << 22], vec![Alloc(0), Alloc(1), Free(1), Alloc(2), Free(0)]);
        let points = [vec![10], vec![20]];
        let alignment = align(&[&calm, &stray], &points).unwrap();
        assert_eq!(alignment.view.threshold, 16 << 10);
        assert_eq!(alignment.bytes, vec![vec![1 << 20, 1 << 19], vec![1 << 21, 1 << 22]]);
        assert!(!alignment.view.folded);
    }

    /// Arrays that grow past the threshold between two runs look like a block that comes and goes.
    #[test]
    fn what_one_shape_alone_has_is_no_workspace() {
        let run = |bytes: u64| {
            let mut run = program(&[5000, bytes], vec![Alloc(0), Alloc(1), Free(1), Free(0)]);
            run.blocks.iter_mut().zip([1, 2]).for_each(|(block, site)| block.site = Some(site));
            run
        };
        let runs = [run(3000), run(3500), run(500_000)];
        let points = [vec![10], vec![11], vec![90]];
        assert_eq!(align(&runs.iter().collect::<Vec<_>>(), &points).map(|found| found.view), None);
    }

    #[test]
    fn a_sequence_that_has_next_to_nothing_of_the_peak_is_none() {
        let many = |count: u64| {
            let blocks: Vec<u64> = std::iter::once(300_000).chain((0..count).map(|n| 90_000 + n)).collect();
            program(&blocks, (0..blocks.len()).map(Alloc).collect())
        };
        let few = [many(1), many(2), many(3)];
        let points = [vec![10], vec![20], vec![30]];
        assert!(align(&few.iter().collect::<Vec<_>>(), &points).is_some(), "most of them is one block");
        let more = [many(10), many(20), many(50)];
        assert!(align(&more.iter().collect::<Vec<_>>(), &points).is_none());
    }

    #[test]
    fn one_odd_run_of_a_shape_is_left_out() {
        let usual = program(&[1 << 20], vec![Alloc(0), Free(0)]);
        let odd = program(&[1 << 20, 1 << 20], vec![Alloc(0), Alloc(1), Free(0)]);
        let alignment = align(&[&usual, &odd, &usual], &[vec![1], vec![1], vec![2]]).unwrap();
        assert_eq!(alignment.runs, vec![0, 2]);
        assert!(align(&[&usual, &odd], &[vec![1], vec![2]]).is_none());
    }

    #[test]
    fn a_loop_whose_count_depends_on_the_shape_is_folded() {
        let looped = |bytes: u64, count: usize| {
            let blocks = vec![bytes; count + 1];
            let round = |block| [Alloc(block), Free(block)];
            program(&blocks, [Alloc(0)].into_iter().chain((1..=count).flat_map(round)).collect())
        };
        let (short, long) = (looped(1 << 20, 3), looped(1 << 22, 7));
        let alignment = align(&[&short, &long], &[vec![3], vec![7]]).unwrap();
        assert!(alignment.view.folded);
        assert_eq!(alignment.bytes, vec![vec![1 << 20, 1 << 22], vec![1 << 20, 1 << 22]]);
    }
}
