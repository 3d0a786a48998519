//! In which order objects are used within a step. A look says which are used until the next one, not
//! when; but a program does the same again and again, and looks fall between other uses each time. What
//! was used in an earlier step than something else then is used before it now.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::steps::{Change, Step, Steps};

/// Uses of two objects before and after the ones in question that are compared.
const NEIGHBOURS: isize = 16;
/// Steps that two uses of one turn are apart at most.
const NEAR: usize = 2;
/// An object that is used in a step and in the next one so often is used all the time, not in turn.
const MOST_ADJACENT: f64 = 0.25;
/// For each use that tells another order, so many have to tell this one.
const AGREEMENT: u32 = 4;
/// Of steps with more objects, the order is left open.
const MOST_OBJECTS: usize = 64;
/// Uses of all steps, at most: more are left as they are.
const MOST_USES: usize = 20_000_000;

/// The steps, each cut where a block is allocated, with the objects that are used from there on. Where
/// the order is not known, an object is used in all parts of its step; otherwise in the part that its
/// turn is in, and in those beside it.
pub fn ordered(steps: Steps) -> Steps {
    let count = |step: &Step| step.uses.len() * allocations(step);
    let mut parts = if steps.steps.iter().map(count).sum::<usize>() > MOST_USES {
        steps.steps
    } else {
        let turns = Turns::of(&steps);
        let cut = |(index, step)| cut(step, &turns.order(index, step));
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

fn allocations(step: &Step) -> usize {
    step.changes.iter().filter(|change| matches!(change, Change::Allocated(_))).count()
}

/// The parts of a step. `order` has the rank of each of its uses among those that have one.
fn cut(step: &Step, order: &[Option<usize>]) -> Vec<Step> {
    let count = allocations(step).max(1);
    let ranks = order.iter().flatten().count();
    let mut parts: Vec<Step> = Vec::with_capacity(count);
    for change in &step.changes {
        let begins =
            matches!(change, Change::Allocated(_)) && parts.last().is_some_and(|part| allocations(part) > 0);
        if parts.is_empty() || begins {
            parts.push(Step::default());
        }
        parts.last_mut().into_iter().for_each(|part| part.changes.push(*change));
    }
    if parts.is_empty() {
        parts.push(Step::default());
    }
    parts[0].begins_late = step.begins_late;
    for (each, rank) in step.uses.iter().zip(order) {
        let (first, last) = match rank {
            Some(rank) => {
                let turn = rank * count / ranks;
                (turn.saturating_sub(1), (turn + 1).min(count - 1))
            }
            None => (0, count - 1),
        };
        parts[first..=last].iter_mut().for_each(|part| part.uses.push(*each));
    }
    parts
}

/// When objects are used.
struct Turns {
    /// Of each object the steps, one for each turn.
    steps: Vec<Vec<usize>>,
    /// Objects that are used in turn.
    in_turn: Vec<bool>,
}

/// A use that two steps have, because a look fell into it, is one: the later of them.
fn merge_adjacent(steps: &mut Vec<usize>) {
    let is_last = |index: usize| steps.get(index + 1) != Some(&(steps[index] + 1));
    *steps = (0..steps.len()).filter(|index| is_last(*index)).map(|index| steps[index]).collect();
}

impl Turns {
    fn of(steps: &Steps) -> Turns {
        let mut used = vec![Vec::new(); steps.pages.len()];
        for (index, step) in steps.steps.iter().enumerate() {
            step.uses.iter().for_each(|(object, _)| used[*object].push(index));
        }
        let is_in_turn = |steps: &Vec<usize>| {
            let adjacent = steps.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            adjacent as f64 <= MOST_ADJACENT * steps.len() as f64
        };
        let in_turn = used.iter().map(is_in_turn).collect();
        used.iter_mut().for_each(merge_adjacent);
        Turns { in_turn, steps: used }
    }

    /// The rank of each use of a step; `None` where it is not known.
    fn order(&self, index: usize, step: &Step) -> Vec<Option<usize>> {
        let mut order = vec![None; step.uses.len()];
        if allocations(step) < 2 || step.uses.len() > MOST_OBJECTS {
            return order;
        }
        let places: Vec<usize> =
            (0..step.uses.len()).filter(|place| self.in_turn[step.uses[*place].0]).collect();
        let is_before = |one: usize, other: usize| self.votes(index, step.uses[one].0, step.uses[other].0);
        let mut scores: Vec<(i64, usize)> = Vec::new();
        for place in &places {
            let votes: Vec<i64> = places
                .iter()
                .filter(|other| *other != place)
                .map(|other| is_before(*place, *other))
                .collect();
            // One that nothing is known of against most others has no rank.
            let known = votes.iter().filter(|vote| **vote != 0).count();
            if 2 * known >= votes.len() && known > 0 {
                scores.push((-votes.iter().sum::<i64>(), *place));
            }
        }
        scores.sort_unstable();
        scores.iter().enumerate().for_each(|(rank, (_, place))| order[*place] = Some(rank));
        order
    }

    /// 1 if the uses around a step say that the one object comes first, −1 if they say that of the other
    /// one, 0 if they say neither, or now this and now that: as where a program goes forward and back.
    fn votes(&self, index: usize, one: usize, other: usize) -> i64 {
        let (ours, theirs) = (&self.steps[one], &self.steps[other]);
        let at = |steps: &[usize]| steps.partition_point(|step| *step < index) as isize;
        let (here, there) = (at(ours), at(theirs));
        let near = |steps: &[usize], place: isize| {
            usize::try_from(place).ok().and_then(|place| steps.get(place).copied())
        };
        let orders = (-NEIGHBOURS..=NEIGHBOURS)
            .filter_map(|away| near(ours, here + away).zip(near(theirs, there + away)))
            .filter(|(our, their)| our.abs_diff(*their) <= NEAR)
            .map(|(our, their)| our.cmp(&their));
        let (mut first, mut last) = (0u32, 0u32);
        for order in orders {
            first += u32::from(order == Ordering::Less);
            last += u32::from(order == Ordering::Greater);
        }
        match () {
            () if first > AGREEMENT * last => 1,
            () if last > AGREEMENT * first => -1,
            () => 0,
        }
    }
}
