//! `place`: which large blocks belong into fast memory, what that gains, and doing it.

mod calibrate;
pub mod compare;
mod learn;
mod plan;
mod run;
mod sentences;
mod source;
mod tier;
mod warm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `place`.
#[derive(Args)]
pub struct Place {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Measure what it costs to move pages to swap and back
    Calibrate(calibrate::Calibrate),
    /// Run a command in each tier, with all its large blocks there
    Learn(learn::Learn),
    /// Choose which of its blocks go to the fast tier
    Plan(plan::Make),
    /// Estimate the time of a plan, with objects moved
    Estimate(plan::Estimate),
    /// Run the command with its blocks where the plan has them
    Run(run::Run),
    /// Compare the plan with placements that need no estimate, by runs of each
    Compare(compare::Compare),
}

/// `memtrace place`
pub fn run(arguments: &Place) -> Result<ExitCode> {
    match &arguments.step {
        Step::Calibrate(arguments) => calibrate::run(arguments),
        Step::Learn(arguments) => learn::run(arguments),
        Step::Plan(arguments) => plan::make(arguments),
        Step::Estimate(arguments) => plan::estimate(arguments),
        Step::Run(arguments) => run::run(arguments),
        Step::Compare(arguments) => compare::run(arguments),
    }
}
