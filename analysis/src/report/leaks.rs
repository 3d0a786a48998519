//! What was live when programs ended, by place; and what calls of operators had left behind by then.

use std::collections::HashMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::profile::MAX_DEPTH;
use crate::report::composition::{Group, by_place, labels};
use crate::report::operators::by_operator;
use crate::report::sites::{Share, at_end};

/// What was live at the end: what `memtrace report --leaks --json` prints. Caches that a library
/// keeps on purpose are part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leaks {
    /// Processes whose end is known.
    pub processes: usize,
    /// Sum of their live bytes when their programs ended.
    pub live_bytes: u64,
    /// Of it, what no call stack accounts for.
    pub without_stack_bytes: u64,
    /// The other bytes by place, most first.
    pub places: Vec<LivePlace>,
    /// Operators of which two calls or more left bytes behind, most first.
    pub operators: Vec<Left>,
}

/// Where blocks were allocated that were live at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LivePlace {
    /// The place in the program, as the summary names it.
    pub place: String,
    /// Its source file, where the line is known.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// Live bytes of its blocks.
    pub bytes: u64,
    /// What of them is an estimate: call stacks of small blocks are sampled.
    pub estimated_bytes: u64,
    /// How many they were.
    pub blocks: u64,
    /// They have the size of arenas, in which Python keeps small objects.
    #[serde(skip)]
    pub arenas: bool,
}

/// What the calls of an operator had allocated that was live at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Left {
    /// The operator.
    pub operator: String,
    /// Its calls.
    pub calls: usize,
    /// Those of them that left something behind.
    pub leaving_calls: usize,
    /// What they left behind together.
    pub bytes: u64,
    /// The same for each call that left something.
    pub bytes_per_call: u64,
}

/// What was live when the programs of a trace ended.
///
/// # Errors
/// A table cannot be read.
pub fn leaks(trace: &Trace) -> Result<Leaks, Error> {
    let processes = trace.processes()?;
    let ends: Vec<u64> = processes.iter().filter_map(|process| process.live_bytes_at_end).collect();
    let live_bytes = ends.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    let places = places(trace, live_bytes)?;
    let placed = places.iter().fold(0, |sum: u64, place| sum.saturating_add(place.bytes));
    Ok(Leaks {
        processes: ends.len(),
        live_bytes,
        without_stack_bytes: live_bytes.saturating_sub(placed),
        places,
        operators: left_by(&trace.span_figures()?),
    })
}

fn places(trace: &Trace, live_bytes: u64) -> Result<Vec<LivePlace>, Error> {
    let sites = at_end(trace, live_bytes)?;
    let groups = by_place(trace, &sites)?;
    let labels = labels(groups.iter().map(|group| &group.place));
    let place = |(group, place): (&Group, String)| LivePlace {
        place,
        file: group.place.source().map(|(file, _)| file.into()),
        line: group.place.source().map(|(_, line)| line),
        bytes: group.bytes,
        estimated_bytes: group.estimated,
        blocks: blocks(&group.sites, &sites),
        arenas: group.sites.iter().any(|at| has_arenas(&sites[*at])),
    };
    Ok(groups.iter().zip(labels).map(place).collect())
}

/// Arenas have 256 KiB, from Python 3.10 on 1 MiB.
fn has_arenas(site: &Share) -> bool {
    let of = |size: u64| site.row.blocks.checked_mul(size) == Some(site.row.requested_bytes);
    site.row.blocks > 0 && (of(256 << 10) || of(1 << 20))
}

/// Scaled like the bytes of their sites.
fn blocks(members: &[usize], sites: &[Share]) -> u64 {
    members.iter().fold(0, |sum, at| {
        let Share { row, bytes, .. } = &sites[*at];
        let scaled = u128::from(row.live_blocks_at_end) * u128::from(*bytes);
        let whole = u128::from(row.live_bytes_at_end).max(1);
        sum.saturating_add(u64::try_from((scaled + whole / 2) / whole).unwrap_or(u64::MAX))
    })
}

/// By operator, spans inside its own included. One call that leaves something behind is not growth.
fn left_by(spans: &[SpanRow]) -> Vec<Left> {
    const GROWTH: usize = 2;
    let whole = with_inner(spans);
    let operator = |(name, spans): (&str, Vec<&SpanRow>)| {
        let bytes = |span: &&SpanRow| whole.get(&span.span).copied().filter(|bytes| *bytes > 0);
        let left: Vec<u64> = spans.iter().filter_map(bytes).collect();
        let sum = left.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        (left.len() >= GROWTH).then(|| Left {
            operator: name.into(),
            calls: spans.len(),
            leaving_calls: left.len(),
            bytes: sum,
            bytes_per_call: sum / left.len() as u64,
        })
    };
    let mut operators: Vec<Left> = by_operator(spans).into_iter().filter_map(operator).collect();
    operators.sort_by_key(|left| std::cmp::Reverse(left.bytes));
    operators
}

/// The bytes of each span, with those of spans inside it; of an operator that calls itself, the
/// outermost call has all.
fn with_inner(spans: &[SpanRow]) -> HashMap<u32, u64> {
    let by_id: HashMap<u32, &SpanRow> = spans.iter().map(|span| (span.span, span)).collect();
    let mut whole: HashMap<u32, u64> = HashMap::new();
    for span in spans.iter().filter(|span| span.live_bytes_at_end > 0) {
        // The outermost span of each operator on the way out.
        let mut around: HashMap<&str, u32> = HashMap::new();
        let mut next = Some(span);
        for _ in 0..MAX_DEPTH {
            let Some(now) = next else { break };
            around.insert(&now.operator, now.span);
            next = now.parent.and_then(|parent| by_id.get(&parent).copied());
        }
        for outer in around.into_values() {
            let sum = whole.entry(outer).or_default();
            *sum = sum.saturating_add(span.live_bytes_at_end);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(span: u32, parent: Option<u32>, operator: &str, live_bytes_at_end: u64) -> SpanRow {
        SpanRow { span, parent, operator: operator.into(), live_bytes_at_end, ..SpanRow::default() }
    }

    #[test]
    fn an_operator_has_what_spans_inside_it_left() {
        let spans = [
            span(0, None, "outer", 1),
            span(1, Some(0), "inner", 10),
            span(2, None, "outer", 0),
            span(3, Some(2), "inner", 20),
            span(4, None, "once", 500),
        ];
        let left = left_by(&spans);
        let figures: Vec<_> = left
            .iter()
            .map(|left| (left.operator.as_str(), left.calls, left.bytes, left.bytes_per_call))
            .collect();
        assert_eq!(figures, [("outer", 2, 31, 15), ("inner", 2, 30, 15)]);
    }

    #[test]
    fn an_operator_inside_itself_counts_once() {
        let spans = [span(0, None, "f", 1), span(1, Some(0), "f", 2), span(2, None, "f", 4)];
        assert_eq!(left_by(&spans).iter().map(|left| left.bytes).collect::<Vec<_>>(), [7]);
    }
}
