//! What `place learn` has left in a directory, and plans made of it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use memtrace_analysis::placement::search::Search;
use memtrace_analysis::placement::swap::{Machine, Paged};
use memtrace_analysis::placement::{Learned, Plan, Tiers};
use memtrace_trace::{Meta, Trace};

use super::tier::{DRAM, SWAP, are_different};
use crate::commands::usage::Usage;

/// File of the machine's costs in such a directory.
pub const MACHINE: &str = "machine.json";
/// Trace of the run in the middle one of three tiers.
pub const MIDDLE: &str = "middle";
/// Trace of the run that was watched.
pub const WATCHED: &str = "watched";

/// What was learned.
pub struct Source {
    kind: Kind,
    tiers: Tiers,
    /// The tier between them.
    middle: Option<String>,
    /// Of a run with the command that was learned from.
    trace: Trace,
}

/// Bytes of the tiers that a plan may use.
#[derive(Clone, Copy)]
pub struct Room {
    /// Of the fast one.
    pub fast: u64,
    /// Of the middle one, if one was named.
    pub middle: Option<u64>,
}

enum Kind {
    Tiers(Learned),
    Swap { paged: Box<Paged>, machine: Machine, runs: Vec<Plan> },
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// `place learn` has not made the directory, or a table cannot be read.
    pub fn open(directory: &Path) -> Result<Source> {
        let fast = open(&directory.join("fast"))?;
        if tier_of(&fast)? == DRAM {
            let (plain, watched) = (fast, open(&directory.join(WATCHED))?);
            let paged = Box::new(Paged::of(&plain, &watched)?);
            let machine = Machine::load(&directory.join(MACHINE))?;
            let tiers = Tiers { slow: SWAP.into(), fast: DRAM.into() };
            let kind = Kind::Swap { paged, machine, runs: Vec::new() };
            return Ok(Source { kind, tiers, middle: None, trace: plain });
        }
        let slow = open(&directory.join("slow"))?;
        let between = directory.join(MIDDLE);
        let between = if between.exists() { Some(open(&between)?) } else { None };
        let tiers = Tiers { slow: tier_of(&slow)?, fast: tier_of(&fast)? };
        let middle = between.as_ref().map(tier_of).transpose()?;
        if !are_different(&tiers.slow, middle.as_ref(), &tiers.fast) {
            bail!("two traces in {} are of the same tier; learn it again with --force", directory.display());
        }
        let learned = Learned::of(&slow, between.as_ref(), &fast)?;
        Ok(Source { kind: Kind::Tiers(learned), tiers, middle, trace: slow })
    }

    /// True if pages move between memory and swap.
    pub fn is_swap(&self) -> bool {
        matches!(self.kind, Kind::Swap { .. })
    }

    /// What the recording of a run was.
    pub fn meta(&self) -> &Meta {
        self.trace.meta()
    }

    /// The best plan for so many bytes that a search finds.
    ///
    /// # Errors
    /// There can be none.
    pub fn plan(&self, room: Room, search: Search) -> Result<Plan> {
        let (tiers, bytes) = (self.tiers.clone(), room.fast);
        let middle = match (&self.middle, room.middle) {
            (Some(_), Some(_)) if search != Search::Exact => {
                bail!(Usage("with three tiers the choice is exact; leave --search out".into()))
            }
            (Some(tier), Some(bytes)) => Some((tier.clone(), bytes)),
            (Some(tier), None) => bail!(Usage(format!(
                "the program was learned with three tiers; say with --middle how much of {tier} it may use"
            ))),
            (None, Some(_)) => {
                bail!(Usage("the program was learned with two tiers; leave --middle out".into()))
            }
            (None, None) => None,
        };
        Ok(match &self.kind {
            Kind::Tiers(learned) => learned.plan(bytes, middle, tiers, search)?,
            Kind::Swap { .. } if search != Search::Exact => {
                bail!(Usage("with swap, moves follow from when blocks are used; leave --search out".into()))
            }
            Kind::Swap { paged, machine, .. } => paged.plan(bytes, tiers, machine)?,
        })
    }

    /// A run of a plan took this many CPU seconds: later plans count it in.
    pub fn ran(&mut self, plan: &Plan, seconds: f64) {
        match &mut self.kind {
            Kind::Tiers(learned) => learned.ran(plan, seconds),
            Kind::Swap { paged, runs, .. } => {
                paged.ran(plan, seconds);
                runs.push(plan.clone());
            }
        }
    }

    /// True if a plan was run already.
    pub fn has_run(&self, plan: &Plan) -> bool {
        match &self.kind {
            Kind::Tiers(learned) => learned.has_run(plan),
            Kind::Swap { runs, .. } => runs.iter().any(|run| run.moves == plan.moves),
        }
    }
}

fn open(path: &Path) -> Result<Trace> {
    Trace::open(path).with_context(|| format!("cannot plan with {}", path.display()))
}

/// The tier that all blocks of a trace are in.
fn tier_of(trace: &Trace) -> Result<String> {
    let placing = trace.meta().recorded.get("placing").map(String::as_str).unwrap_or_default();
    match placing.strip_prefix("all blocks in ") {
        Some(tier) => Ok(tier.to_owned()),
        None => bail!("the trace was not made by memtrace place learn; make it again"),
    }
}
