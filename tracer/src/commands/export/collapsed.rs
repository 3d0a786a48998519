//! Collapsed stacks: a line for each, outermost frame first, as flamegraph.pl and inferno read them.

use std::fmt::Write;

use memtrace_analysis::report::export::{Exported, Frame};

use crate::terminal::clean;

/// Bytes at the peak of live bytes.
pub fn text(exported: &Exported) -> String {
    let names: Vec<String> = exported.frames.iter().map(name).collect();
    let mut out = String::new();
    for stack in exported.stacks.iter().filter(|stack| stack.at_peak > 0) {
        let frames = exported.outermost_first(stack.frame);
        let line: Vec<&str> = frames.iter().map(|frame| names[*frame].as_str()).collect();
        let _ = writeln!(out, "{} {}", line.join(";"), stack.at_peak);
    }
    out
}

/// A semicolon would begin another frame.
fn name(frame: &Frame) -> String {
    clean(&frame.label()).replace(';', ",")
}
