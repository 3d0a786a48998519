//! GitLab: a Code Quality report.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::super::outcome::Checked;
use super::failures;

#[derive(Serialize)]
struct Violation {
    description: String,
    check_name: &'static str,
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
}

/// A violation for each budget that fails. What is at no known line is at the file of the budgets.
pub fn report(checked: &Checked, budgets: &Path) -> Result<String> {
    let violations: Vec<Violation> = failures(checked, budgets)
        .into_iter()
        .map(|failure| {
            // The same budget of the same operator is the same violation, whatever was measured.
            let fingerprint = match failure.outcome {
                Some(outcome) => format!("memtrace {} {} {}", outcome.budget, outcome.of, outcome.figure),
                None => format!("memtrace {}", failure.sentence),
            };
            let path = failure.file.unwrap_or_else(|| super::relative(&budgets.display().to_string()));
            Violation {
                description: failure.sentence,
                check_name: "memory-budget",
                fingerprint,
                severity: "major",
                location: Location { path, lines: Lines { begin: failure.line.unwrap_or(1) } },
            }
        })
        .collect();
    Ok(serde_json::to_string_pretty(&violations)? + "\n")
}
