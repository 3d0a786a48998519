//! What runs in each tier say of a program's objects, and plans made of it.

use std::cmp::Ordering;
use std::collections::HashMap;

use memtrace_trace::Trace;

use super::error::Error;
use super::gains::{Gain, gains};
use super::object::{Gained, Object, Where};
use super::observed::{Block, Key, Observed};
use super::plan::{
    Alternative, CHAINS, MOST_BLOCKS, Middle, NOTHING, PLAN_VERSION, Plan, Program, Seconds, Tiers,
};
use super::search::{Baseline, Choice, InThree, Instance, Item, PATIENCE, Search, best_of_three};
use super::together::together;
use super::traits::traits;
use super::verified::{Run, correct};
use crate::profile::places;
use crate::units::Bytes;

/// Where fewer samples meet objects, the tier of these matters little.
const CACHE_RESIDENT: f64 = 0.1;
/// Less than that is no matter for a note.
const SHOWN_SECONDS: f64 = 0.005;
/// From this share of lost addresses on, an estimate says nothing.
const CHAINED: f64 = 0.1;

/// What was learned of a program.
pub struct Learned {
    program: Program,
    slow_seconds: f64,
    /// Of three tiers.
    middle_seconds: Option<f64>,
    fast_seconds: f64,
    objects: Vec<Object>,
    blocks: Vec<Block>,
    /// When the last sample was taken.
    end_ns: i64,
    /// Runs of plans.
    runs: Vec<Run>,
    /// Share of the samples that met an object.
    in_objects: f64,
    /// Share of the samples of memory whose address is not known.
    without_address: f64,
}

impl Learned {
    /// Compares runs of a program: all its large blocks in the slow tier, all in the fast one, and, of
    /// three tiers, all in the middle one.
    ///
    /// # Errors
    /// A table cannot be read, or the traces are not those of such runs.
    pub fn of(slow: &Trace, middle: Option<&Trace>, fast: &Trace) -> Result<Learned, Error> {
        let first = Observed::read(slow, None)?;
        if first.blocks.is_empty() {
            return Err(Error::Request(
                "no large block was placed while learning: the program has none, or an allocator of its own, \
                 or runs under a seccomp filter; there is nothing to plan"
                    .into(),
            ));
        }
        let other = |trace: &Trace| {
            if slow.meta().command != trace.meta().command {
                return Err(Error::Learned("the traces are of different commands".into()));
            }
            let run = Observed::read(trace, Some(&first.program))?;
            if (&first.program.path, first.program.before) != (&run.program.path, run.program.before) {
                return Err(Error::Learned("most time went to different programs in the runs".into()));
            }
            Ok((gains(&first, &run), run.user_seconds + run.system_seconds))
        };
        let (of_fast, fast_seconds) = other(fast)?;
        let (of_middle, middle_seconds) = middle.map(other).transpose()?.unzip();
        let places = places::places(slow, first.objects.iter().filter_map(|key| key.site))?;
        let mut blocks = vec![0u64; first.objects.len()];
        first.blocks.iter().for_each(|block| blocks[block.object] += 1);
        let samples = first.samples.len().max(1) as f64;
        // In a tier in which it has a place.
        let in_middle = |index: usize| of_middle.as_ref().map_or(0, |gains| gains[index].samples);
        let met = |index: usize| of_fast[index].samples.max(in_middle(index));
        let object = |(index, key): (usize, &Key)| Object {
            site: key.site,
            place: key.site.and_then(|site| places.get(&site).cloned()),
            bytes: key.bytes,
            ordinal: key.ordinal,
            blocks: blocks[index],
            time_share: met(index) as f64 / samples,
            gain_seconds: of_fast[index].seconds,
            gain_error_seconds: of_fast[index].standard_error(),
            middle: of_middle.as_ref().map(|gains| gained(&gains[index])),
            tier: Where::Slow,
            moved_bytes: 0,
        };
        let in_objects = first.samples.iter().filter(|sample| sample.object.is_some()).count();
        Ok(Learned {
            slow_seconds: first.user_seconds + first.system_seconds,
            middle_seconds,
            fast_seconds,
            objects: first.objects.iter().enumerate().map(object).collect(),
            in_objects: in_objects as f64 / samples,
            without_address: first.without_address as f64 / first.touching.max(1) as f64,
            end_ns: first.samples.last().map_or(0, |sample| sample.time_ns),
            program: first.program,
            blocks: first.blocks,
            runs: Vec::new(),
        })
    }

    /// A run of one of its plans took this many CPU seconds: later plans count it in. Of several runs of
    /// one plan, the fastest counts.
    pub fn ran(&mut self, plan: &Plan, seconds: f64) {
        let tiers = self.tiers(plan);
        match self.runs.iter_mut().find(|run| run.tiers == tiers) {
            Some(run) => run.seconds = run.seconds.min(seconds),
            None => self.runs.push(Run { tiers, seconds }),
        }
    }

    /// True if a plan was run already.
    pub fn has_run(&self, plan: &Plan) -> bool {
        let tiers = self.tiers(plan);
        self.runs.iter().any(|run| run.tiers == tiers)
    }

    /// Where a plan has each of the objects.
    fn tiers(&self, plan: &Plan) -> Vec<Where> {
        let tiers: HashMap<_, _> = plan.objects.iter().map(|object| (object.name(), object.tier)).collect();
        let of = |object: &Object| tiers.get(&object.name()).copied().unwrap_or(Where::Slow);
        self.objects.iter().map(of).collect()
    }

    /// What is chosen from, for so many bytes of the fast tier.
    pub fn instance(&self, fast_bytes: u64) -> Instance {
        self.corrected(fast_bytes).2
    }

    /// The slow time, the objects and the instance, as the runs so far have corrected them.
    fn corrected(&self, fast_bytes: u64) -> (f64, Vec<Object>, Instance) {
        let (mut slow_seconds, mut objects) = (self.slow_seconds, self.objects.clone());
        correct(&mut slow_seconds, &mut objects, &self.runs);
        let item = |object: &Object| Item { gain: object.gain_seconds, bytes: mapped(object.bytes) };
        let instance = Instance {
            items: objects.iter().map(item).collect(),
            traits: traits(&objects, &self.blocks, self.end_ns),
            together: together(&self.blocks),
            capacity: fast_bytes,
        };
        (slow_seconds, objects, instance)
    }

    /// The best plan for so many bytes of the fast tier that a search finds. With a middle tier, which has a
    /// name and bytes, the choice is exact.
    ///
    /// # Errors
    /// The program has too many blocks, or its runs and the tiers are not as many.
    pub fn plan(
        &self,
        fast_bytes: u64,
        middle: Option<(String, u64)>,
        tiers: Tiers,
        search: Search,
    ) -> Result<Plan, Error> {
        if middle.is_some() != self.middle_seconds.is_some() {
            return Err(Error::Request("the plan and the runs are not for the same tiers".into()));
        }
        if self.blocks.len() > MOST_BLOCKS {
            let blocks = self.blocks.len();
            return Err(Error::Request(format!(
                "the program allocates {blocks} large blocks, more than the {MOST_BLOCKS} that can be placed"
            )));
        }
        let (slow_seconds, objects, instance) = self.corrected(fast_bytes);
        let middle_bytes = middle.as_ref().map_or(0, |(_, bytes)| *bytes);
        let choice = match &middle {
            Some(_) => in_three(&objects, &instance, middle_bytes),
            None => in_two(search, &instance),
        };
        let used = |chosen: &[bool]| instance.used(chosen);
        let middle = middle.zip(self.middle_seconds);
        let mut plan = Plan {
            plan_version: PLAN_VERSION,
            program: self.program.clone(),
            tiers,
            middle: middle.map(|((tier, bytes), seconds)| Middle {
                tier,
                bytes,
                used_bytes: used(&choice.middle),
                seconds,
            }),
            fast_bytes,
            used_bytes: used(&choice.fast),
            seconds: Seconds {
                slow: slow_seconds,
                fast: self.fast_seconds,
                planned: slow_seconds,
                uncertainty: 0.0,
            },
            traffic: None,
            worth: false,
            notes: Vec::new(),
            objects,
            blocks: Vec::new(),
            moves: Vec::new(),
            alternatives: Baseline::ALL.map(|each| Alternative::of(each, &instance, middle_bytes)).into(),
        };
        for (object, chosen) in plan.objects.iter_mut().zip(choice.fast.iter().zip(&choice.middle)) {
            object.tier = match chosen {
                (true, _) => Where::Fast,
                (_, true) => Where::Middle,
                _ => Where::Slow,
            };
        }
        plan.estimate();
        let missing = choice.bound - choice.gain;
        if missing > 0.001 * choice.gain && missing > SHOWN_SECONDS {
            plan.notes.push(format!(
                "the choice is not known to be the best one: another may gain up to {missing:.2} s more"
            ));
        }
        self.judge(&mut plan);
        self.order(&mut plan);
        Ok(plan)
    }

    /// Whether it is worth it, and why.
    fn judge(&self, plan: &mut Plan) {
        let gain = plan.seconds.slow - plan.seconds.planned;
        let all = plan.seconds.slow - plan.seconds.fast;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        plan.worth = gain > plan.seconds.uncertainty;
        if self.in_objects < CACHE_RESIDENT {
            plan.notes.push(format!(
                "{} of the time falls on large blocks: placement cannot help, {NOTHING}",
                percent(self.in_objects)
            ));
            plan.worth = false;
        } else if !plan.worth && all < plan.seconds.uncertainty {
            plan.notes.push(if -all > plan.seconds.uncertainty {
                format!(
                    "with all blocks in {} the run took {:.2} s longer: {NOTHING}; if other work slowed it, \
                     learn again with --force --repeat 3",
                    plan.tiers.fast, -all
                )
            } else {
                format!(
                    "all blocks in {} gain {all:.2} s, no more than runs differ by: placement cannot help, \
                     {NOTHING}",
                    plan.tiers.fast
                )
            });
        } else if !plan.worth {
            let middle = plan.middle.as_ref();
            let and = middle.map(|middle| format!(" and {} of {}", Bytes(middle.bytes), middle.tier));
            plan.notes.push(format!(
                "{} of {}{} gain {gain:.2} s, less than the estimate is uncertain by: {NOTHING}",
                Bytes(plan.fast_bytes),
                plan.tiers.fast,
                and.unwrap_or_default()
            ));
        }
        if self.without_address > CHAINED {
            plan.notes.push(format!(
                "{} of the samples of memory are of {CHAINS}, whose blocks are not known: the estimate may be \
                 wrong by more than it says",
                percent(self.without_address)
            ));
        }
    }

    /// Sorts the plan's objects, and writes down the order of the blocks.
    fn order(&self, plan: &mut Plan) {
        let mut sorted: Vec<usize> = (0..plan.objects.len()).collect();
        let gain = |index: &usize| {
            let object = &plan.objects[*index];
            object.gain_seconds.max(object.gained(Where::Middle).gain_seconds)
        };
        sorted.sort_by(|one, other| match gain(other).total_cmp(&gain(one)) {
            Ordering::Equal => one.cmp(other),
            order => order,
        });
        plan.arrange(&sorted, &self.blocks);
    }
}

/// Bytes of a block's mapping: whole pages.
fn mapped(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(4096).unwrap_or(u64::MAX)
}

/// What an object gains, for a plan.
fn gained(gain: &Gain) -> Gained {
    Gained { gain_seconds: gain.seconds, gain_error_seconds: gain.standard_error() }
}

fn in_two(search: Search, instance: &Instance) -> InThree {
    let Choice { fast, gain, bound } = search.choice(instance);
    InThree { middle: vec![false; fast.len()], fast, gain, bound }
}

fn in_three(objects: &[Object], instance: &Instance, middle_bytes: u64) -> InThree {
    let gains: Vec<f64> = objects.iter().map(|object| object.gained(Where::Middle).gain_seconds).collect();
    best_of_three(instance, &gains, middle_bytes, PATIENCE)
}
