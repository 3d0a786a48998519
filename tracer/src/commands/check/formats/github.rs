//! GitHub Actions: workflow commands that annotate lines, and the summary of the step.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::super::outcome::Checked;
use super::failures;
use crate::terminal::clean;

/// An annotation for each budget that fails.
pub fn annotations(checked: &Checked, budgets: &Path) -> String {
    let mut out = String::new();
    for failure in failures(checked, budgets) {
        let mut properties = vec!["title=memory budget".to_owned()];
        if let Some(file) = &failure.file {
            properties.push(format!("file={}", property(file)));
        }
        if let Some(line) = failure.line {
            properties.push(format!("line={line}"));
        }
        let _ = writeln!(out, "::error {}::{}", properties.join(","), message(&failure.sentence));
    }
    out
}

fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

/// Appends a table to the file that `GITHUB_STEP_SUMMARY` names.
pub fn append_summary(checked: &Checked) -> Result<()> {
    let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty()) else {
        return Ok(());
    };
    let path = Path::new(&file);
    let appended = OpenOptions::new().create(true).append(true).open(path);
    appended
        .and_then(|mut file| file.write_all(summary(checked).as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn summary(checked: &Checked) -> String {
    let mut out = String::from("### Memory budgets\n\n| | of | figure | measured | budget | at |\n");
    out += "|---|---|---|---:|---:|---|\n";
    for outcome in &checked.outcomes {
        let verdict = if outcome.exceeded { "❌" } else { "✅" };
        let (measured, limit) = (outcome.shown(outcome.measured), outcome.shown(outcome.limit));
        let (of, place) = (cell(&outcome.of), cell(outcome.place.as_deref().unwrap_or_default()));
        let _ = writeln!(out, "| {verdict} | {of} | {} | {measured} | {limit} | {place} |", outcome.figure);
    }
    for sentence in &checked.unmatched {
        let _ = writeln!(out, "\n❌ {}", cell(sentence));
    }
    out
}

/// Text in a cell of a table in Markdown, which may hold HTML.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for character in clean(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '(' | ')' | '!' | '~' | '#' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_command_early() {
        assert_eq!(property("a:b,c%d\n"), "a%3Ab%2Cc%25d%0A");
        assert_eq!(message("10.0 %: a, b"), "10.0 %25: a, b");
        assert_eq!(cell("a|b<script>"), "a\\|b&lt;script&gt;");
        assert_eq!(cell("__main__:f\\|"), "\\_\\_main\\_\\_:f\\\\\\|");
    }
}
