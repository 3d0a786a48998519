//! What `check` prints: for people, and for the services that run it.

mod benchmark;
mod github;
mod gitlab;
mod junit;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;

use super::outcome::{Checked, Outcome};
use crate::commands::json;
use crate::terminal::{clean, print, print_document};

/// What to print.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each budget that is exceeded
    Text,
    /// Everything that was compared, as JSON
    Json,
    /// Annotations of GitHub Actions, and a summary of the step
    Github,
    /// A Code Quality report of GitLab
    Gitlab,
    /// A JUnit report, a test case for each comparison
    Junit,
    /// What was measured, for github-action-benchmark (customSmallerIsBetter)
    Benchmark,
}

impl Format {
    /// Prints what came of a check against the budgets of a file.
    pub fn print(self, checked: &Checked, budgets: &Path) -> Result<()> {
        match self {
            Format::Text => print(&text(checked)?),
            Format::Json => json::print(checked),
            Format::Github => {
                github::append_summary(checked)?;
                print(&github::annotations(checked, budgets))
            }
            Format::Gitlab => print_document(&gitlab::report(checked, budgets)?),
            Format::Junit => print_document(&junit::report(checked)?),
            Format::Benchmark => print_document(&benchmark::report(checked)?),
        }
    }
}

fn text(checked: &Checked) -> Result<String> {
    let mut out = String::new();
    for outcome in checked.exceeded() {
        writeln!(out, "{}", outcome.sentence())?;
    }
    for sentence in &checked.unmatched {
        writeln!(out, "{}", clean(sentence))?;
    }
    let (all, within) =
        (checked.outcomes.len(), checked.outcomes.iter().filter(|each| !each.exceeded).count());
    writeln!(out, "{}: {within} of {all} figures within their budgets", clean(&checked.subject))?;
    Ok(out)
}

/// Sentences on what fails, each with its file and line.
fn failures<'a>(checked: &'a Checked, budgets: &Path) -> Vec<Failure<'a>> {
    let exceeded = checked.exceeded().map(|outcome| Failure {
        sentence: outcome.sentence(),
        file: outcome.file.as_deref().map(relative),
        line: outcome.line,
        outcome: Some(outcome),
    });
    let unmatched = checked.unmatched.iter().map(|sentence| Failure {
        sentence: clean(sentence),
        file: budgets.to_str().map(relative),
        line: None,
        outcome: None,
    });
    exceeded.chain(unmatched).collect()
}

struct Failure<'a> {
    sentence: String,
    file: Option<String>,
    line: Option<u32>,
    /// Nothing where a budget is of nothing.
    outcome: Option<&'a Outcome>,
}

/// Services know files by their paths in the repository: they say where that is, or else it is where
/// `check` runs.
fn relative(file: &str) -> String {
    let named = ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"].into_iter().filter_map(std::env::var_os);
    let roots = named.map(PathBuf::from).chain(std::env::current_dir());
    let inside = |root: PathBuf| Path::new(file).strip_prefix(root).ok().map(Path::to_path_buf);
    let inside = roots.filter(|root| root.is_absolute()).find_map(inside);
    inside.map_or_else(|| file.trim_start_matches("./").to_owned(), |path| path.display().to_string())
}
