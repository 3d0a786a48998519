//! What each operator of a trace needed, one figure for all its spans.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::SpanRow;
use memtrace_trace::{SpanRecord, Trace};

use super::figures::figures;
use crate::error::Error;

/// Calls of one operator that are compared with each other.
const FIRST_MAX: usize = 1000;

/// An operator, by its largest call.
#[derive(Default)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// How many spans it has.
    pub calls: u64,
    /// How long those that ended took, together.
    pub total_ns: u64,
    /// Largest one-time bytes of a process.
    pub one_time_bytes: u64,
    /// Inputs of several sizes.
    pub has_sizes: bool,
    /// The largest working peak on devices, and the driver's bytes then.
    pub on_devices: Option<(u64, u64)>,
    /// The first of its spans.
    pub first: Vec<u32>,
    /// The span with the largest working peak: of the steady state where a later call had as large
    /// an input, since the first call has one-time allocations too. Of operators that were not to be
    /// whole it has its number, name, working peak and bytes of inputs.
    pub largest: SpanRow,
}

/// The operators of a trace, that with the largest working peak of any call first. The first `whole`
/// of them have all of their largest span.
///
/// # Errors
/// The table cannot be read, or has more operators than a recording.
pub fn operators(trace: &Trace, whole: usize) -> Result<Vec<Operator>, Error> {
    let mut sums: Vec<(String, Sums)> = figures(trace, Sums::add, Sums::join)?.into_iter().collect();
    sums.sort_by_key(|(_, sums)| Reverse(sums.working_peak_bytes()));
    let wanted = sums.iter().take(whole).filter_map(|(_, sums)| Some(sums.largest()?.span)).collect();
    let rows = trace.spans_of(&wanted)?;
    let mut rows: HashMap<u32, SpanRow> = rows.into_iter().map(|row| (row.span, row)).collect();
    let operator = |(name, sums): (String, Sums)| {
        let largest = sums.largest()?;
        Some(Operator {
            largest: rows.remove(&largest.span).unwrap_or_else(|| largest.row(&name)),
            name,
            calls: sums.calls,
            total_ns: sums.total_ns,
            one_time_bytes: sums.one_time_bytes,
            has_sizes: sums.has_sizes,
            on_devices: sums.device_peak_bytes.zip(sums.device_driver_peak_bytes),
            first: sums.first,
        })
    };
    Ok(sums.into_iter().filter_map(operator).collect())
}

/// Spans of one operator taken together: as many as there are take no memory each.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    calls: u64,
    total_ns: u64,
    one_time_bytes: u64,
    has_sizes: bool,
    /// Of the first span.
    input_bytes: Option<u64>,
    first: Vec<u32>,
    device_peak_bytes: Option<u64>,
    /// Of the span that has this peak.
    device_driver_peak_bytes: Option<u64>,
    all: Option<Largest>,
    /// Calls that are not the first of a process.
    later: Option<Largest>,
}

/// The span with the largest working peak, and the largest input of any.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Largest {
    span: u32,
    working_peak_bytes: u64,
    input_bytes: u64,
}

impl Largest {
    /// What is known of the span without its row.
    fn row(self, operator: &str) -> SpanRow {
        let Largest { span, working_peak_bytes, input_bytes } = self;
        SpanRow { span, operator: operator.into(), working_peak_bytes, input_bytes, ..SpanRow::default() }
    }

    /// Of several spans with one peak the last.
    fn add(self, later: Largest) -> Largest {
        let largest = if later.working_peak_bytes >= self.working_peak_bytes { later } else { self };
        Largest { input_bytes: self.input_bytes.max(later.input_bytes), ..largest }
    }
}

/// The largest of two stretches of spans, of which either may be empty.
fn largest(first: Option<Largest>, later: Option<Largest>) -> Option<Largest> {
    match (first, later) {
        (Some(first), Some(later)) => Some(first.add(later)),
        (first, later) => first.or(later),
    }
}

impl Sums {
    fn of(span: &SpanRecord) -> Sums {
        let &SpanRecord { span: number, working_peak_bytes, input_bytes, .. } = span;
        let this = Largest { span: number, working_peak_bytes, input_bytes };
        Sums {
            calls: 1,
            total_ns: span.end_ns.map_or(0, |end| end.saturating_sub(span.start_ns).max(0) as u64),
            one_time_bytes: span.one_time_bytes,
            has_sizes: false,
            input_bytes: Some(input_bytes),
            first: Vec::new(),
            device_peak_bytes: span.device_peak_bytes,
            device_driver_peak_bytes: span.device_driver_peak_bytes,
            all: Some(this),
            later: (span.call > 0).then_some(this),
        }
    }

    fn add(&mut self, span: &SpanRecord) {
        self.join(Sums::of(span));
        if self.first.len() < FIRST_MAX {
            self.first.push(span.span);
        }
    }

    fn join(&mut self, later: Sums) {
        self.calls += later.calls;
        self.total_ns = self.total_ns.saturating_add(later.total_ns);
        self.one_time_bytes = self.one_time_bytes.max(later.one_time_bytes);
        let both = self.input_bytes.zip(later.input_bytes);
        self.has_sizes |= later.has_sizes || both.is_some_and(|(before, then)| before != then);
        self.input_bytes = self.input_bytes.or(later.input_bytes);
        let room = FIRST_MAX - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
        if later.device_peak_bytes >= self.device_peak_bytes {
            self.device_peak_bytes = later.device_peak_bytes;
            self.device_driver_peak_bytes = later.device_driver_peak_bytes;
        }
        self.all = largest(self.all, later.all);
        self.later = largest(self.later, later.later);
    }

    fn working_peak_bytes(&self) -> u64 {
        self.all.map_or(0, |all| all.working_peak_bytes)
    }

    /// See [`Operator::largest`].
    fn largest(&self) -> Option<Largest> {
        let all = self.all?;
        let steady = self.later.filter(|later| later.input_bytes == all.input_bytes);
        Some(steady.unwrap_or(all))
    }
}

/// Spans by operator, the operator with the largest working peak first.
pub fn by_operator(spans: &[SpanRow]) -> Vec<(&str, Vec<&SpanRow>)> {
    let mut groups: BTreeMap<&str, Vec<&SpanRow>> = BTreeMap::new();
    for span in spans {
        groups.entry(&span.operator).or_default().push(span);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, spans)| Reverse(spans.iter().map(|span| span.working_peak_bytes).max()));
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        /// A span of few sizes: many are alike.
        fn any_span()(
            call in 0..3u32,
            end_ns in prop::option::of(-5..100i64),
            input_bytes in 0..2u64,
            working_peak_bytes in 0..4u64,
            one_time_bytes in 0..3u64,
            device_peak_bytes in prop::option::of(0..3u64),
            device_driver_peak_bytes in prop::option::of(0..9u64),
        ) -> SpanRecord {
            SpanRecord {
                span: 0,
                process: 0,
                operator: "f".into(),
                call,
                start_ns: 0,
                end_ns,
                input_bytes,
                working_peak_bytes,
                one_time_bytes,
                device_peak_bytes,
                device_driver_peak_bytes,
            }
        }
    }

    fn sums(spans: &[SpanRecord]) -> Sums {
        let mut sums = Sums::default();
        spans.iter().for_each(|span| sums.add(span));
        sums
    }

    proptest! {
        /// What the sums are, and that parts of them can be joined.
        #[test]
        fn sums_of_parts_are_those_of_all_spans(
            pattern in prop::collection::vec(any_span(), 1..30),
            cut in any::<prop::sample::Index>(),
            copies in 1..100usize,
        ) {
            let alike = pattern.iter().cycle().take(pattern.len() * copies).zip(0..);
            let spans: Vec<SpanRecord> =
                alike.map(|(span, number)| SpanRecord { span: number, ..span.clone() }).collect();
            let all = sums(&spans);
            let (before, after) = spans.split_at(cut.index(spans.len()));
            let mut joined = sums(before);
            joined.join(sums(after));
            prop_assert_eq!(&joined, &all);

            prop_assert_eq!(all.calls, spans.len() as u64);
            prop_assert_eq!(all.first, (0..spans.len().min(FIRST_MAX) as u32).collect::<Vec<_>>());
            let input = |span: &SpanRecord| span.input_bytes;
            prop_assert_eq!(all.has_sizes, spans.iter().any(|span| input(span) != input(&spans[0])));
            let largest_input = spans.iter().map(input).max();
            let later = || spans.iter().filter(|span| span.call > 0);
            let is_steady = later().map(input).max() == largest_input;
            let compared = spans.iter().filter(|span| span.call > 0 || !is_steady);
            let largest = compared.max_by_key(|span| span.working_peak_bytes).map(|span| span.span);
            prop_assert_eq!(joined.largest().map(|largest| largest.span), largest);
        }
    }
}
