//! What two runs say of a program's objects, and plans made of it.

use std::cmp::Ordering;
use std::collections::HashSet;

use memtrace_trace::Trace;

use super::error::Error;
use super::gains::{Gain, gains};
use super::observed::{Block, Key, Observed};
use super::plan::{
    Alternative, CHAINS, MOST_BLOCKS, Object, PLAN_VERSION, Plan, Program, Seconds, Tiers, Where,
};
use super::search::{Baseline, Instance, Item, Search};
use super::together::together;
use super::traits::traits;
use super::verified::{Run, correct};
use crate::profile::places;
use crate::units::Bytes;

/// Where fewer samples meet objects, the tier of these matters little.
const CACHE_RESIDENT: f64 = 0.1;
/// From this share of lost addresses on, an estimate says nothing.
const CHAINED: f64 = 0.1;

/// What was learned of a program.
pub struct Learned {
    program: Program,
    slow_seconds: f64,
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
    /// Compares two runs of a program: all its large blocks in the slow tier, and all in the fast
    /// one.
    ///
    /// # Errors
    /// A table cannot be read, or the traces are not those of two such runs.
    pub fn of(slow: &Trace, fast: &Trace) -> Result<Learned, Error> {
        if slow.meta().command != fast.meta().command {
            return Err(Error::Learned("the two traces are of different commands".into()));
        }
        let first = Observed::read(slow, None)?;
        let second = Observed::read(fast, Some(&first.program))?;
        if first.blocks.is_empty() {
            return Err(Error::Request(
                "no large block was placed while learning: the program has none, or an allocator of its own, \
                 or runs under a seccomp filter; there is nothing to plan"
                    .into(),
            ));
        }
        if (&first.program.path, first.program.before) != (&second.program.path, second.program.before) {
            return Err(Error::Learned("most time went to different programs in the two runs".into()));
        }
        let gains = gains(&first, &second);
        let places = places::places(slow, first.objects.iter().filter_map(|key| key.site))?;
        let mut blocks = vec![0u64; first.objects.len()];
        first.blocks.iter().for_each(|block| blocks[block.object] += 1);
        let samples = first.samples.len().max(1) as f64;
        let object = |((key, gain), blocks): ((&Key, &Gain), u64)| Object {
            site: key.site,
            place: key.site.and_then(|site| places.get(&site).cloned()),
            bytes: key.bytes,
            ordinal: key.ordinal,
            blocks,
            time_share: gain.samples as f64 / samples,
            gain_seconds: gain.seconds,
            gain_error_seconds: gain.error.hypot((gain.seconds - gain.own_seconds) / 2.0),
            tier: Where::Slow,
            moved_bytes: 0,
        };
        let met = first.samples.iter().filter(|sample| sample.object.is_some()).count();
        Ok(Learned {
            slow_seconds: first.user_seconds + first.system_seconds,
            fast_seconds: second.user_seconds + second.system_seconds,
            objects: first.objects.iter().zip(&gains).zip(blocks).map(object).collect(),
            in_objects: met as f64 / samples,
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
        let fast: HashSet<_> =
            plan.objects.iter().filter(|object| object.tier == Where::Fast).map(name).collect();
        let fast: Vec<bool> = self.objects.iter().map(|object| fast.contains(&name(object))).collect();
        match self.runs.iter_mut().find(|run| run.fast == fast) {
            Some(run) => run.seconds = run.seconds.min(seconds),
            None => self.runs.push(Run { fast, seconds }),
        }
    }

    /// True if a plan was run already.
    pub fn has_run(&self, plan: &Plan) -> bool {
        let fast = plan.objects.iter().filter(|object| object.tier == Where::Fast).map(name);
        let fast: HashSet<_> = fast.collect();
        let is_same = |run: &Run| {
            self.objects.iter().zip(&run.fast).all(|(object, was)| *was == fast.contains(&name(object)))
        };
        self.runs.iter().any(is_same)
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

    /// The best plan for so many bytes of the fast tier that a search finds.
    ///
    /// # Errors
    /// The program has too many blocks.
    pub fn plan(&self, fast_bytes: u64, tiers: Tiers, search: Search) -> Result<Plan, Error> {
        if self.blocks.len() > MOST_BLOCKS {
            let blocks = self.blocks.len();
            return Err(Error::Request(format!(
                "the program allocates {blocks} large blocks, more than the {MOST_BLOCKS} that can be placed"
            )));
        }
        let (slow_seconds, objects, instance) = self.corrected(fast_bytes);
        let choice = search.choice(&instance);
        let mut plan = Plan {
            plan_version: PLAN_VERSION,
            program: self.program.clone(),
            tiers,
            fast_bytes,
            used_bytes: instance.used(&choice.fast),
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
            alternatives: Baseline::ALL.map(|each| Alternative::of(each, &instance)).into(),
        };
        for (object, fast) in plan.objects.iter_mut().zip(&choice.fast) {
            object.tier = if *fast { Where::Fast } else { Where::Slow };
        }
        plan.estimate();
        if choice.bound > choice.gain * 1.001 {
            let missing = choice.bound - choice.gain;
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
                "{} of the time falls on large blocks: placement cannot help",
                percent(self.in_objects)
            ));
            plan.worth = false;
        } else if !plan.worth && all < plan.seconds.uncertainty {
            plan.notes.push(format!(
                "all blocks in {} gain {all:.2} s, no more than runs differ by: placement cannot help",
                plan.tiers.fast
            ));
            plan.worth = false;
        } else if !plan.worth {
            plan.notes.push(format!(
                "{} of {} gain {gain:.2} s, less than the estimate is uncertain by: nothing is placed",
                Bytes(plan.fast_bytes),
                plan.tiers.fast
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
        let gain = |index: &usize| plan.objects[*index].gain_seconds;
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

/// What distinguishes an object.
fn name(object: &Object) -> (Option<u64>, u64, u32) {
    (object.site, object.bytes, object.ordinal)
}
