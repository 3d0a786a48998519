//! `place run`: a command with its blocks where a plan has them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use memtrace_analysis::placement::swap::most_held;
use memtrace_analysis::placement::{Move, MoveKind, Plan, Where};
use memtrace_trace::{Meta, Trace};
use memtrace_wire::placement::Tier;
use memtrace_wire::placement::moves::{self, Action, MOST_SLOTS};

use super::tier;
use super::warm::warm;
use crate::commands::record::{self, Record};
use crate::commands::usage::sentence;
use crate::record::{Failure, Options, PlacedBlock, PlacedProgram, Placing, tier_name};
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
    let plan = Plan::load(&arguments.plan);
    if let Ok(Plan { worth: false, .. }) = plan
        && let [program, rest @ ..] = arguments.record.command()
    {
        say("the plan gains nothing; the command runs without it, and is not recorded");
        return Err(by_itself(program, rest).into());
    }
    // Whatever is wrong with the plan, the program runs.
    let placing = plan.map_err(Into::into).and_then(|plan| blocks(&plan).map(Some));
    let placing = placing.unwrap_or_else(|error| {
        say(&format!("{}; the command runs without a plan", sentence(&error)));
        None
    });
    record::run_placed(&arguments.record, placing)
}

/// Becomes the command, and returns where that fails: what gains nothing must not cost anything.
fn by_itself(program: &OsString, arguments: &[OsString]) -> Failure {
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    Failure { code, message: format!("cannot run {}: {error}", program.display()) }
}

/// What a run took.
pub struct Took {
    /// CPU time.
    pub seconds: f64,
    /// The most that one process held, without pages of files, if it followed the plan.
    pub held_bytes: Option<u64>,
}

/// What the command that was learned from takes, with its blocks where a plan has them.
pub fn measured(plan: &Plan, learned: &Meta, trace: PathBuf) -> Result<Took> {
    let command = learned.command.iter().map(OsString::from).collect();
    warm(fast_tier(plan)?, learned.peak.resident_bytes);
    let code = recorded(command, Some(blocks(plan)?), trace.clone())?;
    let trace = Trace::open(&trace)?;
    match seconds(&trace) {
        Some(seconds) if code == 0 => Ok(Took { seconds, held_bytes: most_held(&trace)? }),
        _ if code == 0 => {
            bail!("the run that was to verify the plan was cut short; make the plan again")
        }
        _ => bail!(
            "the command failed with {code} in the run that was to verify the plan, so none was written; leave \
             --verify out for one that is not verified"
        ),
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
        if plan.tiers.fast != tier::DRAM || plan.middle.is_some() {
            bail!("with swap a plan has two tiers, swap and dram; make it again with memtrace place plan");
        }
        tier::check_swap()?;
        let block = |(object, bytes, _)| PlacedBlock {
            bytes,
            tier: Some(Tier::Dram),
            slot: slots.get(&object).copied().unwrap_or(0),
        };
        let (blocks, moves) = (plan.table().map(block).collect(), moves(plan, &slots));
        let (middle, fast, most) = (None, Tier::Dram, u64::MAX);
        return Ok(Placing::Table { program, blocks, moves, slow: None, middle, fast, most });
    }
    let (slow, fast) = (tier_of(&plan.tiers.slow)?, tier_of(&plan.tiers.fast)?);
    let middle = plan.middle.as_ref().map(|middle| Ok::<_, Error>((tier_of(&middle.tier)?, middle.bytes)));
    let middle = middle.transpose()?;
    if !tier::are_different(&slow, middle.as_ref().map(|(tier, _)| tier), &fast) {
        bail!("the plan has the same tier two times; make it again with memtrace place plan");
    }
    let are_nodes = matches!((slow, fast), (Tier::Node(_), Tier::Node(_)));
    if !plan.moves.is_empty() && (!are_nodes || middle.is_some()) {
        let between = middle.map_or(String::new(), |(tier, _)| format!(", {}", tier_name(tier)));
        bail!(
            "the plan moves pages between {}{between} and {}; they move between two nodes, and between memory \
             and swap",
            plan.tiers.slow,
            plan.tiers.fast
        );
    }
    let tier = |place| match place {
        // Where memory is anyway, unless the program says otherwise itself.
        Where::Slow if slow == Tier::SmallPages => None,
        Where::Slow => Some(slow),
        Where::Middle => middle.map(|(tier, _)| tier),
        Where::Fast => Some(fast),
    };
    let block = |(object, bytes, place)| PlacedBlock {
        bytes,
        tier: tier(place),
        slot: slots.get(&object).copied().unwrap_or(0),
    };
    let (blocks, moves) = (plan.table().map(block).collect(), moves(plan, &slots));
    let slow = matches!(slow, Tier::Node(_)).then_some(slow);
    Ok(Placing::Table { program, blocks, moves, slow, middle, fast, most: plan.fast_bytes })
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
