//! `place compare`: a command with its blocks where a plan has them, and where placements without an
//! estimate have them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use memtrace_analysis::placement::search::Baseline;
use memtrace_analysis::placement::{Middle, Plan, Tiers, most_bytes};
use memtrace_trace::Trace;
use schemars::JsonSchema;
use serde::Serialize;

use super::run::{blocks, fast_tier, recorded, seconds};
use super::tier::SWAP;
use super::warm::warm;
use crate::commands::json;
use crate::commands::usage::Usage;
use crate::record::Placing;
use crate::terminal::{is_quiet, print, say};
use crate::units::Bytes;

/// What is used once before the first run, whose peak is not known.
const WARM_BYTES: u64 = 512 << 20;
const PLANNED: &str = "planned";

/// Arguments of `place compare`.
#[derive(Args)]
pub struct Compare {
    /// A plan that place plan wrote
    plan: PathBuf,
    /// What to compare it with: first-touch, interleave, density, random; of a plan with swap, lru:
    /// the kernel by itself, under the memory limit that is set here [default: all of the plan's
    /// tiers]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_against)]
    against: Vec<Against>,
    /// Run the command so many times with each, by turns; the fastest runs count
    #[arg(long, value_name = "RUNS", default_value_t = 1)]
    repeat: u32,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// The command; what it prints goes to standard error
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a plan is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Against {
    /// The kernel's own choice of what goes to swap.
    Lru,
    Baseline(Baseline),
}

const ALL: [(&str, Against); 5] = [
    ("lru", Against::Lru),
    ("first-touch", Against::Baseline(Baseline::FirstTouch)),
    ("interleave", Against::Baseline(Baseline::Interleave)),
    ("density", Against::Baseline(Baseline::Density)),
    ("random", Against::Baseline(Baseline::Random)),
];

fn parse_against(text: &str) -> Result<Against, String> {
    let found = ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, against)| *against).ok_or_else(|| {
        format!("{text:?} is no placement; write lru, first-touch, interleave, density or random")
    })
}

/// A plan beside other placements for as many bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// The tiers of the plan.
    tiers: Tiers,
    /// Bytes of the fast tier.
    fast_bytes: u64,
    /// The tier between the two; null if there is none.
    middle: Option<MiddleTier>,
    /// The plan, then what it was compared with.
    placements: Vec<Compared>,
}

/// The tier between the fast and the slow one.
#[derive(Debug, Serialize, JsonSchema)]
struct MiddleTier {
    /// As the command line names it.
    tier: String,
    /// Bytes of it.
    bytes: u64,
}

/// A placement, and what its runs took.
#[derive(Debug, Serialize, JsonSchema)]
struct Compared {
    /// `planned`, `lru`, `first-touch`, `interleave`, `density` or `random`.
    name: &'static str,
    /// CPU seconds of each run that succeeded.
    runs: Vec<f64>,
    /// Exit status of each run that did not.
    failed: Vec<i32>,
    /// CPU seconds of the fastest run; null if all failed.
    seconds: Option<f64>,
    /// These, divided by those of the plan.
    ratio: Option<f64>,
    /// Bytes of the program's blocks that the fast tier had at one time, at most; with swap, the
    /// program's resident peak.
    fast_bytes: u64,
    /// Bytes that the middle tier had of them; null without one.
    middle_bytes: Option<u64>,
}

/// `memtrace place compare`
pub fn run(arguments: &Compare) -> Result<ExitCode> {
    let plan = Plan::load(&arguments.plan)?;
    let placings = placings(&plan, &arguments.against)?;
    let mut bytes = WARM_BYTES;
    let mut placements: Vec<Compared> = placings.iter().map(|(name, _)| Compared::of(name)).collect();
    for turn in 0..arguments.repeat.max(1) {
        // None of them always runs behind the same one.
        for index in (0..placings.len()).map(|index| (index + turn as usize) % placings.len()) {
            let (placing, compared) = (&placings[index], &mut placements[index]);
            if plan.tiers.slow != SWAP {
                warm(fast_tier(&plan)?, bytes);
            }
            let trace = once(arguments, compared.name, placing.1.clone())?;
            bytes = trace.1.meta().peak.resident_bytes.max(WARM_BYTES);
            compared.add(trace, &plan)?;
        }
    }
    compare(&mut placements)?;
    let middle = plan.middle.map(|Middle { tier, bytes, .. }| MiddleTier { tier, bytes });
    let comparison = Comparison { tiers: plan.tiers, fast_bytes: plan.fast_bytes, middle, placements };
    if arguments.json {
        json::print(&comparison)?
    } else {
        print(&table(&comparison))?
    }
    Ok(ExitCode::SUCCESS)
}

/// What is run, by its name: the plan first.
fn placings(plan: &Plan, wanted: &[Against]) -> Result<Vec<(&'static str, Option<Placing>)>> {
    if !plan.worth {
        say("the plan gains nothing; planned runs have no block placed");
    }
    let planned = if plan.worth { Some(blocks(plan)?) } else { None };
    let mut placings = vec![(PLANNED, planned)];
    let is_swap = plan.tiers.slow == SWAP;
    for (name, against) in ALL {
        let suits = is_swap == (against == Against::Lru);
        if wanted.contains(&against) && !suits {
            bail!(Usage(format!(
                "{name} is for plans {} swap, and this one is for {} and {}; leave it out",
                if is_swap { "without" } else { "with" },
                plan.tiers.slow,
                plan.tiers.fast
            )));
        }
        if suits && (wanted.is_empty() || wanted.contains(&against)) {
            placings.push((name, other(plan, against)?));
        }
    }
    Ok(placings)
}

fn other(plan: &Plan, against: Against) -> Result<Option<Placing>> {
    let Against::Baseline(baseline) = against else { return Ok(None) };
    let plan = plan.alternative(baseline);
    let plan = plan.ok_or_else(|| anyhow!("the plan has no such placement; make it again"))?;
    blocks(&plan).map(Some)
}

/// Runs the command. Its exit status and trace, which is beside the plan.
fn once(arguments: &Compare, name: &str, placing: Option<Placing>) -> Result<(i32, Trace)> {
    if !is_quiet() {
        say(&format!("running: {name}"));
    }
    let trace = folder(&arguments.plan).join(name);
    let code = recorded(arguments.command.clone(), placing, trace.clone())?;
    Ok((code, Trace::open(&trace)?))
}

/// Where the traces go: `plan.compared` beside `plan.json`.
fn folder(plan: &Path) -> PathBuf {
    plan.with_extension("compared")
}

/// What the runs took beside those of the plan.
fn compare(placements: &mut [Compared]) -> Result<()> {
    for each in &mut *placements {
        each.seconds = each.runs.iter().copied().min_by(f64::total_cmp);
    }
    if placements.iter().all(|each| each.seconds.is_none()) {
        let code = placements.iter().flat_map(|each| &each.failed).next().copied().unwrap_or(1);
        bail!("the command failed with {code}, however it was placed; there is nothing to compare");
    }
    let planned = placements.first().and_then(|each| each.seconds);
    for each in placements {
        each.ratio = each.seconds.zip(planned).map(|(seconds, planned)| seconds / planned);
    }
    Ok(())
}

impl Compared {
    fn of(name: &'static str) -> Compared {
        let (runs, failed, seconds, ratio) = (Vec::new(), Vec::new(), None, None);
        Compared { name, runs, failed, seconds, ratio, fast_bytes: 0, middle_bytes: None }
    }

    fn add(&mut self, (code, trace): (i32, Trace), plan: &Plan) -> Result<()> {
        let tiers = &plan.tiers;
        match seconds(&trace) {
            Some(seconds) if code == 0 => self.runs.push(seconds),
            _ => self.failed.push(code),
        }
        let fast_bytes = if tiers.slow == SWAP {
            trace.meta().peak.resident_bytes
        } else {
            most_bytes(&trace, &tiers.fast)?
        };
        self.fast_bytes = self.fast_bytes.max(fast_bytes);
        if let Some(middle) = &plan.middle {
            self.middle_bytes = self.middle_bytes.max(Some(most_bytes(&trace, &middle.tier)?));
        }
        Ok(())
    }
}

fn table(comparison: &Comparison) -> String {
    let Comparison { tiers, fast_bytes, middle, placements } = comparison;
    let mut text = format!("{} of {}", Bytes(*fast_bytes), tiers.fast);
    if let Some(MiddleTier { tier, bytes }) = middle {
        text += &format!(", {} of {tier}", Bytes(*bytes));
    }
    text += "\n                 time   / planned";
    text += if middle.is_some() { "      in fast    in middle\n" } else { "      in use\n" };
    for Compared { name, runs, failed, seconds, ratio, fast_bytes, middle_bytes } in placements {
        let seconds = seconds.map_or("failed".to_owned(), |seconds| format!("{seconds:.2} s"));
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let bytes = Bytes(*fast_bytes).to_string();
        text += &format!("  {name:11} {seconds:>10} {ratio:>10} {bytes:>12}");
        if let Some(bytes) = middle_bytes {
            text += &format!(" {:>12}", Bytes(*bytes).to_string());
        }
        if !failed.is_empty() {
            text += &format!("   {} of {} runs failed", failed.len(), runs.len() + failed.len());
        }
        text += "\n";
    }
    text
}
