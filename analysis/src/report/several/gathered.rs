//! What is known of all traces that were read so far.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use memtrace_trace::rows::ArrayInfo;
use memtrace_trace::{Totals, Trace};

use super::nodes::Nodes;
use super::of_trace::{OfOperator, OfTrace};
use super::spread::SpreadSum;
use crate::error::Error;
use crate::report::document::{Lost, OperatorOfRanks, Rank, Ranks, Several};
use crate::report::figures::OPERATORS_MAX;

/// Ranks that are listed.
const RANKS_MAX: usize = 1000;
/// Traces that could not be read, and of which the reason is kept.
const REASONS_MAX: usize = 100;

/// Everything so far.
#[derive(Default)]
pub(super) struct Gathered {
    traces: u64,
    incomplete: u64,
    failed: u64,
    unreadable: u64,
    unreadable_why: Vec<String>,
    totals: Totals,
    lost: (u64, u64, u64),
    nodes: Nodes,
    live: SpreadSum,
    resident: SpreadSum,
    /// The largest, by their peak and by when they came: of those that are alike, the first.
    largest: BTreeMap<(u64, Reverse<u64>), Rank>,
    ranks: u64,
    operators: BTreeMap<String, OverRanks>,
}

/// An operator over all ranks.
#[derive(Default)]
struct OverRanks {
    calls: u64,
    total_ns: u64,
    peaks: SpreadSum,
    /// The span with the largest working peak.
    largest: (PathBuf, u32),
}

impl Gathered {
    /// A trace that cannot be read.
    pub(super) fn leave_out(&mut self, error: &Error) {
        self.unreadable += 1;
        if self.unreadable_why.len() < REASONS_MAX {
            self.unreadable_why.push(error.to_string());
        }
    }

    /// One more trace.
    ///
    /// # Errors
    /// There are more operators than recordings have.
    pub(super) fn add(&mut self, trace: &Trace, found: OfTrace) -> Result<(), Error> {
        let meta = trace.meta();
        self.traces += 1;
        self.incomplete += u64::from(!meta.is_whole());
        self.failed += u64::from(meta.exit != Some(0));
        self.nodes.add(meta);
        self.totals.allocations = self.totals.allocations.saturating_add(meta.totals.allocations);
        self.totals.requested_bytes = self.totals.requested_bytes.saturating_add(meta.totals.requested_bytes);
        let (events, late, unseen) = &mut self.lost;
        *events = events.saturating_add(meta.lost.events);
        *late = late.saturating_add(meta.lost.late_events);
        *unseen = unseen.saturating_add(meta.lost.unseen_releases);
        let OfTrace { ranks, operators } = found;
        for (name, operator) in operators {
            if !self.operators.contains_key(&name) && self.operators.len() == OPERATORS_MAX {
                return Err(Error::Trace(format!("these traces have more than {OPERATORS_MAX} operators")));
            }
            self.operators.entry(name).or_default().add(trace, &ranks, &operator);
        }
        ranks.into_iter().for_each(|rank| self.add_rank(rank));
        Ok(())
    }

    fn add_rank(&mut self, rank: Rank) {
        self.live.add(rank.peak_live_bytes, &rank.name);
        self.resident.add(rank.peak_resident_bytes, &rank.name);
        self.largest.insert((rank.peak_live_bytes, Reverse(self.ranks)), rank);
        self.ranks += 1;
        if self.largest.len() > RANKS_MAX {
            self.largest.pop_first();
        }
    }

    /// The picture.
    ///
    /// # Errors
    /// No trace was read, or one that was cannot be read again.
    pub(super) fn finish(self) -> Result<Several, Error> {
        if self.traces == 0 {
            return Err(Error::Trace(format!(
                "none of these traces can be read: {}",
                self.unreadable_why.join("; ")
            )));
        }
        let (events, late_events, unseen_releases) = self.lost;
        Ok(Several {
            traces: self.traces,
            incomplete: self.incomplete,
            failed: self.failed,
            unreadable: self.unreadable,
            unreadable_why: self.unreadable_why,
            seconds: self.nodes.duration_ns() as f64 / 1e9,
            totals: self.totals,
            lost: Lost { events, late_events, unseen_releases },
            nodes: self.nodes.finish(),
            ranks: Ranks {
                peak_live: self.live.finish(),
                peak_resident: self.resident.finish(),
                largest: self.largest.into_values().rev().collect(),
                operators: described(self.operators)?,
            },
        })
    }
}

impl OverRanks {
    fn add(&mut self, trace: &Trace, ranks: &[Rank], operator: &OfOperator) {
        self.calls += operator.calls;
        self.total_ns = self.total_ns.saturating_add(operator.total_ns);
        for (rank, peak) in &operator.peaks {
            if self.peaks.add(peak.bytes, &ranks[*rank].name) {
                self.largest = (trace.directory().to_owned(), peak.span);
            }
        }
    }
}

/// The operators with the inputs of their largest calls, which are read now.
fn described(operators: BTreeMap<String, OverRanks>) -> Result<Vec<OperatorOfRanks>, Error> {
    let mut wanted: BTreeMap<&PathBuf, HashSet<u32>> = BTreeMap::new();
    for OverRanks { largest: (trace, span), .. } in
        operators.values().filter(|operator| operator.peaks.max() > 0)
    {
        wanted.entry(trace).or_default().insert(*span);
    }
    let mut inputs: HashMap<(PathBuf, u32), Arc<[ArrayInfo]>> = HashMap::new();
    for (trace, spans) in wanted {
        let rows = Trace::open(trace)?.spans_of(&spans)?;
        inputs.extend(rows.into_iter().map(|row| ((trace.clone(), row.span), row.inputs)));
    }
    let operator = |(name, operator): (String, OverRanks)| OperatorOfRanks {
        name,
        calls: operator.calls,
        seconds: operator.total_ns as f64 / 1e9,
        inputs: inputs.get(&operator.largest).cloned().unwrap_or_default(),
        working_peak: operator.peaks.finish(),
    };
    let mut operators: Vec<OperatorOfRanks> = operators.into_iter().map(operator).collect();
    operators.sort_by_key(|operator| Reverse(operator.working_peak.max_bytes));
    Ok(operators)
}
