//! Where the trace is, and which commands say more of it.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::operators::Operator;
use memtrace_trace::Trace;

use crate::terminal::clean;

/// The last lines of the summary.
pub fn commands(out: &mut String, trace: &Trace, operators: &[Operator], columns: usize) -> Result<()> {
    let path = clean(&quoted(&trace.directory().display().to_string()));
    let mut words = vec!["report --details", "flamegraph"];
    // Calls of an operator had inputs of several sizes: a law can be fitted.
    if operators.iter().any(|operator| operator.has_sizes) {
        words.push("fit");
    }
    writeln!(out)?;
    writeln!(out, "  trace: {path}")?;
    for (number, line) in fitting(&words, &path, columns).iter().enumerate() {
        writeln!(out, "  {:<7}{line}", if number == 0 { "next:" } else { "" })?;
    }
    Ok(())
}

/// The commands in one line, or where that is too long, in one each, or with a short name for the
/// trace.
fn fitting(words: &[&str], path: &str, columns: usize) -> Vec<String> {
    const INDENT: usize = 9;
    let named =
        |path: &str| -> Vec<String> { words.iter().map(|word| format!("memtrace {word} {path}")).collect() };
    let fits = |lines: &[String]| lines.iter().all(|line| INDENT + line.chars().count() <= columns);
    let ways = [vec![named(path).join("; ")], named(path), vec![named("TRACE").join("; ")]];
    ways.into_iter().find(|lines| fits(lines)).unwrap_or_else(|| named("TRACE"))
}

/// As a shell reads it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if path.chars().all(plain) { path.into() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fit_the_screen() {
        let words = ["report --details", "flamegraph", "fit"];
        for (path, columns, lines) in [("t", 100, 1), ("trace", 80, 3), (&"a".repeat(40), 80, 3)] {
            let found = fitting(&words, path, columns);
            assert_eq!(found.len(), lines, "{found:?}");
            assert!(found.iter().all(|line| line.ends_with(path)), "{found:?}");
        }
        let found = fitting(&words, &"a".repeat(90), 80);
        assert!(found.iter().all(|line| line.ends_with("TRACE") && line.len() <= 71), "{found:?}");
    }
}
