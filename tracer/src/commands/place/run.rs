//! `place run`: a command with its blocks where a plan has them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use memtrace_analysis::placement::{Plan, Where};
use memtrace_trace::{Meta, Trace};
use memtrace_wire::placement::Tier;

use super::tier;
use super::warm::warm;
use crate::commands::record::{self, Record};
use crate::commands::usage::sentence;
use crate::record::{Options, PlacedProgram, Placing};
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
    let placing = blocks(plan)?;
    warm(tier_of(&plan.tiers.fast)?, learned.peak.resident_bytes);
    let options = Options {
        replace: true,
        prints_to_stderr: true,
        placing: Some(placing),
        ..Options::of(trace.clone(), command)
    };
    let outcome = crate::record::run(&options)?;
    let trace = Trace::open(&trace)?;
    match trace.meta().user_ns.zip(trace.meta().system_ns) {
        Some((user, system)) if outcome.code == 0 => Ok((user + system) as f64 / 1e9),
        _ if outcome.code == 0 => {
            bail!("the run that was to verify the plan was cut short; make the plan again")
        }
        _ => bail!("the command failed with {}; a plan is verified by runs that succeed", outcome.code),
    }
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
fn blocks(plan: &Plan) -> Result<Placing> {
    let (slow, fast) = (tier_of(&plan.tiers.slow)?, tier_of(&plan.tiers.fast)?);
    let tier = |place| match place {
        // Where memory is anyway, unless the program says otherwise itself.
        Where::Slow if slow == Tier::SmallPages => None,
        Where::Slow => Some(slow),
        Where::Fast => Some(fast),
    };
    Ok(Placing::Table {
        program: PlacedProgram { path: plan.program.path.clone().into(), before: plan.program.before },
        blocks: plan.table().map(|(bytes, place)| (bytes, tier(place))).collect(),
        fast,
        most: plan.fast_bytes,
    })
}
