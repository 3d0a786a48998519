//! Where the trace is, and which commands say more of it.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::operators::Sums;
use memtrace_trace::Trace;

use crate::terminal::clean;

/// The last lines of the summary.
pub fn commands(out: &mut String, trace: &Trace, operators: &[Sums], columns: usize) -> Result<()> {
    let path = clean(&quoted(&trace.directory().display().to_string()));
    let mut words = vec!["report --details", "flamegraph"];
    // Calls of an operator had inputs of several sizes: a law can be fitted.
    if operators.iter().any(|sums| sums.has_sizes) {
        words.push("fit");
    }
    writeln!(out)?;
    writeln!(out, "  trace: {path}")?;
    writeln!(out, "{}", fitting(&mut words, &path, columns))?;
    Ok(())
}

/// The commands in one line: where it is too long, with a short name for the trace, then without
/// the second of them.
fn fitting(words: &mut Vec<&str>, path: &str, columns: usize) -> String {
    let line = |words: &[&str], path: &str| {
        let commands: Vec<String> = words.iter().map(|word| format!("memtrace {word} {path}")).collect();
        format!("  next:  {}", commands.join("; "))
    };
    let whole = line(words, path);
    if whole.chars().count() <= columns {
        return whole;
    }
    while words.len() > 1 && line(words, "TRACE").chars().count() > columns {
        words.remove(1);
    }
    line(words, "TRACE")
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
        for path in ["t", "trace", "/home/somewhere/that/is/rather/long/trace"] {
            for columns in [80, 100] {
                let mut words = vec!["report --details", "flamegraph", "fit"];
                let line = fitting(&mut words, path, columns);
                assert!(line.chars().count() <= columns, "{line}");
                assert!(line.contains("memtrace fit "), "{line}");
            }
        }
    }
}
