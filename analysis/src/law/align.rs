//! Alignment: the threshold and the runs at which one allocation sequence serves every shape.

use std::collections::{BTreeSet, HashMap};

use memtrace_trace::rows::Kind;

use super::fold;
use crate::profile::{Event, Program};

/// Thresholds tried in this order, bytes (DESIGN §8).
pub const THRESHOLDS: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// A sequence of allocations and releases without sizes; blocks are numbered as allocated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Course {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The call that made each block.
    pub kinds: Vec<Kind>,
}

/// One run seen at a threshold: its course, and each block's bytes.
#[derive(Debug, Clone, Default)]
pub struct Sized {
    /// The sequence.
    pub course: Course,
    /// Bytes of each block.
    pub bytes: Vec<u64>,
}

/// Runs that took the same course.
#[derive(Debug, Clone)]
pub struct Alignment {
    /// Blocks of at least this many bytes are in the course.
    pub threshold: u64,
    /// True if loops were folded into one repetition.
    pub folded: bool,
    /// The common sequence.
    pub course: Course,
    /// Which runs took it (indices); at least one of every shape.
    pub runs: Vec<usize>,
    /// Per block, its bytes in each of those runs.
    pub bytes: Vec<Vec<u64>>,
}

impl Sized {
    /// The blocks of a program that have at least `threshold` bytes.
    pub fn of(program: &Program, threshold: u64) -> Sized {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut sized = Sized::default();
        for event in &program.events {
            match *event {
                Event::Alloc(block) if program.blocks[block].bytes >= threshold => {
                    numbers.insert(block, sized.bytes.len());
                    sized.course.events.push(Event::Alloc(sized.bytes.len()));
                    sized.course.kinds.push(program.blocks[block].kind);
                    sized.bytes.push(program.blocks[block].bytes);
                }
                Event::Free(block) => {
                    sized.course.events.extend(numbers.get(&block).map(|&number| Event::Free(number)));
                }
                Event::Alloc(_) => {}
            }
        }
        sized
    }

    /// The largest live sum of the sequence.
    pub fn peak(&self) -> u64 {
        let (mut live, mut peak) = (0u64, 0);
        for event in &self.course.events {
            match *event {
                Event::Alloc(block) => live = live.saturating_add(self.bytes[block]),
                Event::Free(block) => live = live.saturating_sub(self.bytes[block]),
            }
            peak = peak.max(live);
        }
        peak
    }
}

/// The lowest threshold at which runs of every shape take one course; plain first, then with
/// loops folded. `None` where there is none.
///
/// A run that takes another course while others of its shape do not (a garbage collection, a
/// cache that was filled) is left out; `points` are the runs' shapes.
pub fn align(programs: &[&Program], points: &[Vec<u64>]) -> Option<Alignment> {
    let plain = THRESHOLDS.map(|threshold| (threshold, false));
    let folded = THRESHOLDS.map(|threshold| (threshold, true));
    plain.into_iter().chain(folded).find_map(|(threshold, folded)| {
        let sized = |program: &&Program| at(program, threshold, folded);
        let sized: Vec<Sized> = programs.iter().map(sized).collect();
        let (course, runs) = common(&sized, points)?;
        let bytes =
            (0..course.kinds.len()).map(|block| runs.iter().map(|&run| sized[run].bytes[block]).collect());
        Some(Alignment { threshold, folded, bytes: bytes.collect(), course, runs })
    })
}

/// A program at a threshold, folded or not.
pub fn at(program: &Program, threshold: u64, folded: bool) -> Sized {
    let sized = Sized::of(program, threshold);
    if folded { fold::fold(&sized) } else { sized }
}

/// The course that covers every shape, the most frequent one if several do.
fn common(sized: &[Sized], points: &[Vec<u64>]) -> Option<(Course, Vec<usize>)> {
    let shapes = points.iter().collect::<BTreeSet<_>>().len();
    let mut courses: HashMap<&Course, Vec<usize>> = HashMap::new();
    for (run, sized) in sized.iter().enumerate() {
        courses.entry(&sized.course).or_default().push(run);
    }
    let covers =
        |runs: &[usize]| runs.iter().map(|&run| &points[run]).collect::<BTreeSet<_>>().len() == shapes;
    let covering = courses.into_iter().filter(|(_, runs)| covers(runs));
    let (course, runs) = covering.max_by_key(|(_, runs)| (runs.len(), std::cmp::Reverse(runs[0])))?;
    Some((course.clone(), runs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Block;

    fn program(blocks: &[u64], events: Vec<Event>) -> Program {
        let block = |&bytes: &u64| Block { kind: Kind::Malloc, bytes, output: false };
        Program { blocks: blocks.iter().map(block).collect(), events }
    }

    use Event::{Alloc, Free};

    #[test]
    fn a_stray_small_block_raises_the_threshold_and_no_more() {
        let calm = program(&[1 << 20, 1 << 21], vec![Alloc(0), Alloc(1), Free(0)]);
        let stray = program(&[1 << 19, 5000, 1 << 22], vec![Alloc(0), Alloc(1), Free(1), Alloc(2), Free(0)]);
        let points = [vec![10], vec![20]];
        let alignment = align(&[&calm, &stray], &points).unwrap();
        assert_eq!(alignment.threshold, 16 << 10);
        assert_eq!(alignment.bytes, vec![vec![1 << 20, 1 << 19], vec![1 << 21, 1 << 22]]);
        assert!(!alignment.folded);
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
        assert!(alignment.folded);
        assert_eq!(alignment.bytes, vec![vec![1 << 20, 1 << 22], vec![1 << 20, 1 << 22]]);
    }
}
