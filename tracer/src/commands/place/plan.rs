//! `place plan` and `place estimate`: which blocks go to the fast tier, and what that gains.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use memtrace_analysis::placement::search::Search;
use memtrace_analysis::placement::{Plan, Where};

use super::run;
use super::sentences::sentences;
use super::source::{Room, Source};
use super::tier::SWAP;
use crate::commands::output;
use crate::commands::usage::Usage;
use crate::terminal::{Progress, print, print_document, say};
use crate::units::{Bytes, parse_limit};

/// Arguments of `place plan`.
#[derive(Args)]
pub struct Make {
    /// Directory that place learn wrote
    directory: PathBuf,
    /// Bytes of the fast tier that the program may use
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    fast: u64,
    /// Bytes of the middle one of three tiers that it may use
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    middle: Option<u64>,
    /// Run the command with the plan, and correct the estimate by what it takes, so many times; what
    /// it prints goes to standard error
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    verify: u32,
    /// How to search for the choice: exact; evolve and random, the best of 300 by the estimate; or
    /// policy, a small network trained on other programs
    #[arg(long, value_name = "HOW", value_parser = parse_search, default_value = "exact")]
    search: Search,
    /// Where to write the plan
    #[arg(short, long, value_name = "PLAN.json", default_value = "plan.json")]
    output: PathBuf,
    /// Print the plan as JSON, too
    #[arg(long)]
    json: bool,
}

/// Arguments of `place estimate`.
#[derive(Args)]
pub struct Estimate {
    /// A plan that place plan wrote
    plan: PathBuf,
    /// Move an object, by its number in the plan's table, or all of them, e.g. 2=fast or all=slow
    #[arg(long = "move", value_name = "NUMBER=TIER", value_parser = parse_move)]
    moves: Vec<Move>,
    /// Write the plan with the objects moved
    #[arg(short, long, value_name = "PLAN.json")]
    output: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

/// An object, or all of them, and where they go.
#[derive(Clone)]
struct Move(Option<usize>, Where);

fn parse_move(text: &str) -> Result<Move, String> {
    let why = || "write NUMBER=fast, NUMBER=middle or NUMBER=slow; or all= instead of a number".to_owned();
    let (object, tier) = text.split_once('=').ok_or_else(why)?;
    let tier = match tier {
        "fast" => Where::Fast,
        "middle" => Where::Middle,
        "slow" => Where::Slow,
        _ => return Err(why()),
    };
    match object {
        "all" => Ok(Move(None, tier)),
        number => number.parse().map(|number| Move(Some(number), tier)).map_err(|_| why()),
    }
}

fn parse_search(text: &str) -> Result<Search, String> {
    match text {
        "exact" => Ok(Search::Exact),
        "evolve" => Ok(Search::Evolve),
        "policy" => Ok(Search::Policy),
        "random" => Ok(Search::Random),
        _ => Err(format!("{text:?} is no search; write exact, evolve, policy or random")),
    }
}

/// `memtrace place plan`
pub fn make(arguments: &Make) -> Result<ExitCode> {
    output::check(&arguments.output, arguments.json)?;
    let progress = Progress::start("planning");
    let mut learned = Source::open(&arguments.directory)?;
    let plan = learned.plan(arguments.room(), arguments.search)?;
    drop(progress);
    let plan = verified(arguments, &mut learned, plan)?;
    output::write(&arguments.output, plan.to_json().as_bytes())?;
    answer(&plan, arguments.json, output::is_standard(&arguments.output))
}

impl Make {
    fn room(&self) -> Room {
        Room { fast: self.fast, middle: self.middle }
    }
}

/// The best plan after runs of it and of those that follow from them.
fn verified(arguments: &Make, learned: &mut Source, mut plan: Plan) -> Result<Plan> {
    let mut fastest: Option<(f64, Plan)> = None;
    // Other work on the machine slows single runs down: one that takes too long is made again.
    let mut took_too_long = false;
    let mut held = Vec::new();
    for number in 1..=arguments.verify {
        if (learned.has_run(&plan) && !took_too_long) || (learned.is_swap() && !plan.worth) {
            break;
        }
        let trace = arguments.directory.join(format!("verified-{number}"));
        let took = run::measured(&plan, learned.meta(), trace)?;
        took_too_long = took.seconds > plan.seconds.planned + plan.seconds.uncertainty;
        learned.ran(&plan, took.seconds);
        held.extend(took.held_bytes.map(|bytes| (plan.moves.clone(), bytes)));
        if fastest.as_ref().is_none_or(|(least, _)| took.seconds < *least) {
            fastest = Some((took.seconds, plan));
        }
        plan = learned.plan(arguments.room(), arguments.search)?;
    }
    // What was measured is better than what is told to be a little better.
    if let Some((seconds, mut measured)) = fastest
        && !learned.has_run(&plan)
        && seconds <= plan.seconds.planned + plan.seconds.uncertainty
    {
        if learned.is_swap() {
            // What it took corrects what is told of the kernel, too.
            measured.seconds = plan.seconds;
        }
        measured.took(seconds);
        if measured.worth || !learned.is_swap() {
            plan = measured;
        }
    }
    let of_plan = held.into_iter().filter(|(moves, _)| *moves == plan.moves).map(|(_, bytes)| bytes);
    let excess = of_plan.max().map_or(0, |most| most.saturating_sub(plan.fast_bytes));
    if learned.is_swap() && plan.worth && excess > 0 {
        plan.notes.push(format!(
            "a run of it held {} more than --fast: where the kernel may not swap, give so much less",
            Bytes(excess)
        ));
    }
    Ok(plan)
}

/// `memtrace place estimate`
pub fn estimate(arguments: &Estimate) -> Result<ExitCode> {
    let mut plan = Plan::load(&arguments.plan)?;
    if plan.tiers.slow == SWAP && !arguments.moves.is_empty() {
        bail!(Usage(
            "objects of a plan with swap move while the program runs; make one with another --fast".into()
        ));
    }
    if plan.middle.is_none() && arguments.moves.iter().any(|Move(_, tier)| *tier == Where::Middle) {
        bail!(Usage("the plan has two tiers, fast and slow; move objects to one of these".into()));
    }
    for Move(object, tier) in &arguments.moves {
        let objects = plan.objects.len();
        match object {
            None => plan.objects.iter_mut().for_each(|object| object.tier = *tier),
            Some(number) => match number.checked_sub(1).and_then(|index| plan.objects.get_mut(index)) {
                Some(object) => object.tier = *tier,
                None => bail!(Usage(format!("the plan has the objects 1 to {objects}, not {number}"))),
            },
        }
    }
    if !arguments.moves.is_empty() {
        plan.moved();
    }
    if let Some(path) = &arguments.output {
        output::check(path, arguments.json)?;
        output::write(path, plan.to_json().as_bytes())?;
    }
    answer(&plan, arguments.json, arguments.output.as_deref().is_some_and(output::is_standard))
}

fn answer(plan: &Plan, as_json: bool, is_printed: bool) -> Result<ExitCode> {
    if as_json {
        print_document(&plan.to_json())?;
    } else if is_printed {
        plan.notes.iter().for_each(|note| say(note));
    } else {
        print(&sentences(plan)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
