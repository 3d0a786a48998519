//! The ranks of one trace, and what its operators needed in each of them.

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Meta, SpanRecord, Trace};

use crate::error::Error;
use crate::report::document::{Rank, RankName};
use crate::report::figures::figures;

/// What is known of one trace.
pub(super) struct OfTrace {
    pub(super) ranks: Vec<Rank>,
    /// By name.
    pub(super) operators: BTreeMap<String, OfOperator>,
}

/// The calls of an operator in one trace.
#[derive(Default)]
pub(super) struct OfOperator {
    pub(super) calls: u64,
    pub(super) total_ns: u64,
    /// By the position of a rank that called it: the largest working peak, and the span that had it.
    pub(super) peaks: BTreeMap<usize, Peak>,
}

/// The working peak of a span.
#[derive(Clone, Copy)]
pub(super) struct Peak {
    pub(super) bytes: u64,
    pub(super) span: u32,
}

impl OfTrace {
    pub(super) fn read(trace: &Trace) -> Result<OfTrace, Error> {
        let processes = trace.processes()?;
        let Places { ranks, of_process } = Places::of(trace, &processes);
        let add = |operator: &mut OfOperator, span: &SpanRecord| {
            operator.add(span, of_process.get(&span.process));
        };
        Ok(OfTrace { operators: figures(trace, add, OfOperator::join)?, ranks })
    }
}

impl OfOperator {
    fn add(&mut self, span: &SpanRecord, rank: Option<&usize>) {
        self.calls += 1;
        let took = span.end_ns.map_or(0, |end| end.saturating_sub(span.start_ns).max(0) as u64);
        self.total_ns = self.total_ns.saturating_add(took);
        if let Some(&rank) = rank {
            self.add_peak(rank, Peak { bytes: span.working_peak_bytes, span: span.span });
        }
    }

    fn join(&mut self, later: OfOperator) {
        self.calls += later.calls;
        self.total_ns = self.total_ns.saturating_add(later.total_ns);
        later.peaks.into_iter().for_each(|(rank, peak)| self.add_peak(rank, peak));
    }

    /// Of several spans with one peak, the first counts.
    fn add_peak(&mut self, rank: usize, peak: Peak) {
        let known = self.peaks.entry(rank).or_insert(peak);
        if peak.bytes > known.bytes {
            *known = peak;
        }
    }
}

/// The ranks of a trace, and which of them each process is of.
struct Places {
    ranks: Vec<Rank>,
    of_process: HashMap<u32, usize>,
}

impl Places {
    /// By job and rank. Where no process has a rank, all are of one; where some have, the launcher is
    /// of none.
    fn of(trace: &Trace, processes: &[ProcessRow]) -> Places {
        let mut places = Places { ranks: Vec::new(), of_process: HashMap::new() };
        if !processes.iter().any(|process| process.rank.is_some()) {
            places.ranks.push(whole(trace, processes));
            places.of_process = processes.iter().map(|process| (process.process, 0)).collect();
            return places;
        }
        let mut known: BTreeMap<(Option<&str>, u32), Vec<&ProcessRow>> = BTreeMap::new();
        for process in processes {
            if let Some(rank) = process.rank {
                known.entry((process.job.as_deref(), rank)).or_default().push(process);
            }
        }
        for ((_, rank), members) in known {
            let place = places.ranks.len();
            places.of_process.extend(members.iter().map(|process| (process.process, place)));
            places.ranks.push(of_processes(trace, rank, &members));
        }
        // With a trace to itself, the peaks of a rank's processes together are known.
        if let [rank] = &mut places.ranks[..]
            && processes.iter().all(|process| process.rank.is_some())
        {
            (rank.peak_live_bytes, rank.peak_resident_bytes) = peaks(trace.meta());
        }
        places
    }
}

/// A trace without ranks.
fn whole(trace: &Trace, processes: &[ProcessRow]) -> Rank {
    let meta = trace.meta();
    let Meta { host, totals, .. } = meta;
    let (peak_live_bytes, peak_resident_bytes) = peaks(meta);
    let job = processes.iter().find_map(|process| process.job.clone());
    Rank {
        name: RankName { trace: name_of(trace), host: host.clone(), job, rank: None },
        peak_live_bytes,
        peak_resident_bytes,
        allocations: totals.allocations,
        requested_bytes: totals.requested_bytes,
    }
}

/// Live and resident bytes of all processes together.
fn peaks(meta: &Meta) -> (u64, u64) {
    let peak = &meta.peak;
    (peak.live_bytes, peak.resident_sum_bytes.max(peak.resident_bytes))
}

/// One of several ranks.
fn of_processes(trace: &Trace, rank: u32, members: &[&ProcessRow]) -> Rank {
    let largest = |of: fn(&ProcessRow) -> u64| members.iter().map(|row| of(row)).max().unwrap_or(0);
    let sum = |of: fn(&ProcessRow) -> u64| members.iter().fold(0u64, |sum, row| sum.saturating_add(of(row)));
    let first = members.first();
    Rank {
        name: RankName {
            trace: name_of(trace),
            host: first.map_or_else(String::new, |row| row.host.clone()),
            job: first.and_then(|row| row.job.clone()),
            rank: Some(rank),
        },
        peak_live_bytes: largest(|row| row.peak_live_bytes),
        peak_resident_bytes: largest(|row| row.peak_resident_bytes),
        allocations: sum(|row| row.allocations),
        requested_bytes: sum(|row| row.requested_bytes),
    }
}

fn name_of(trace: &Trace) -> String {
    trace.directory().display().to_string()
}
