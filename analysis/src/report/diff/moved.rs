//! Which line of one trace is which line of another: between two versions of a program lines move,
//! and functions and files get other names.

use std::collections::BTreeMap;

use crate::profile::stacks::base_name;
use crate::report::composition::Place;

/// What a line that moved costs; bytes that differ cost up to 1.
const MOVED: f64 = 0.01;
/// What a line without a partner costs: within one function two of them cost more than any pair, and
/// elsewhere lines are paired that need about the same.
const ALONE: f64 = 0.6;
const ALONE_ELSEWHERE: f64 = 0.2;
/// Pairs that are weighed against each other; beyond them lines stay where they are.
const WEIGHED_MAX: usize = 4_000_000;

/// Where a line is, and how much it allocated.
pub struct Spot {
    file: String,
    function: String,
    line: u32,
    bytes: u64,
}

impl Spot {
    /// Files below the working directory of the program count from there.
    pub fn of(place: &Place, bytes: u64, folder: &str) -> Spot {
        let (file, function, line) = match place {
            Place::Line { file, line, function } => (below(file, folder), function.as_str(), *line),
            Place::Function { name, module } => (base_name(module), name.as_str(), 0),
            Place::Import { package } => ("<import>", package.as_str(), 0),
            Place::Recorder => ("<recorder>", "", 0),
            Place::Unknown => ("<unknown>", "", 0),
        };
        Spot { file: file.into(), function: function.into(), line, bytes }
    }

    /// Names of functions that say which function it is.
    fn named(&self) -> Option<&str> {
        let is_address = self.function.starts_with("0x");
        let is_name = !self.function.is_empty() && !self.function.contains('<') && !is_address;
        (is_name && !self.file.starts_with('<')).then_some(&self.function)
    }
}

fn below<'a>(file: &'a str, folder: &str) -> &'a str {
    let inside = file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let file = inside.filter(|_| !folder.is_empty()).unwrap_or(file);
    file.strip_prefix("./").unwrap_or(file)
}

/// A file and a function, either of them empty where it does not matter.
type Key = (String, String);
type InCommon = fn(&Spot) -> Option<Key>;
type Grouped = BTreeMap<Key, Vec<usize>>;

/// Lines with their partners, by their place in the two lists; each one time.
pub fn pairs(before: &[Spot], after: &[Spot]) -> Vec<(Option<usize>, Option<usize>)> {
    // What two lines of one thing have in common, the surest first.
    let in_common: [(InCommon, f64); 5] = [
        (|spot| Some((spot.file.clone(), spot.function.clone())), ALONE),
        (|spot| spot.named().map(|function| (base_name(&spot.file).into(), function.into())), ALONE),
        (|spot| (spot.line > 0).then(|| (spot.file.clone(), String::new())), ALONE_ELSEWHERE),
        (|spot| (spot.line > 0).then(|| (base_name(&spot.file).into(), String::new())), ALONE_ELSEWHERE),
        (|spot| spot.named().map(|function| (String::new(), function.into())), ALONE_ELSEWHERE),
    ];
    let mut left = [(0..before.len()).collect::<Vec<_>>(), (0..after.len()).collect::<Vec<_>>()];
    let mut found = Vec::new();
    for (key, alone) in in_common {
        let by_key = [grouped(before, &left[0], key), grouped(after, &left[1], key)];
        for (key, was) in &by_key[0] {
            let is = by_key[1].get(key).map_or(&[][..], Vec::as_slice);
            found.extend(aligned((before, was), (after, is), alone));
        }
        let paired: [Vec<usize>; 2] =
            [found.iter().map(|pair| pair.0).collect(), found.iter().map(|pair| pair.1).collect()];
        for (left, paired) in left.iter_mut().zip(paired) {
            let paired: std::collections::HashSet<usize> = paired.into_iter().collect();
            left.retain(|at| !paired.contains(at));
        }
    }
    let both = found.into_iter().map(|(was, is)| (Some(was), Some(is)));
    let gone = left[0].iter().map(|was| (Some(*was), None));
    let new = left[1].iter().map(|is| (None, Some(*is)));
    both.chain(gone).chain(new).collect()
}

/// Lines by what they have in common, in the order of the file.
fn grouped(spots: &[Spot], left: &[usize], key: InCommon) -> Grouped {
    let mut groups = Grouped::new();
    for at in left {
        if let Some(key) = key(&spots[*at]) {
            groups.entry(key).or_default().push(*at);
        }
    }
    groups.values_mut().for_each(|group| group.sort_by_key(|at| (spots[*at].line, *at)));
    groups
}

/// The pairs of two lists that keep their order and cost least.
fn aligned(
    (before, was): (&[Spot], &[usize]),
    (after, is): (&[Spot], &[usize]),
    alone: f64,
) -> Vec<(usize, usize)> {
    if was.len().saturating_mul(is.len()) > WEIGHED_MAX {
        let places: BTreeMap<u32, usize> = is.iter().map(|at| (after[*at].line, *at)).collect();
        let stays = |at: &usize| places.get(&before[*at].line).map(|there| (*at, *there));
        return was.iter().filter_map(stays).collect();
    }
    let columns = is.len() + 1;
    let mut costs = vec![0.0; (was.len() + 1) * columns];
    for row in 0..=was.len() {
        for column in 0..=is.len() {
            let up = (row > 0).then(|| costs[(row - 1) * columns + column] + alone);
            let across = (column > 0).then(|| costs[row * columns + column - 1] + alone);
            let both = (row > 0 && column > 0).then(|| {
                costs[(row - 1) * columns + column - 1] + cost(&before[was[row - 1]], &after[is[column - 1]])
            });
            let least = [up, across, both].into_iter().flatten().min_by(f64::total_cmp);
            costs[row * columns + column] = least.unwrap_or(0.0);
        }
    }
    let (mut row, mut column, mut found) = (was.len(), is.len(), Vec::new());
    while row > 0 && column > 0 {
        let here = costs[row * columns + column];
        let (one, other) = (was[row - 1], is[column - 1]);
        if here == costs[(row - 1) * columns + column - 1] + cost(&before[one], &after[other]) {
            found.push((one, other));
            (row, column) = (row - 1, column - 1);
        } else if here == costs[(row - 1) * columns + column] + alone {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    found
}

fn cost(before: &Spot, after: &Spot) -> f64 {
    let most = before.bytes.max(after.bytes).max(1);
    let differ = before.bytes.abs_diff(after.bytes) as f64 / most as f64;
    differ + if before.line == after.line { 0.0 } else { MOVED }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spot(file: &str, function: &str, line: u32, bytes: u64) -> Spot {
        let place = Place::Line { file: file.into(), line, function: function.into() };
        Spot::of(&place, bytes, "/home/me")
    }

    fn lines(before: &[Spot], after: &[Spot]) -> Vec<(u32, u32)> {
        let line = |spots: &[Spot], at: Option<usize>| at.map_or(0, |at| spots[at].line);
        let mut lines: Vec<(u32, u32)> =
            pairs(before, after).iter().map(|pair| (line(before, pair.0), line(after, pair.1))).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn lines_that_all_moved_by_one_keep_their_partners() {
        let before = [spot("a.py", "f", 10, 800), spot("a.py", "f", 11, 1600), spot("a.py", "f", 12, 5)];
        let after = [spot("a.py", "f", 11, 800), spot("a.py", "f", 12, 1600), spot("a.py", "f", 13, 5)];
        assert_eq!(lines(&before, &after), [(10, 11), (11, 12), (12, 13)]);
    }

    /// What they allocate differs little, so that moving must cost less than that.
    #[test]
    fn similar_lines_that_all_moved_keep_their_partners() {
        let lines_at = |first: u32| -> Vec<Spot> {
            (0..16).map(|n| spot("a.py", "f", first + n, 100_000 + 10_000 * u64::from(n))).collect()
        };
        let expected: Vec<(u32, u32)> = (0..16).map(|n| (3 + n, 4 + n)).collect();
        assert_eq!(lines(&lines_at(3), &lines_at(4)), expected);
    }

    #[test]
    fn lines_of_other_functions_that_need_other_memory_are_no_partners() {
        let before = [spot("a.py", "load", 3, 5_000_000)];
        let after = [spot("a.py", "<module>", 1, 900)];
        assert_eq!(lines(&before, &after), [(0, 1), (3, 0)]);
    }

    #[test]
    fn a_new_line_between_two_is_alone() {
        let before = [spot("a.py", "f", 10, 800), spot("a.py", "f", 20, 1600)];
        let after = [spot("a.py", "f", 10, 800), spot("a.py", "f", 15, 99_999), spot("a.py", "f", 21, 1700)];
        assert_eq!(lines(&before, &after), [(0, 15), (10, 10), (20, 21)]);
    }

    #[test]
    fn other_names_of_functions_folders_and_files_are_seen_through() {
        let before = [
            spot("/home/me/a.py", "f", 10, 800),
            spot("/x/lib/numpy/core.py", "zeros", 5, 70),
            spot("old.py", "solve", 3, 9),
        ];
        let after = [
            spot("a.py", "better_f", 10, 800),
            spot("/y/lib/numpy/core.py", "zeros", 6, 70),
            spot("new.py", "solve", 4, 9),
        ];
        assert_eq!(lines(&before, &after), [(3, 4), (5, 6), (10, 10)]);
    }

    #[test]
    fn imports_and_modules_without_a_line_are_paired_by_name() {
        let import = |package: &str| Spot::of(&Place::Import { package: package.into() }, 5, "");
        let before = [import("numpy"), import("json")];
        let after = [import("scipy"), import("numpy")];
        let found = pairs(&before, &after);
        assert_eq!(found, [(Some(0), Some(1)), (Some(1), None), (None, Some(0))]);
    }

    proptest! {
        #[test]
        fn every_line_is_there_one_time(
            before in prop::collection::vec((0..3usize, 0..3usize, 1..20u32, 0..100u64), 0..30),
            after in prop::collection::vec((0..3usize, 0..3usize, 1..20u32, 0..100u64), 0..30),
        ) {
            let names = ["a.py", "b/a.py", "<string>"];
            let of = |lines: &[(usize, usize, u32, u64)]| -> Vec<Spot> {
                let of = |line: &(usize, usize, u32, u64)| {
                    spot(names[line.0], ["f", "g", "<module>"][line.1], line.2, line.3)
                };
                lines.iter().map(of).collect()
            };
            let found = pairs(&of(&before), &of(&after));
            let mut was: Vec<usize> = found.iter().filter_map(|pair| pair.0).collect();
            let mut is: Vec<usize> = found.iter().filter_map(|pair| pair.1).collect();
            was.sort_unstable();
            is.sort_unstable();
            prop_assert_eq!(was, (0..before.len()).collect::<Vec<_>>());
            prop_assert_eq!(is, (0..after.len()).collect::<Vec<_>>());
        }
    }
}
