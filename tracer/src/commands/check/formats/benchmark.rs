//! github-action-benchmark: what was measured, whatever the budgets (`customSmallerIsBetter`).

use std::collections::HashSet;

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

/// A measurement for each figure of each operator or recording: the tool tells them apart by name, so
/// two budgets of one figure are one measurement.
pub fn report(checked: &Checked) -> Result<String> {
    let mut names = HashSet::new();
    let measured = |outcome: &Outcome| Measured {
        name: format!("{}: {}", outcome.of, outcome.figure),
        unit: outcome.unit,
        value: outcome.measured,
        extra: outcome.place.clone(),
    };
    let all = checked.outcomes.iter().map(measured);
    let different: Vec<_> = all.filter(|measured| names.insert(measured.name.clone())).collect();
    Ok(serde_json::to_string_pretty(&different)? + "\n")
}
