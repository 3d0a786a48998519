//! The best chunks for a request, and how many workers are worth having.

use super::answer::{Answer, Choice, Plan, Refusal};
use super::candidate::Law;
use super::error::PlanError;
use super::request::{Request, Source};
use super::search::Search;
use super::time::SAME_TIME;
use super::why;
use super::workers::{self, Workers};
use crate::error::Error;
use crate::model::TaskBytes;

/// The best chunks under the budget, or the smallest budget that would do.
///
/// `law` gives the bytes and seconds of one call for an input of a shape: it is called for
/// chunk + halo.
///
/// # Errors
/// A request that contradicts itself, or a law that fails for every chunk.
pub fn recommend(
    request: &Request,
    law: &dyn Fn(&[u64]) -> Result<TaskBytes, Error>,
) -> Result<Answer, PlanError> {
    request.check()?;
    let answer = with_source(request, law)?;
    if request.source != Source::Dask {
        return Ok(answer);
    }
    let waves = || Request { source: Source::Waves, extra: None, ..request.clone() };
    let in_waves = || match with_source(&waves(), law) {
        Ok(Answer::Plan(plan)) => Some(plan.as_choice()),
        _ => None,
    };
    Ok(match answer {
        Answer::Plan(plan) if plan.predicted_frontier_bytes > plan.predicted_task_bytes => {
            let faster =
                in_waves().filter(|waves| waves.predicted_seconds * SAME_TIME < plan.predicted_seconds);
            Answer::Plan(Box::new(plan.with_waves(faster)))
        }
        Answer::Refusal(refusal) => Answer::Refusal(refusal.with_waves(in_waves())),
        plan => plan,
    })
}

/// Chunks for a source as the request has it, or what they would need.
fn with_source(request: &Request, law: Law) -> Result<Answer, PlanError> {
    if let Some(plan) = planned(request, law)? {
        return Ok(Answer::Plan(Box::new(plan)));
    }
    let aligned = request.storage_chunks.as_deref().filter(|_| request.aligned);
    let refusal = Search::new(request, law, aligned)?.refusal();
    let unknown = || PlanError::Request("no chunk of this array can be predicted".into());
    refusal.map(Answer::Refusal).ok_or_else(unknown)
}

/// Chunks that fit: of whole chunks of the store if some of these do, or if they must be. Those that
/// need slow memory only if they are faster.
fn planned(request: &Request, law: Law) -> Result<Option<Plan>, PlanError> {
    let stored = request.storage_chunks.as_deref();
    let aligned = Search::new(request, law, stored)?;
    let any = match (aligned.plan(), stored) {
        (None, Some(_)) if !request.aligned => Some(Search::new(request, law, None)?),
        (plan, _) => return Ok(aligned.in_slow_memory(plan.as_ref()).or(plan)),
    };
    let plan = any.as_ref().and_then(Search::plan).map(Plan::unaligned);
    let slow = aligned.in_slow_memory(plan.as_ref());
    let slow = slow.or_else(|| any?.in_slow_memory(plan.as_ref()).map(Plan::unaligned));
    Ok(slow.or(plan))
}

/// The same, and how many workers are worth having; the number in the request is ignored.
///
/// # Errors
/// As [`recommend`].
pub fn recommend_workers(
    request: &Request,
    law: &dyn Fn(&[u64]) -> Result<TaskBytes, Error>,
) -> Result<Answer, PlanError> {
    request.check()?;
    let with = |workers| recommend(&Request { workers, ..request.clone() }, law);
    let found = Workers::Auto.found(
        |plan: &Plan| plan.predicted_seconds,
        |workers| planned(&Request { workers, ..request.clone() }, law).ok().flatten(),
    );
    let seconds: Vec<(u64, f64)> =
        found.iter().map(|(workers, plan)| (*workers, plan.predicted_seconds)).collect();
    let chosen = workers::worthwhile(&seconds);
    let Some((number, plan)) = found.get(chosen) else { return with(Workers::Auto.most()) };
    let why = format!("{}{}", plan.why.trim_end_matches('.'), workers::why(&seconds, chosen));
    let tried = found.iter().map(|(_, plan)| plan.as_tried()).collect();
    Ok(match with(*number)? {
        Answer::Plan(plan) => Answer::Plan(Box::new(Plan { tried, why, ..*plan })),
        refusal => refusal,
    })
}

impl Plan {
    fn with_waves(self, waves: Option<Choice>) -> Plan {
        let why = waves.as_ref().map_or(String::new(), |waves| why::in_waves(waves, "faster"));
        Plan { why: self.why.clone() + &why, waves, ..self }
    }

    fn unaligned(self) -> Plan {
        Plan { why: self.why.clone() + " No chunks made of whole chunks of the store fit.", ..self }
    }
}

impl Refusal {
    fn with_waves(self, waves: Option<Choice>) -> Refusal {
        let why = waves.as_ref().map_or(String::new(), |waves| why::in_waves(waves, "within the budget"));
        Refusal { why: self.why.clone() + &why, waves, ..self }
    }
}
