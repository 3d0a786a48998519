//! github-action-benchmark: what was measured, whatever the budgets (`customSmallerIsBetter`).

use anyhow::Result;
use serde::Serialize;

use super::super::outcome::{Checked, Outcome};

#[derive(Serialize)]
struct Measured {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<String>,
}

/// A measurement for each comparison.
pub fn report(checked: &Checked) -> Result<String> {
    let measured = |outcome: &Outcome| Measured {
        name: format!("{}: {}", outcome.of, outcome.figure),
        unit: outcome.unit,
        value: outcome.measured,
        extra: outcome.place.clone(),
    };
    Ok(serde_json::to_string_pretty(&checked.outcomes.iter().map(measured).collect::<Vec<_>>())? + "\n")
}
