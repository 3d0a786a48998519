//! A trace over time.

use anyhow::Result;
use memtrace_analysis::report::page::timeline;
use memtrace_trace::Trace;

use super::figure::{Figure, Mark};
use crate::units::Bytes;

/// Live, resident and mapped bytes of all processes together, with the peak.
pub fn figure(trace: &Trace) -> Result<Figure> {
    let timeline = timeline(trace)?;
    let meta = trace.meta();
    let mut figure = Figure { title: meta.command.join(" "), over: "seconds".into(), ..Figure::default() };
    let seconds = |ns: i64| ns as f64 / 1e9;
    for curve in timeline.together() {
        let at = timeline.times.iter().map(|ns| seconds(*ns)).zip(&curve.bytes);
        let known = at.filter_map(|(at, bytes)| Some((at, (*bytes)? as f64)));
        figure.add(curve.name, Mark::Line, known.collect());
    }
    let peak = meta.peak.live_bytes;
    figure.add(format!("peak: {}", Bytes(peak)), Mark::Dots, vec![(seconds(meta.peak.peak_ns), peak as f64)]);
    Ok(figure)
}
