//! Schedules of made-up programs: replayed by other code, and compared with what the kernel would do.

use proptest::prelude::*;

use super::lru;
use super::order::ordered;
use super::schedule::{Schedule, schedule};
use super::steps::{Change, Step, Steps};
use crate::placement::plan::{Move, MoveKind};

/// Objects of so many pages that are used in turn; before each use, a small block is allocated and
/// released.
fn cyclic(objects: usize, pages: u64, rounds: usize) -> Steps {
    let mut steps = Steps { pages: vec![pages; objects], ..Steps::default() };
    steps.pages.push(1);
    let mut allocated = |object: usize| {
        steps.objects.push(object);
        Change::Allocated(steps.objects.len() - 1)
    };
    let mut all = vec![Step { changes: (0..objects).map(&mut allocated).collect(), ..Step::default() }];
    for n in 0..objects * rounds {
        let Change::Allocated(block) = allocated(objects) else { continue };
        let changes = vec![Change::Allocated(block), Change::Released(block)];
        all.push(Step { uses: vec![(n % objects, 0)], changes, ..Step::default() });
    }
    steps.steps = all;
    steps
}

#[test]
fn what_is_used_in_turn_moves_in_part() {
    let steps = cyclic(10, 160, 20);
    let planned = schedule(&steps, 10 * 160 * 3 / 4);
    let by_kernel = lru::moved(&steps, 10 * 160 * 3 / 4);
    // All of it in each round.
    assert!(by_kernel.back > 19 * 1600, "{by_kernel:?}");
    // A quarter and a little, in each round.
    let back = planned.moved.back;
    assert!((19 * 400..20 * 500).contains(&back), "{planned:?}");
    // What was only read is written once.
    assert!(planned.moved.written <= 2 * 1600, "{:?}", planned.moved);
    assert_eq!(planned.moved.written + planned.moved.clean, back + away(&planned));
}

#[test]
fn what_is_written_of_a_block_is_written_to_swap() {
    for (written, least, most) in [(160, 1.0, 1.0), (80, 0.45, 0.6), (16, 0.05, 0.2)] {
        let mut steps = cyclic(10, 160, 40);
        steps.steps.iter_mut().flat_map(|step| &mut step.uses).for_each(|each| each.1 = written);
        let moved = schedule(&steps, 10 * 160 / 2).moved;
        let part = moved.written as f64 / (moved.written + moved.clean) as f64;
        assert!((least..=most).contains(&part), "{written} of 160 pages: {moved:?}");
    }
}

/// Pages that are in swap at the end.
fn away(schedule: &Schedule) -> u64 {
    let pages = |each: &Move| match each.kind {
        MoveKind::Out => i64::from(each.pages),
        MoveKind::In => -i64::from(each.pages),
        MoveKind::Trim => 0,
    };
    schedule.moves.iter().map(pages).sum::<i64>() as u64
}

#[test]
fn nothing_moves_where_all_fits() {
    let steps = cyclic(10, 160, 3);
    assert_eq!(schedule(&steps, 1601).moves, []);
    assert_eq!(lru::moved(&steps, 1616).back, 0);
}

#[test]
fn what_does_not_fit_together_is_said() {
    let mut steps = cyclic(3, 160, 2);
    steps.steps[2].uses = vec![(0, 0), (1, 160), (2, 0)];
    let missing = schedule(&steps, 400).missing;
    assert_eq!(missing, Some((81, 4)), "with the small block's");
}

#[test]
fn the_order_within_a_step_is_that_of_other_turns() {
    // Looks of different lengths: the same turns are cut elsewhere each time.
    let whole = cyclic(12, 160, 30);
    let mut steps = Steps { steps: whole.steps[..1].to_vec(), ..whole.clone() };
    let mut rest = &whole.steps[1..];
    for length in [5, 3, 4, 5, 2].iter().cycle() {
        let (some, others) = rest.split_at((*length).min(rest.len()));
        let mut step = Step::default();
        for each in some {
            step.uses.extend(&each.uses);
            step.changes.extend(&each.changes);
        }
        // A look falls into a use, now and then, or before a release.
        match steps.steps.len() % 8 {
            3 => steps.steps.last_mut().unwrap().uses.push(some[0].uses[0]),
            5 => step.begins_late = true,
            _ => {}
        }
        step.uses.sort_unstable();
        steps.steps.push(step);
        rest = others;
        if rest.is_empty() {
            break;
        }
    }
    let coarse = schedule(&steps, 12 * 160 / 2);
    let parts = ordered(steps);
    // The first step has the allocations of all.
    let turns = parts.steps.len() - (whole.steps.len() - 1);
    assert_eq!(turns, 12);
    // Each object is among those of its part, and mostly alone there.
    let both = || parts.steps[turns..].iter().zip(&whole.steps[1..]);
    for (part, exact) in both() {
        assert!(exact.uses.iter().all(|each| part.uses.contains(each)), "{part:?} without {exact:?}");
    }
    let alone = both().filter(|(part, exact)| part.uses == exact.uses).count();
    assert!(3 * alone >= 2 * 12 * 30, "{alone} of {}", 12 * 30);
    let fine = schedule(&parts, 12 * 160 / 2);
    assert!(fine.moved.back < coarse.moved.back, "{:?}, {:?}", fine.moved, coarse.moved);
}

#[test]
fn a_use_that_was_not_seen_is_where_turns_have_it() {
    let mut steps = cyclic(8, 160, 20);
    // The last use is followed by the release of the block, and no look.
    let last = steps.steps.len() - 1;
    let (object, _) = steps.steps[last].uses.pop().unwrap();
    let early = object - 1;
    steps.steps[last].unseen = vec![(early, true), (object, false)];
    steps.steps[last].changes.push(Change::Released(object));
    let parts = ordered(steps).steps;
    let uses = parts.last().map(|part| part.uses.as_slice());
    assert_eq!(uses, Some([(object, 0)].as_slice()), "{early} was used a part before");
}

#[test]
fn what_may_not_be_filled_yet_is_not_moved() {
    use Change::{Allocated, Released};
    // The look is at the end of the step.
    let changes = vec![Allocated(0), Allocated(1), Released(0), Allocated(2), Allocated(3)];
    let step = Step { changes, ..Step::default() };
    let next = Step { changes: vec![Allocated(4)], ..Step::default() };
    let (objects, pages) = ((0..5).collect(), vec![100; 5]);
    let parts = ordered(Steps { steps: vec![step, next], objects, pages, ..Steps::default() });
    let used = |part: &Step| part.uses.iter().map(|(object, _)| *object).collect::<Vec<_>>();
    let used: Vec<Vec<usize>> = parts.steps.iter().map(used).collect();
    assert_eq!(used, [vec![], vec![0], vec![1], vec![1, 2], vec![]]);
    let Schedule { moves, missing, .. } = schedule(&parts, 250);
    assert_eq!(missing, Some((50, 3)));
    assert!(!moves.is_empty() && moves.iter().all(|each| each.block == 4), "{moves:?}");
}

#[test]
fn what_was_used_shortly_before_its_release_is_used_until_then_where_no_turns_tell() {
    let mut steps = cyclic(8, 160, 1);
    let last = steps.steps.len() - 1;
    steps.steps[last].unseen = vec![(0, false), (6, true)];
    steps.steps[last].changes.extend([Change::Released(0), Change::Released(6)]);
    let parts = ordered(steps).steps;
    assert_eq!(parts.last().map(|part| part.uses.as_slice()), Some([(7, 0), (6, 0)].as_slice()));
}

/// Programs: objects come, are used and go.
fn programs() -> impl Strategy<Value = Steps> {
    let object = 0usize..6;
    let use_or_not = prop::collection::vec((object, 0u64..=200), 0..3);
    let changes = prop::collection::vec(0usize..6, 0..4);
    let steps = prop::collection::vec((use_or_not, changes), 1..40);
    (prop::collection::vec(1u64..200, 6), steps).prop_map(|(pages, made)| {
        let mut steps = Steps { pages, ..Steps::default() };
        let mut live: [Option<usize>; 6] = [None; 6];
        for (uses, changes) in made {
            let mut step = Step::default();
            for (object, written) in uses {
                let is_new = step.uses.iter().all(|(other, _)| *other != object);
                if live[object].is_some() && is_new {
                    step.uses.push((object, written.min(steps.pages[object])));
                }
            }
            for object in changes {
                let change = match live[object].take() {
                    Some(block) => Change::Released(block),
                    None => {
                        steps.objects.push(object);
                        live[object] = Some(steps.objects.len() - 1);
                        Change::Allocated(steps.objects.len() - 1)
                    }
                };
                step.changes.push(change);
            }
            steps.steps.push(step);
        }
        steps
    })
}

fn allocation(block: usize) -> Step {
    Step { changes: vec![Change::Allocated(block)], ..Step::default() }
}

#[test]
fn all_that_one_step_misses_is_told() {
    let together = Step { uses: vec![(0, 0), (1, 0), (2, 0)], ..allocation(3) };
    let steps = Steps {
        steps: vec![allocation(0), allocation(1), allocation(2), together],
        objects: vec![0, 1, 2, 3],
        pages: vec![100, 100, 100, 1],
        ..Steps::default()
    };
    assert_eq!(schedule(&steps, 150).missing, Some((151, 3)));
    assert_eq!(schedule(&steps, 301).missing, None);
}

#[test]
fn what_a_step_needs_counts_once_in_all_its_parts() {
    let first = Step { uses: vec![(0, 0), (1, 0)], ..allocation(4) };
    let second = Step { uses: vec![(1, 0), (2, 0), (3, 0)], continues: true, ..allocation(5) };
    let mut steps = Steps {
        steps: (0..4).map(allocation).chain([first, second]).collect(),
        objects: (0..6).collect(),
        pages: vec![100, 100, 100, 100, 1, 1],
        ..Steps::default()
    };
    assert_eq!(schedule(&steps, 150).unplanned.back, 402);
    steps.steps[5].continues = false;
    assert_eq!(schedule(&steps, 150).unplanned.back, 502);
}

proptest! {
    #[test]
    fn schedules_keep_what_is_used_and_fit(steps in programs(), room in 100u64..1000) {
        let schedule = schedule(&steps, room);
        let mut moves = schedule.moves.iter().peekable();
        let mut resident: [Option<u64>; 6] = [None; 6];
        for step in &steps.steps {
            let mut is_first = true;
            for change in &step.changes {
                match *change {
                    Change::Allocated(block) => {
                        while let Some(each) = moves.next_if(|each| each.block as usize == block) {
                            replay(&mut resident, each, schedule.missing.is_none())?;
                        }
                        resident[steps.objects[block]] = Some(steps.pages[steps.objects[block]]);
                        if is_first && schedule.missing.is_none() {
                            for (object, _) in &step.uses {
                                let is_there = resident[*object].is_none_or(|pages| pages == steps.pages[*object]);
                                prop_assert!(is_there, "{object} is used and away");
                            }
                        }
                        is_first = false;
                        if schedule.missing.is_none() {
                            prop_assert!(resident.iter().flatten().sum::<u64>() <= room);
                        }
                    }
                    Change::Released(block) => resident[steps.objects[block]] = None,
                }
            }
        }
        prop_assert!(moves.next().is_none(), "a move that no block comes after");
        lru::moved(&steps, room);
    }
}

fn replay(resident: &mut [Option<u64>; 6], each: &Move, fits: bool) -> Result<(), TestCaseError> {
    let Some(pages) = &mut resident[each.object as usize] else {
        prop_assert!(each.kind == MoveKind::Trim, "a block that is not live moves");
        return Ok(());
    };
    let (first, count) = (u64::from(each.first), u64::from(each.pages));
    match each.kind {
        MoveKind::Out => {
            prop_assert!(first + count == *pages || !fits);
            *pages = first.min(*pages);
        }
        MoveKind::In => {
            prop_assert_eq!(first, *pages);
            *pages += count;
        }
        MoveKind::Trim => {}
    }
    Ok(())
}
