//! A table of lines as text: columns separated by tabs, under a line with their names.

use std::fmt::Write;

use memtrace_analysis::report::export::Line;

use crate::terminal::clean;

/// The figures of heaptrack's tables, in their order.
pub fn text(lines: &[Line]) -> String {
    let mut out = String::from("peak_bytes\tleaked_bytes\tallocations\ttemporary\tfunction\tfile\tline\n");
    let optional = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    for line in lines {
        let figures = [line.at_peak, line.at_end, line.blocks].map(|figure| figure.to_string());
        let (temporary, number) = (optional(line.temporary), optional(line.line.map(u64::from)));
        let (function, file) = (clean(&line.function), clean(&line.file));
        let _ = writeln!(out, "{}\t{temporary}\t{function}\t{file}\t{number}", figures.join("\t"));
    }
    out
}
