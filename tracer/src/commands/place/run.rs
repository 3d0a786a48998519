//! `place run`: a command with its blocks where a plan has them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use memtrace_analysis::placement::{Move, MoveKind, Plan, Where};
use memtrace_trace::{Meta, Trace};
use memtrace_wire::placement::Tier;
use memtrace_wire::placement::moves::{self, Action, MOST_SLOTS};

use super::tier;
use super::warm::warm;
use crate::commands::record::{self, Record};
use crate::commands::usage::sentence;
use crate::record::{Options, PlacedBlock, PlacedProgram, Placing};
use crate::terminal::say;

/// Arguments of `place run`.
#[derive(Args)]
pub struct Run {
    /// A plan that place plan wrote
    plan: PathBuf,
    #[command(flatten)]
    record: Record,
}

/// `memtrace place run`
pub fn run(arguments: &Run) -> Result<ExitCode> {
    // Whatever is wrong with the plan, the program runs.
    let placing = placing(&arguments.plan).unwrap_or_else(|error| {
        say(&format!("{}; the command runs without a plan", sentence(&error)));
        None
    });
    record::run_placed(&arguments.record, placing)
}

/// CPU seconds of the command that was learned from, with its blocks where a plan has them.
pub fn measured(plan: &Plan, learned: &Meta, trace: PathBuf) -> Result<f64> {
    let command = learned.command.iter().map(OsString::from).collect();
    warm(fast_tier(plan)?, learned.peak.resident_bytes);
    let code = recorded(command, Some(blocks(plan)?), trace.clone())?;
    match seconds(&Trace::open(&trace)?) {
        Some(seconds) if code == 0 => Ok(seconds),
        _ if code == 0 => {
            bail!("the run that was to verify the plan was cut short; make the plan again")
        }
        _ => bail!("the command failed with {code}; a plan is verified by runs that succeed"),
    }
}

/// Records a command, with what it prints on standard error. Its exit status.
pub fn recorded(command: Vec<OsString>, placing: Option<Placing>, trace: PathBuf) -> Result<i32> {
    let base = Options::of(trace, command);
    let options = Options { replace: true, prints_to_stderr: true, placing, ..base };
    Ok(crate::record::run(&options)?.code)
}

/// CPU seconds of a recorded command; `None` if its recording was cut short.
pub fn seconds(trace: &Trace) -> Option<f64> {
    let times = trace.meta().user_ns.zip(trace.meta().system_ns);
    times.map(|(user, system)| (user + system) as f64 / 1e9)
}

/// The fast tier of a plan, on this machine.
pub fn fast_tier(plan: &Plan) -> Result<Tier> {
    if plan.tiers.slow == tier::SWAP { Ok(Tier::Dram) } else { tier_of(&plan.tiers.fast) }
}

/// What is placed; nothing where the plan says that nothing is gained.
fn placing(plan: &Path) -> Result<Option<Placing>> {
    let plan = Plan::load(plan)?;
    if !plan.worth {
        say("the plan gains nothing; the command runs without it");
        return Ok(None);
    }
    blocks(&plan).map(Some)
}

fn tier_of(name: &str) -> Result<Tier> {
    let tier = tier::parse(name).map_err(|why| anyhow!(why)).context("the plan cannot be used here")?;
    tier::check(tier)?;
    Ok(tier)
}

/// The plan's blocks in the tiers of this machine.
pub fn blocks(plan: &Plan) -> Result<Placing> {
    let slots = slots(plan)?;
    let program = PlacedProgram { path: plan.program.path.clone().into(), before: plan.program.before };
    if plan.tiers.slow == tier::SWAP {
        tier::check_swap()?;
        let block = |(object, bytes, _)| PlacedBlock {
            bytes,
            tier: Some(Tier::Dram),
            slot: slots.get(&object).copied().unwrap_or(0),
        };
        let (blocks, moves) = (plan.table().map(block).collect(), moves(plan, &slots));
        return Ok(Placing::Table { program, blocks, moves, slow: None, fast: Tier::Dram, most: u64::MAX });
    }
    let (slow, fast) = (tier_of(&plan.tiers.slow)?, tier_of(&plan.tiers.fast)?);
    let are_nodes = matches!((slow, fast), (Tier::Node(_), Tier::Node(_)));
    if !plan.moves.is_empty() && !are_nodes {
        bail!(
            "the plan moves pages between {} and {}; they move between nodes, and between memory and swap",
            plan.tiers.slow,
            plan.tiers.fast
        );
    }
    let tier = |place| match place {
        // Where memory is anyway, unless the program says otherwise itself.
        Where::Slow if slow == Tier::SmallPages => None,
        Where::Slow => Some(slow),
        Where::Fast => Some(fast),
    };
    let block = |(object, bytes, place)| PlacedBlock {
        bytes,
        tier: tier(place),
        slot: slots.get(&object).copied().unwrap_or(0),
    };
    let (blocks, moves) = (plan.table().map(block).collect(), moves(plan, &slots));
    let slow = matches!(slow, Tier::Node(_)).then_some(slow);
    Ok(Placing::Table { program, blocks, moves, slow, fast, most: plan.fast_bytes })
}

/// A slot for each object that is moved.
fn slots(plan: &Plan) -> Result<HashMap<u32, u32>> {
    let mut slots = HashMap::new();
    for each in plan.moves.iter().filter(|each| each.kind != MoveKind::Trim) {
        let next = slots.len() as u32 + 1;
        slots.entry(each.object).or_insert(next);
    }
    if slots.len() > MOST_SLOTS as usize {
        bail!(
            "the plan moves {} objects, more than {MOST_SLOTS}; make one with a larger --fast",
            slots.len()
        );
    }
    Ok(slots)
}

fn moves(plan: &Plan, slots: &HashMap<u32, u32>) -> Vec<(u32, moves::Move)> {
    let of = |each: &Move| {
        let (action, slot) = match each.kind {
            MoveKind::Out => (Action::Out, slots.get(&each.object)),
            MoveKind::In => (Action::In, slots.get(&each.object)),
            MoveKind::Trim => (Action::Trim, None),
        };
        let (first, pages) = (each.first, each.pages);
        (each.block, moves::Move { slot: slot.copied().unwrap_or(0), action, first, pages })
    };
    plan.moves.iter().map(of).collect()
}
