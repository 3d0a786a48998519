//! Operators whose working peak depends on the data, not only on shapes and parameters.

use std::collections::HashMap;

use memtrace_trace::rows::SpanRow;
use serde_json::{Value, json};

use crate::profile::{FAILED, TASK, differ};

/// Calls with the same inputs, but for their values, and the same parameters that needed different
/// memory.
#[derive(Debug)]
pub struct Varying<'a> {
    /// The first of them.
    pub span: &'a SpanRow,
    /// How many there were.
    pub calls: usize,
    /// The smallest working peak.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

/// Those among the spans of one operator, the most different first. First calls in a process (with
/// one-time allocations) and those that failed or never ended are left out; so are spans without
/// inputs, of which nothing is known.
pub fn varying<'a>(spans: impl IntoIterator<Item = &'a SpanRow>) -> Vec<Varying<'a>> {
    let mut groups: HashMap<String, Varying> = HashMap::new();
    let steady = |span: &&SpanRow| span.call > 0 && span.end_ns.is_some() && !span.inputs.is_empty();
    for span in spans.into_iter().filter(steady).filter(|span| !span.params.contains_key(FAILED)) {
        let peak = span.working_peak_bytes;
        let group = groups.entry(key(span)).or_insert(Varying { span, calls: 0, least: peak, most: peak });
        group.calls += 1;
        group.least = group.least.min(peak);
        group.most = group.most.max(peak);
    }
    let mut found: Vec<Varying> =
        groups.into_values().filter(|group| differ(group.least, group.most)).collect();
    found.sort_by_key(|group| (std::cmp::Reverse(group.most - group.least), group.span.span));
    found
}

/// What the peak of an operator may depend on without depending on data.
fn key(span: &SpanRow) -> String {
    let arrays: Vec<Value> =
        span.inputs.iter().map(|array| json!([array.shape, array.dtype, array.layout])).collect();
    // A task's own name and place differ from those of all others.
    let params: Vec<_> = span.params.iter().filter(|(name, _)| *name != TASK).collect();
    json!([arrays, params]).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memtrace_trace::rows::ArrayInfo;

    use super::*;

    fn span(call: u32, rows: u64, peak: u64) -> SpanRow {
        let input = ArrayInfo { shape: vec![rows, 3], dtype: "<f4".into(), ..ArrayInfo::default() };
        let inputs = [input].into();
        SpanRow { span: call, call, inputs, end_ns: Some(1), working_peak_bytes: peak, ..SpanRow::default() }
    }

    fn named(mut span: SpanRow) -> SpanRow {
        Arc::make_mut(&mut span.params).insert("task".into(), json!({ "key": span.span }));
        span
    }

    #[test]
    fn the_same_shape_with_another_peak_is_reported() {
        const MB: u64 = 1_000_000;
        let mut failed = span(7, 5, 90 * MB);
        Arc::make_mut(&mut failed.params).insert("error".into(), "ValueError".into());
        let spans = [
            span(0, 5, 99 * MB), // the cold call
            span(1, 5, 10 * MB),
            named(span(2, 5, 30 * MB)),
            span(3, 6, 50 * MB), // another shape
            span(4, 6, 50 * MB + 50_000),
            span(5, 7, 10 * MB),
            span(6, 7, 11 * MB),
            failed,
            SpanRow { inputs: Arc::default(), ..span(8, 0, 1) },
        ];
        let found = varying(&spans);
        let groups: Vec<_> = found.iter().map(|group| (group.calls, group.least, group.most)).collect();
        assert_eq!(groups, [(2, 10 * MB, 30 * MB), (2, 10 * MB, 11 * MB)]);
        assert_eq!(found[0].span.call, 1);
    }
}
