//! Collapsed stacks: a line for each, outermost frame first, as flamegraph.pl and inferno read them.

use std::fmt::Write;

use memtrace_analysis::profile::stacks::base_name;
use memtrace_analysis::report::export::{Exported, Frame};

use crate::terminal::clean;

/// Bytes at the peak of live bytes.
pub fn text(exported: &Exported) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(exported.frames.len());
    for frame in &exported.frames {
        let before = frame.parent.map(|parent| format!("{};", texts[parent])).unwrap_or_default();
        texts.push(before + &name(frame));
    }
    let mut out = String::new();
    for stack in exported.stacks.iter().filter(|stack| stack.at_peak > 0) {
        let _ = writeln!(out, "{} {}", texts[stack.frame], stack.at_peak);
    }
    out
}

/// `gst3d (run_gst3d.py:41)`; a semicolon would begin another frame.
fn name(frame: &Frame) -> String {
    let text = match (frame.file.as_str(), frame.line) {
        ("", _) if frame.library.is_empty() => frame.function.clone(),
        ("", _) => format!("{} ({})", frame.function, frame.library),
        (file, line) => format!("{} ({}:{line})", frame.function, base_name(file)),
    };
    clean(&text).replace(';', ",")
}
