//! What each operator of a trace needed, one figure for all its spans.

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;

use crate::error::Error;

/// A recording has some hundred.
pub(super) const OPERATORS_MAX: usize = 100_000;

/// Calls of one operator that are compared with each other.
const FIRST_MAX: usize = 1000;

/// An operator, by its largest call.
pub struct Operator {
    /// Its name.
    pub name: String,
    /// How many spans it has.
    pub calls: u64,
    /// How long those that ended took, together.
    pub total_ns: u64,
    /// Largest one-time bytes of a process.
    pub one_time_bytes: u64,
    /// [`Sums::largest`], with its inputs.
    pub largest: SpanRow,
}

/// The operators of a trace, that with the largest working peak first.
///
/// # Errors
/// A table cannot be read.
pub fn operators(trace: &Trace) -> Result<Vec<Operator>, Error> {
    let sums = sums(trace)?;
    let wanted = sums.iter().map(|sum| sum.largest().span).collect();
    let described = trace.spans_of(&wanted)?;
    let described: HashMap<u32, SpanRow> = described.into_iter().map(|row| (row.span, row)).collect();
    let operator = |sum: &Sums| Operator {
        name: sum.name().to_owned(),
        calls: sum.calls,
        total_ns: sum.total_ns,
        one_time_bytes: sum.one_time_bytes,
        largest: described.get(&sum.largest().span).unwrap_or(sum.largest()).clone(),
    };
    let mut operators: Vec<Operator> = sums.iter().map(operator).collect();
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.largest.working_peak_bytes));
    Ok(operators)
}

/// Spans of one operator taken together: as many as there are take no memory each.
pub struct Sums {
    /// How many there are.
    pub calls: u64,
    /// How long those that ended took, together.
    pub total_ns: u64,
    /// Largest one-time bytes of a process.
    pub one_time_bytes: u64,
    /// Inputs of several sizes.
    pub has_sizes: bool,
    /// The largest of them on devices, and the driver's bytes then.
    pub on_devices: Option<(u64, u64)>,
    /// The first of them.
    pub first: Vec<u32>,
    working_peak_bytes: u64,
    all: Largest,
    later: Option<Largest>,
    device_peak_bytes: Option<u64>,
}

/// The span with the largest working peak, and the largest input of any.
struct Largest {
    span: Box<SpanRow>,
    input_bytes: u64,
}

impl Largest {
    fn add(&mut self, row: &SpanRow) {
        self.input_bytes = self.input_bytes.max(row.input_bytes);
        if row.working_peak_bytes >= self.span.working_peak_bytes {
            *self.span = row.clone();
        }
    }
}

/// The operators of a trace, that with the largest working peak first.
///
/// # Errors
/// The table cannot be read, or has more operators than a recording.
pub fn sums(trace: &Trace) -> Result<Vec<Sums>, Error> {
    let mut sums: Vec<Sums> = figures(trace, Sums::of, Sums::add)?.into_values().collect();
    sums.sort_by_key(|sums| std::cmp::Reverse(sums.working_peak_bytes));
    Ok(sums)
}

/// What the spans of each operator come to, by its name; they have no arrays and parameters.
///
/// # Errors
/// The table cannot be read, or has more operators than a recording.
pub(super) fn figures<T>(
    trace: &Trace,
    of: impl Fn(SpanRow) -> T,
    add: impl Fn(&mut T, &SpanRow),
) -> Result<BTreeMap<String, T>, Error> {
    let mut operators: BTreeMap<String, T> = BTreeMap::new();
    let mut too_many = false;
    trace.each_span_figures(|row| {
        let known = operators.len();
        match operators.get_mut(&row.operator) {
            Some(figures) => add(figures, &row),
            None if known == OPERATORS_MAX => too_many = true,
            None => drop(operators.insert(row.operator.clone(), of(row))),
        }
    })?;
    if too_many {
        let trace = trace.directory().display();
        return Err(Error::Trace(format!("{trace} has more than {OPERATORS_MAX} operators")));
    }
    Ok(operators)
}

impl Sums {
    /// Of one span.
    pub fn of(row: SpanRow) -> Sums {
        let mut sums = Sums {
            calls: 0,
            total_ns: 0,
            one_time_bytes: 0,
            has_sizes: false,
            on_devices: None,
            first: Vec::new(),
            working_peak_bytes: 0,
            all: Largest { input_bytes: row.input_bytes, span: Box::new(row.clone()) },
            later: None,
            device_peak_bytes: None,
        };
        sums.add(&row);
        sums
    }

    fn add(&mut self, row: &SpanRow) {
        let took = row.end_ns.map_or(0, |end| end.saturating_sub(row.start_ns).max(0) as u64);
        self.calls += 1;
        self.total_ns = self.total_ns.saturating_add(took);
        self.one_time_bytes = self.one_time_bytes.max(row.one_time_bytes);
        self.has_sizes |= row.input_bytes != self.all.input_bytes;
        self.working_peak_bytes = self.working_peak_bytes.max(row.working_peak_bytes);
        if self.first.len() < FIRST_MAX {
            self.first.push(row.span);
        }
        if row.device_peak_bytes >= self.device_peak_bytes {
            self.device_peak_bytes = row.device_peak_bytes;
            self.on_devices = row.device_peak_bytes.zip(row.device_driver_peak_bytes);
        }
        self.all.add(row);
        match &mut self.later {
            Some(later) if row.call > 0 => later.add(row),
            None if row.call > 0 => {
                self.later = Some(Largest { input_bytes: row.input_bytes, span: Box::new(row.clone()) });
            }
            _ => {}
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.all.span.operator
    }

    /// The span with the largest working peak: of the steady state where a later call had as large
    /// an input, since the first call has one-time allocations too.
    pub fn largest(&self) -> &SpanRow {
        let steady = self.later.as_ref().filter(|later| later.input_bytes == self.all.input_bytes);
        &steady.unwrap_or(&self.all).span
    }
}

/// Spans by operator, the operator with the largest working peak first.
pub fn by_operator(spans: &[SpanRow]) -> Vec<(&str, Vec<&SpanRow>)> {
    let mut groups: BTreeMap<&str, Vec<&SpanRow>> = BTreeMap::new();
    for span in spans {
        groups.entry(&span.operator).or_default().push(span);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups
        .sort_by_key(|(_, spans)| std::cmp::Reverse(spans.iter().map(|span| span.working_peak_bytes).max()));
    groups
}
