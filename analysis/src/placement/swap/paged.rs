//! What a watched run says of a program, and plans made of it.

use std::cmp::Reverse;

use memtrace_trace::Trace;

use super::machine::Machine;
use super::order::ordered;
use super::schedule::{Schedule, schedule};
use super::steps::Steps;
use super::{PAGE, held, lru};
use crate::placement::Error;
use crate::placement::object::{Object, Where};
use crate::placement::observed::{Block, Key, Observed};
use crate::placement::plan::{
    MOST_BLOCKS, MOST_MOVES, MoveKind, PLAN_VERSION, Plan, Program, RUN_ERROR, Seconds, Tiers, Traffic,
};
use crate::profile::places;
use crate::units::Bytes;

/// What is left free: a share of the memory, and some bytes.
const SPARE_SHARE: u64 = 64;
const SPARE_BYTES: u64 = 2 << 20;
/// A run may correct what moves cost by this factor, up or down.
const MOST_CORRECTION: f64 = 4.0;

/// A run with less than this share of its memory in swap was in memory.
const SWAPPED_SHARE: f64 = 0.01;
/// Where uses leave more than this share of their blocks alone, plans say so.
const NOTED_SHARE: f64 = 0.1;
/// So does the plan of a program that is not seen for such a share of its time.
const NOTED_GAP: f64 = 0.25;

/// What was learned of a program that is to take less memory.
pub struct Paged {
    program: Program,
    /// CPU seconds of a run with all in memory.
    seconds: f64,
    objects: Vec<Object>,
    blocks: Vec<Block>,
    /// What it uses when, cut where blocks are allocated.
    parts: Steps,
    /// Bytes that belong to none of its large blocks.
    other_bytes: u64,
    /// What moves cost, as a share of what the machine's costs say.
    correction: f64,
}

impl Paged {
    /// From a run with all blocks in memory, and one that was watched.
    ///
    /// # Errors
    /// A table cannot be read, or the traces are not those of two such runs.
    pub fn of(plain: &Trace, watched: &Trace) -> Result<Paged, Error> {
        let meta = plain.meta();
        if meta.command != watched.meta().command {
            return Err(Error::Learned("the two traces are of different commands".into()));
        }
        let Some((user_ns, system_ns)) = meta.user_ns.zip(meta.system_ns).filter(|_| meta.is_whole()) else {
            return Err(Error::Learned("the run in memory was not recorded to its end".into()));
        };
        if held::most_in_swap(plain)? > SWAPPED_SHARE * meta.peak.resident_bytes as f64 {
            return Err(Error::Learned(
                "the program was swapped in the run that was to be in memory: give it more memory".into(),
            ));
        }
        let observed = Observed::read(watched, None)?;
        if observed.blocks.is_empty() {
            return Err(Error::Request(
                "the program has no large blocks that can be moved: there is nothing to plan".into(),
            ));
        }
        let steps = Steps::read(watched, &observed, observed.process)?;
        let other_bytes = steps.other_bytes(watched, &observed, observed.process)?;
        let places = places::places(watched, observed.objects.iter().filter_map(|key| key.site))?;
        let mut blocks = vec![0u64; observed.objects.len()];
        observed.blocks.iter().for_each(|block| blocks[block.object] += 1);
        let mut met = vec![0usize; observed.objects.len()];
        observed.samples.iter().filter_map(|sample| sample.object).for_each(|object| met[object] += 1);
        let object = |(index, key): (usize, &Key)| Object {
            site: key.site,
            place: key.site.and_then(|site| places.get(&site).cloned()),
            bytes: key.bytes,
            ordinal: key.ordinal,
            blocks: blocks[index],
            time_share: met[index] as f64 / observed.samples.len().max(1) as f64,
            gain_seconds: 0.0,
            gain_error_seconds: 0.0,
            middle: None,
            tier: Where::Fast,
            moved_bytes: 0,
        };
        Ok(Paged {
            seconds: (user_ns + system_ns) as f64 / 1e9,
            objects: observed.objects.iter().enumerate().map(object).collect(),
            parts: ordered(steps),
            other_bytes,
            program: observed.program,
            blocks: observed.blocks,
            correction: 1.0,
        })
    }

    /// A run of one of its plans took this many CPU seconds: later plans count it in.
    pub fn ran(&mut self, plan: &Plan, seconds: f64) {
        let told = plan.seconds.planned - plan.seconds.fast;
        if told > RUN_ERROR * plan.seconds.fast {
            let measured = (seconds - plan.seconds.fast).max(0.0) / told;
            let corrected = self.correction * measured;
            self.correction = corrected.clamp(1.0 / MOST_CORRECTION, MOST_CORRECTION);
        }
    }

    /// The plan by which the program takes no more than so many bytes.
    ///
    /// # Errors
    /// The bytes are too few for what is never moved, or the program has too many blocks.
    pub fn plan(&self, bytes: u64, tiers: Tiers, machine: &Machine) -> Result<Plan, Error> {
        let spare = bytes / SPARE_SHARE + SPARE_BYTES;
        let Some(room) = bytes.checked_sub(self.other_bytes + spare).filter(|room| *room > 0) else {
            return Err(Error::Request(format!(
                "the program takes {} beside its large blocks, which are never moved; give --fast more",
                Bytes(self.other_bytes + spare)
            )));
        };
        let schedule = schedule(&self.parts, room / PAGE);
        if self.blocks.len() > MOST_BLOCKS || schedule.moves.len() > MOST_MOVES {
            return Err(Error::Request(format!(
                "the program allocates {} large blocks, and {} moves would be made: more than there is room \
                 for in a plan",
                self.blocks.len(),
                schedule.moves.len()
            )));
        }
        let of_kernel = lru::moved(&self.parts, (bytes - self.other_bytes) / PAGE);
        let slow = self.correction * machine.kernel_seconds(&of_kernel);
        let planned = self.correction * machine.planned_seconds(&schedule.moved);
        let mut plan = Plan {
            plan_version: PLAN_VERSION,
            program: self.program.clone(),
            tiers,
            middle: None,
            fast_bytes: bytes,
            used_bytes: schedule.most * PAGE + self.other_bytes,
            seconds: Seconds {
                slow: self.seconds + slow,
                fast: self.seconds,
                planned: self.seconds + planned,
                uncertainty: self.uncertainty(&schedule, machine, planned, slow),
            },
            traffic: Some(Traffic { kernel: of_kernel.moved(), planned: schedule.moved.moved() }),
            worth: false,
            notes: Vec::new(),
            objects: self.objects.clone(),
            blocks: Vec::new(),
            moves: Vec::new(),
            alternatives: Vec::new(),
        };
        self.judge(&mut plan, &schedule, machine);
        if plan.worth {
            plan.moves = schedule.moves;
        }
        self.order(&mut plan);
        Ok(plan)
    }

    /// Half the width of an interval, of runs that move pages for so many seconds, where the kernel alone
    /// does for others. Of a step whose needs do not fit, the kernel may move all. Estimates count blocks
    /// in whole: of what is not used of them, the kernel moves nothing.
    fn uncertainty(&self, schedule: &Schedule, machine: &Machine, of_moves: f64, of_kernel: f64) -> f64 {
        let unplanned = self.correction * machine.kernel_seconds(&schedule.unplanned);
        let in_part = self.parts.unused_share * of_kernel;
        2.0 * (RUN_ERROR * self.seconds).hypot(machine.spread() * of_moves) + unplanned + in_part
    }

    /// Whether it is worth it, and why.
    fn judge(&self, plan: &mut Plan, schedule: &Schedule, machine: &Machine) {
        let Seconds { slow, fast, planned, .. } = plan.seconds;
        let gain = slow - planned;
        let has_moves = schedule.moves.iter().any(|each| each.kind != MoveKind::Trim);
        if !has_moves && (schedule.missing.is_none() || slow <= fast) {
            plan.notes
                .push(format!("the program fits into {}: nothing has to be moved", Bytes(plan.fast_bytes)));
            return;
        }
        let uncertain = self.uncertainty(schedule, machine, gain, slow - fast);
        plan.worth = has_moves && gain > uncertain;
        if has_moves && !plan.worth {
            plan.notes.push(format!(
                "moves as planned gain {gain:.2} s over those of the kernel, less than the {uncertain:.2} s \
                 that this is uncertain by: nothing is moved"
            ));
        }
        if self.parts.unused_share > NOTED_SHARE {
            plan.notes.push(format!(
                "the program uses its blocks in part, {:.0} % of their bytes at a time: estimates count them \
                 in whole",
                100.0 * (1.0 - self.parts.unused_share)
            ));
        }
        if self.parts.longest_gap > NOTED_GAP {
            plan.notes.push(format!(
                "the program allocates no large block in {:.0} % of its time: all that it uses then counts as \
                 used once, and the kernel may take far longer than estimated",
                100.0 * self.parts.longest_gap
            ));
        }
        if let Some((pages, block)) = schedule.missing {
            let place = self.objects[self.blocks[block].object].place.as_deref();
            plan.notes.push(format!(
                "what the program uses together at {} is {} more than fits{}",
                place.unwrap_or("an unknown place"),
                Bytes(pages * PAGE),
                if has_moves { "" } else { ": nothing is moved" }
            ));
        }
    }

    /// Notes what is moved of each object, and sorts them by that.
    fn order(&self, plan: &mut Plan) {
        for each in plan.moves.iter().filter(|each| each.kind == MoveKind::Out) {
            let object = &mut plan.objects[each.object as usize];
            object.tier = Where::Slow;
            object.moved_bytes += u64::from(each.pages) * PAGE;
        }
        let mut sorted: Vec<usize> = (0..plan.objects.len()).collect();
        sorted.sort_by_key(|index| {
            let object = &plan.objects[*index];
            Reverse((object.moved_bytes, object.bytes, Reverse(*index)))
        });
        plan.arrange(&sorted, &self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::swap::machine::{Content, MACHINE_VERSION};
    use crate::placement::swap::steps::{Change, Step};

    /// A program with three objects of 16 MiB: steps that allocate these of them, then steps that use
    /// some, with a small block before.
    fn paged(firsts: &[&[usize]], uses: &[&[usize]], unused_share: f64) -> Paged {
        let block = |index: usize| Block { object: index, alloc_ns: 0, free_ns: None, address: index as u64 };
        let object = Object {
            site: None,
            place: None,
            bytes: 256 * PAGE,
            ordinal: 0,
            blocks: 1,
            time_share: 0.0,
            gain_seconds: 0.0,
            gain_error_seconds: 0.0,
            middle: None,
            tier: Where::Fast,
            moved_bytes: 0,
        };
        let mut objects = vec![0, 1, 2];
        let mut steps: Vec<Step> = firsts
            .iter()
            .map(|blocks| Step {
                changes: blocks.iter().copied().map(Change::Allocated).collect(),
                ..Step::default()
            })
            .collect();
        for uses in uses {
            let block = objects.len();
            objects.push(3);
            steps.push(Step {
                uses: uses.iter().map(|object| (*object, 0)).collect(),
                changes: vec![Change::Allocated(block), Change::Released(block)],
                ..Step::default()
            });
        }
        Paged {
            program: Program { path: "/p".into(), before: 0, command: "p".into() },
            seconds: 1.0,
            objects: vec![object; 4],
            blocks: (0..objects.len()).map(|index| block(objects[index])).collect(),
            parts: Steps { steps, objects, pages: vec![4096, 4096, 4096, 1], unused_share, longest_gap: 0.0 },
            other_bytes: 0,
            correction: 1.0,
        }
    }

    fn plan(paged: &Paged) -> Plan {
        let content = Content { name: "any".into(), written: 10.0, clean: 1.0, back: 5.0, fault: 10.0 };
        let machine = Machine { machine_version: MACHINE_VERSION, contents: vec![content], fresh: 0.0 };
        let tiers = Tiers { slow: "swap".into(), fast: "dram".into() };
        paged.plan(36 << 20, tiers, &machine).unwrap()
    }

    const ONE_BY_ONE: [&[usize]; 3] = [&[0], &[1], &[2]];

    #[test]
    fn what_blocks_are_used_of_is_in_the_interval_and_decides() {
        let in_turn = ONE_BY_ONE.repeat(10);
        let (whole, part) =
            (plan(&paged(&ONE_BY_ONE, &in_turn, 0.0)), plan(&paged(&ONE_BY_ONE, &in_turn, 0.9)));
        assert!(whole.worth && !whole.moves.is_empty() && whole.notes.is_empty(), "{:?}", whole.notes);
        assert!(!part.worth && part.moves.is_empty());
        let wider = part.seconds.uncertainty - whole.seconds.uncertainty;
        let of_kernel = part.seconds.slow - part.seconds.fast;
        assert!((wider - 0.9 * of_kernel).abs() < 1e-9 * of_kernel);
        assert!(
            part.notes[0].contains("nothing is moved") && part.notes[1].contains("10 %"),
            "{:?}",
            part.notes
        );
    }

    #[test]
    fn a_program_that_needs_all_at_once_is_not_said_to_fit() {
        let all: [&[usize]; 4] = [&[0, 1, 2]; 4];
        let mut paged = paged(&[&[0, 1, 2]], &all, 0.0);
        paged.parts.longest_gap = 0.9;
        let told = plan(&paged);
        assert!(!told.worth && told.moves.is_empty());
        assert!(
            told.notes.iter().any(|note| note.contains("more than fits: nothing is moved")),
            "{:?}",
            told.notes
        );
        assert!(told.notes.iter().any(|note| note.contains("no large block in 90 %")), "{:?}", told.notes);
        assert!(!told.notes.iter().any(|note| note.contains("the program fits")), "{:?}", told.notes);
        // The kernel may move all of it in each step.
        assert!(told.seconds.uncertainty >= 4.0 * 3.0 * 4096.0 * 20e-6, "{:?}", told.seconds);
    }

    #[test]
    fn a_program_that_fits_but_for_the_spare_is_said_to_fit() {
        let all: [&[usize]; 4] = [&[0, 1]; 4];
        let mut paged = paged(&[&[0, 1]], &all, 0.0);
        paged.parts.pages = vec![4352, 4352, 4352, 1];
        let told = plan(&paged);
        assert!(!told.worth && told.moves.is_empty());
        assert!(told.notes[0].contains("the program fits"), "{:?}", told.notes);
    }
}
