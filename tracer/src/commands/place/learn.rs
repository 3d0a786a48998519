//! `place learn`: a run of a command for each tier, with all its large blocks there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use memtrace_trace::Trace;
use memtrace_wire::placement::Tier;

use super::source::{MACHINE, MIDDLE, WATCHED};
use super::warm::warm;
use super::{calibrate, tier};
use crate::commands::output;
use crate::record::{self, Earlier};
use crate::terminal::{is_quiet, say};

/// What is used once before the first run, whose peak is not known.
const WARM_BYTES: u64 = 512 << 20;

/// Arguments of `place learn`.
#[derive(Args)]
pub struct Learn {
    /// Directory for the traces: slow, fast, and middle where there are three tiers
    #[arg(short, long, value_name = "DIR", value_parser = output::directory())]
    output: PathBuf,
    /// Replace the traces in that directory, all of them
    #[arg(short, long)]
    force: bool,
    /// The slow tier, of which there is enough, the fast one, and one between them if there is one:
    /// small-pages, huge-pages or node:N; or swap,dram
    #[arg(long, value_name = "SLOW,[MIDDLE,]FAST", value_parser = parse_base, default_value = "small-pages,huge-pages")]
    base: Base,
    /// Run the command so many times in each tier, and keep the fastest runs: for machines on which
    /// runs of the same command differ
    #[arg(long, value_name = "RUNS", default_value_t = 1)]
    repeat: u32,
    /// The command; what it prints goes to standard error
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The tiers.
#[derive(Clone, Copy)]
enum Base {
    /// Blocks are in one of them.
    Tiers { slow: Tier, middle: Option<Tier>, fast: Tier },
    /// Pages move between memory and swap.
    Swap,
}

fn parse_base(text: &str) -> Result<Base, String> {
    let names: Vec<&str> = text.split(',').collect();
    if names == [tier::SWAP, tier::DRAM] {
        return Ok(Base::Swap);
    }
    if names.len() == 3 && names.contains(&tier::SWAP) {
        return Err("with swap there are two tiers: write swap,dram".into());
    }
    let tiers = names.into_iter().map(tier::parse).collect::<Result<Vec<_>, _>>()?;
    let (slow, middle, fast) = match tiers[..] {
        [slow, fast] => (slow, None, fast),
        [slow, middle, fast] => (slow, Some(middle), fast),
        _ => return Err("write two tiers or three, e.g. small-pages,huge-pages".into()),
    };
    if slow == Tier::HugePages {
        return Err("huge-pages cannot be the slow tier: small blocks have no place there".into());
    }
    if !tier::are_different(&slow, middle.as_ref(), &fast) {
        return Err("two of the tiers are the same; name others".into());
    }
    Ok(Base::Tiers { slow, middle, fast })
}

/// `memtrace place learn`
pub fn run(arguments: &Learn) -> Result<ExitCode> {
    let machine = match arguments.base {
        Base::Swap => Some(calibrate::measured()?),
        Base::Tiers { .. } => None,
    };
    let runs: Vec<(&str, Tier, Purpose)> = match arguments.base {
        Base::Tiers { slow, middle, fast } => {
            let runs = [("slow", Some(slow)), (MIDDLE, middle), ("fast", Some(fast))];
            let of = |(name, tier): (_, Option<Tier>)| Some((name, tier?, Purpose::Sample));
            runs.into_iter().filter_map(of).collect()
        }
        Base::Swap => vec![("fast", Tier::Dram, Purpose::Time), (WATCHED, Tier::Dram, Purpose::Watch)],
    };
    runs.iter().try_for_each(|(_, tier, _)| tier::check(*tier))?;
    let mut earlier = earlier(arguments)?;
    let mut bytes = WARM_BYTES;
    for number in 0..arguments.repeat.max(1) {
        for (name, tier, purpose) in runs.iter().copied() {
            if purpose == Purpose::Watch && number > 0 {
                continue;
            }
            warm(tier, bytes);
            let first = arguments.output.join(name);
            let further = arguments.output.join(format!("{name}-again"));
            let output = if number == 0 { &first } else { &further };
            recorded(arguments, output, tier, purpose, &mut earlier)?;
            bytes = Trace::open(output)?.meta().peak.resident_bytes;
            if number > 0 {
                keep_the_faster(&first, &further)?;
            }
        }
    }
    if let Some(machine) = machine {
        output::write(&arguments.output.join(MACHINE), machine.to_json().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The traces that are there, moved aside: those of two learnings must not mix.
fn earlier(arguments: &Learn) -> Result<Vec<Earlier>> {
    let mut all = Vec::new();
    for name in ["slow", MIDDLE, "fast", WATCHED] {
        all.extend(Earlier::move_aside(&arguments.output.join(name), arguments.force)?);
    }
    Ok(all)
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// What the program spends its time on.
    Sample,
    /// How long it takes.
    Time,
    /// Which blocks it uses when; and what it spends its time on.
    Watch,
}

/// Records the command with all its blocks in one tier. Once it has run, earlier traces go.
fn recorded(
    arguments: &Learn,
    output: &Path,
    tier: Tier,
    purpose: Purpose,
    earlier: &mut Vec<Earlier>,
) -> Result<()> {
    if !is_quiet() {
        let also = if purpose == Purpose::Watch { ", watching which of them are used" } else { "" };
        say(&format!("running with all large blocks in {}{also}", record::tier_name(tier)));
    }
    let samples = purpose != Purpose::Time;
    let options = record::Options {
        // What a run that was interrupted has left.
        replace: true,
        prints_to_stderr: true,
        accesses: if samples { record::Accesses::Clock } else { record::Accesses::Off },
        placing: Some(record::Placing::All { tier, watch: purpose == Purpose::Watch }),
        ..record::Options::of(output.to_owned(), arguments.command.clone())
    };
    let outcome = record::run(&options)?;
    earlier.drain(..).for_each(Earlier::remove);
    match outcome.cut_short {
        Some(why) => bail!("{why}"),
        None if outcome.code != 0 => {
            bail!("the command failed with {}; a plan needs runs that succeed", outcome.code)
        }
        None => {}
    }
    match Trace::open(output)?.meta().recorded.get("accesses_why").filter(|_| samples) {
        Some(why) => bail!("the clock cannot be sampled here: {why}"),
        None => Ok(()),
    }
}

/// Leaves the trace of the faster of two runs at the first one's place.
fn keep_the_faster(first: &Path, further: &Path) -> Result<()> {
    let took = |path| {
        let trace = Trace::open(path)?;
        let times = trace.meta().user_ns.zip(trace.meta().system_ns);
        Ok::<_, anyhow::Error>(times.map_or(u64::MAX, |(user, system)| user + system))
    };
    let slower = if took(further)? < took(first)? { first } else { further };
    fs::remove_dir_all(slower).with_context(|| format!("cannot remove {}", slower.display()))?;
    if slower == first {
        fs::rename(further, first).with_context(|| format!("cannot rename {}", further.display()))?;
    }
    Ok(())
}
