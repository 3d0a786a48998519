//! When objects are used within a step. A look says which are used until the next one, not when; but a
//! program does the same turn after turn, and looks fall elsewhere in each of them. The clock is the
//! number of large blocks that were allocated. Uses of the same object in other turns, moved by whole
//! turns, lie where this one does: what most of their steps have in common is its place.

use std::collections::{BTreeSet, VecDeque};

use super::steps::{Change, Step, Steps};

/// Uses before and after the one in question that are compared with it.
const NEIGHBOURS: usize = 16;
/// If so many uses agree, all of them, the place is sure.
const SURE: usize = 8;
/// An object that is used in a step and in the next one so often is used all the time, not in turn.
const MOST_ADJACENT: f64 = 0.25;
/// A turn has so many uses of an object at most.
const MOST_IN_TURN: usize = 4;
/// So many of an object's uses have to be a turn apart.
const REGULAR: f64 = 0.75;
/// A turn that may be so many parts longer is not measured more exactly.
const MOST_UNSURE: i64 = 16;
/// Of the blocks that a step has allocated so far, the last ones may not be filled yet, at most so many:
/// older ones count as filled.
const MOST_FRESH: usize = 64;
/// Uses in all parts of all steps, at most: more are left as they are.
const MOST_USES: usize = 20_000_000;

/// The steps, each cut into parts where a block is allocated, with the objects that are used from there
/// on. Where its turns do not tell in which parts an object is used, it is used in all of its step's;
/// otherwise in those, and, if not all turns agree, in the ones beside them. What a step allocates is
/// used in the rest of it.
pub fn ordered(steps: Steps) -> Steps {
    let count = |step: &Step| {
        let parts = parts(step);
        (step.uses.len() + step.unseen.len() + parts.min(MOST_FRESH)) * parts
    };
    let mut parts: Vec<Step> = if steps.steps.iter().map(count).sum::<usize>() > MOST_USES {
        steps.steps.into_iter().map(whole).collect()
    } else {
        let turns = Turns::of(&steps);
        let cut = |(index, step): (usize, &Step)| cut(step, &steps, index, &turns);
        steps.steps.iter().enumerate().flat_map(cut).collect()
    };
    extend(&mut parts);
    Steps { steps: parts, ..steps }
}

/// What a part uses before it allocates a block, the part before has to have in memory, too.
fn extend(parts: &mut [Step]) {
    for index in 1..parts.len() {
        let [before, part] = &mut parts[index - 1..=index] else { continue };
        if part.begins_late {
            let known: BTreeSet<usize> = before.uses.iter().map(|(object, _)| *object).collect();
            before.uses.extend(part.uses.iter().filter(|(object, _)| !known.contains(object)));
        }
    }
}

fn is_allocation(change: &Change) -> bool {
    matches!(change, Change::Allocated(_))
}

/// How many parts a step has.
fn parts(step: &Step) -> usize {
    step.changes.iter().filter(|change| is_allocation(change)).count().max(1)
}

/// A step that is not cut.
fn whole(mut step: Step) -> Step {
    step.uses.extend(step.unseen.iter().filter(|(_, used)| *used).map(|(object, _)| (*object, 0)));
    step
}

fn cut(step: &Step, steps: &Steps, index: usize, turns: &Turns) -> Vec<Step> {
    let mut cut = divided(step, steps);
    let parts = cut.len();
    let fresh: Vec<usize> = cut.iter().map(|part| part.uses.len()).collect();
    let mut add = |(first, last): (usize, usize), each: (usize, u64)| {
        for (part, fresh) in cut[first..=last].iter_mut().zip(&fresh[first..=last]) {
            if part.uses[..*fresh].iter().all(|(object, _)| *object != each.0) {
                part.uses.push(each);
            }
        }
    };
    for each in &step.uses {
        add(turns.place(index, each.0, parts), *each);
    }
    for (object, used) in &step.unseen {
        if let Some(place) = turns.expected(index, *object, *used, parts) {
            add(place, (*object, 0));
        }
    }
    cut
}

/// The parts of a step, with the uses of what it allocates: when the program fills a block is not known,
/// so it uses it until the block is released or the step ends.
fn divided(step: &Step, steps: &Steps) -> Vec<Step> {
    let Steps { objects, pages, .. } = steps;
    let mut parts = vec![Step { begins_late: step.begins_late, ..Step::default() }];
    let mut has_begun = false;
    let mut fresh: VecDeque<usize> = VecDeque::new();
    for change in &step.changes {
        if is_allocation(change) && std::mem::replace(&mut has_begun, true) {
            let uses = fresh.iter().map(|object| (*object, pages[*object])).collect();
            parts.push(Step { continues: true, uses, ..Step::default() });
        }
        let (Change::Allocated(block) | Change::Released(block)) = *change;
        fresh.retain(|object| *object != objects[block]);
        if is_allocation(change) {
            fresh.push_back(objects[block]);
            fresh.drain(..fresh.len().saturating_sub(MOST_FRESH));
        }
        parts.last_mut().into_iter().for_each(|part| part.changes.push(*change));
    }
    parts
}

/// A use of an object, in one of these parts of all.
#[derive(Debug, Clone, Copy)]
struct Use {
    first: i64,
    last: i64,
    /// A look fell into it: two steps have it.
    is_split: bool,
}

/// How an object's uses repeat.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// So many uses are a turn.
    uses: usize,
    /// And so many parts, at least and at most.
    least: i64,
    most: i64,
}

/// The uses of all objects.
struct Turns {
    /// Position of each step's first part among all.
    begins: Vec<i64>,
    uses: Vec<Vec<Use>>,
    turns: Vec<Option<Turn>>,
}

impl Turns {
    fn of(steps: &Steps) -> Turns {
        let mut uses: Vec<Vec<Use>> = vec![Vec::new(); steps.pages.len()];
        let mut adjacent = vec![0usize; steps.pages.len()];
        let (mut begins, mut begin) = (Vec::new(), 0);
        for step in &steps.steps {
            let next = begin + parts(step) as i64;
            // What is used before the block is allocated is used in the part before.
            let first = begin - i64::from(step.begins_late);
            for (object, _) in &step.uses {
                match uses[*object].last_mut() {
                    Some(before) if before.last + 1 == begin => {
                        adjacent[*object] += 1;
                        *before = Use { first: before.first, last: next - 1, is_split: true };
                    }
                    _ => uses[*object].push(Use { first, last: next - 1, is_split: false }),
                }
            }
            begins.push(begin);
            begin = next;
        }
        let turn = |(uses, adjacent): (&Vec<Use>, &usize)| {
            let is_in_turn = *adjacent as f64 <= MOST_ADJACENT * (uses.len() + adjacent) as f64;
            (1..=MOST_IN_TURN).filter(|_| is_in_turn).find_map(|count| turn(uses, count))
        };
        let turns = uses.iter().zip(&adjacent).map(turn).collect();
        Turns { begins, uses, turns }
    }

    /// In which of a step's parts an object is used, and the parts beside them.
    fn place(&self, step: usize, object: usize, parts: usize) -> (usize, usize) {
        let whole = (0, parts - 1);
        let begin = self.begins[step];
        let uses = &self.uses[object];
        let at = uses.partition_point(|each| each.first <= begin).saturating_sub(1);
        let Some(turn) = self.turns[object].filter(|_| parts > 1 && !uses[at].is_split) else {
            return whole;
        };
        told(&neighbours(uses, at, turn), begin, parts).unwrap_or(whole)
    }

    /// In which of a step's parts an object is used, if in any, where it was not looked: by its turns, or
    /// in all of them if it was used shortly before and turns do not tell.
    fn expected(&self, step: usize, object: usize, used: bool, parts: usize) -> Option<(usize, usize)> {
        let begin = self.begins[step];
        let before = self.uses[object].partition_point(|each| each.first < begin);
        let others = self.turns[object]
            .map_or(Vec::new(), |turn| neighbours(&self.uses[object][..before], before, turn));
        let end = begin + parts as i64;
        let here = others.iter().filter(|(first, last)| *first < end && *last >= begin).count();
        let is_elsewhere = !others.is_empty() && 2 * here <= others.len();
        told(&others, begin, parts).or_else(|| (used && !is_elsewhere).then_some((0, parts - 1)))
    }
}

/// The parts of a step, which begins here, that most of the ranges have in common; and those beside
/// them, unless all of many ranges agree.
fn told(ranges: &[(i64, i64)], begin: i64, parts: usize) -> Option<(usize, usize)> {
    let cover = |part: usize| {
        let position = begin + part as i64;
        ranges.iter().filter(|(first, last)| (*first..=*last).contains(&position)).count()
    };
    let covers: Vec<usize> = (0..parts).map(cover).collect();
    let most = covers.iter().copied().max().filter(|most| 2 * most > ranges.len())?;
    let first = covers.iter().position(|cover| *cover == most)?;
    let last = covers.iter().rposition(|cover| *cover == most)?;
    let beside = usize::from(most < ranges.len() || most < SURE);
    Some((first.saturating_sub(beside), (last + beside).min(parts - 1)))
}

/// The turn that so many uses make, if most of them are that far apart: the parts by which most uses are
/// apart from those a turn later.
fn turn(uses: &[Use], count: usize) -> Option<Turn> {
    let pairs = uses.iter().zip(uses.get(count..)?).filter(|(one, other)| !one.is_split && !other.is_split);
    // Where another pair can be so far apart, and where it cannot any more.
    let mut ends: Vec<(i64, i64)> = Vec::new();
    for (one, other) in pairs {
        ends.push((other.first - one.last, 1));
        ends.push((other.last - one.first + 1, -1));
    }
    ends.sort_unstable();
    let (mut now, mut most, mut range) = (0, 0, (0, 0));
    for (index, (apart, change)) in ends.iter().enumerate() {
        now += change;
        if now > most {
            most = now;
            range = (*apart, ends.get(index + 1).map_or(*apart, |(end, _)| end - 1));
        }
    }
    let is_regular = most > 1 && 2.0 * most as f64 >= REGULAR * ends.len() as f64;
    is_regular.then(|| nearer(Turn { uses: count, least: range.0, most: range.1 }, uses))
}

/// The same turn, as uses several turns apart have it: what a turn may be longer or shorter by adds up.
fn nearer(turn: Turn, uses: &[Use]) -> Turn {
    if turn.most - turn.least > MOST_UNSURE {
        return turn;
    }
    let known = |index: usize| uses.get(index).filter(|each| !each.is_split);
    let fits = |parts: i64| {
        let fit = |at: usize, away: usize| {
            let (Some(one), Some(other)) = (known(at), known(at + away * turn.uses)) else { return false };
            (other.first - one.last..=other.last - one.first).contains(&(away as i64 * parts))
        };
        (0..uses.len()).map(|at| (1..=NEIGHBOURS).filter(|away| fit(at, *away)).count()).sum::<usize>()
    };
    let all: Vec<(i64, usize)> = (turn.least - 1..=turn.most + 1).map(|parts| (parts, fits(parts))).collect();
    let most = all.iter().map(|(_, fits)| *fits).max().unwrap_or(0);
    let mut best = all.iter().filter(|(_, fits)| *fits == most).map(|(parts, _)| *parts);
    let least = best.next().unwrap_or(turn.least);
    Turn { least, most: best.next_back().unwrap_or(least), ..turn }
}

/// Where uses of other turns say that a use is: first and last part.
fn neighbours(uses: &[Use], at: usize, turn: Turn) -> Vec<(i64, i64)> {
    let known = |index: usize| uses.get(index).filter(|each| !each.is_split);
    let mut told = Vec::new();
    for away in 1..=NEIGHBOURS {
        let parts = (away as i64 * turn.least, away as i64 * turn.most);
        let before = at.checked_sub(away * turn.uses).and_then(known);
        told.extend(before.map(|each| (each.first + parts.0, each.last + parts.1)));
        let after = known(at + away * turn.uses);
        told.extend(after.map(|each| (each.first - parts.1, each.last - parts.0)));
    }
    told
}
