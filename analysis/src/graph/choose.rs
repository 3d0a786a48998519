//! Chunks for a whole pipeline: the fastest grid whose workers stay under their budget, and how
//! many workers.

use super::answer::{Answer, Limits};
use super::chunks::Whole;
use super::measure::Laws;
use super::search::{Found, Search};
use super::{Error, Graph, Libraries};
use crate::model::Model;
use crate::plan::Workers;
use crate::plan::workers::worthwhile;

/// One grid for the whole pipeline.
///
/// # Errors
/// A graph that is cut already or has no source with axes, a step without a law, limits that make no sense.
pub fn recommend(
    model: &Model,
    libraries: &Libraries,
    graph: &Graph,
    limits: &Limits,
) -> Result<Answer, Error> {
    check(limits)?;
    let laws = Laws::new(model, libraries);
    let whole = Whole::new(&laws, graph)?;
    let mut search = Search::new(&laws, &whole, limits);
    let found = limits.workers.found(|found: &Found| found.seconds, |workers| search.fastest(workers));
    if found.is_empty() {
        return search.refusal(limits.workers.most()).map(Answer::Refusal);
    }
    let seconds: Vec<(u64, f64)> = found.iter().map(|(workers, found)| (*workers, found.seconds)).collect();
    let chosen = worthwhile(&seconds);
    Ok(Answer::Plan(Box::new(search.describe(&found, chosen))))
}

fn check(limits: &Limits) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::Request(what.into()));
    if limits.workers == Workers::Number(0) || limits.threads_per_worker == 0 {
        return wrong("workers and threads per worker must be at least 1");
    }
    if !(limits.budget_fraction > 0.0 && limits.budget_fraction <= 1.0) {
        return wrong("the usable part of the memory limit must be above 0 and at most 1");
    }
    Ok(())
}
