//! The figures of several recordings as those of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::live_protocol::{Figures, LISTED_MAX, Limit, Operator, Peak, Placed, Site};

/// The figures of recordings that run, or have ended; `peak` is the largest of those so far.
pub fn merged(all: &[&Figures], peak: &mut Peak) -> Figures {
    let mut sum = Figures::default();
    let (mut limits, mut operators, mut sites, mut placed) = Default::default();
    for figures in all {
        add(&mut sum, figures);
        add_limits(&mut limits, figures);
        add_operators(&mut operators, figures);
        add_sites(&mut sites, figures);
        add_placed(&mut placed, figures);
    }
    sum.exit = all.iter().filter_map(|figures| figures.exit).max_by_key(|exit| exit.unsigned_abs());
    sum.ended = all.iter().all(|figures| figures.ended);
    largest_so_far(peak, &sum, all);
    sum.peak = *peak;
    sum.limits = limits.into_values().collect();
    sum.limits.sort_by_key(Limit::room);
    sum.operators = operators.into_values().collect();
    sum.operators_seen = sum.operators_seen.max(sum.operators.len() as u64);
    sum.operators.sort_by_key(|operator| Reverse(operator.working_peak_bytes));
    sum.operators.truncate(LISTED_MAX);
    sum.processes.sort_by_key(|process| Reverse(process.live_bytes));
    sum.processes.truncate(LISTED_MAX);
    sum.spans.sort_by_key(|span| Reverse(span.working_bytes));
    sum.spans.truncate(LISTED_MAX);
    sum.placed = placed.into_values().collect();
    sum.placed.sort_by_key(|placed| Reverse(placed.live_bytes));
    sum.placed.truncate(LISTED_MAX);
    sum.sites = sites.into_values().collect();
    sum.sites.sort_by_key(|site| Reverse(site.live_bytes));
    sum.sites.truncate(all.iter().map(|figures| figures.sites.len()).max().unwrap_or(0));
    sum
}

/// Adds what is a number, and lists what is listed.
fn add(sum: &mut Figures, one: &Figures) {
    sum.seconds = sum.seconds.max(one.seconds);
    if one.ended {
        let all = one.processes_ended.saturating_add(one.processes_running);
        sum.processes_ended = sum.processes_ended.saturating_add(all);
    } else {
        sum.live_bytes = sum.live_bytes.saturating_add(one.live_bytes);
        sum.heap_bytes = sum.heap_bytes.saturating_add(one.heap_bytes);
        sum.resident_bytes = sum.resident_bytes.saturating_add(one.resident_bytes);
        sum.device_driver_bytes = plus(sum.device_driver_bytes, one.device_driver_bytes);
        sum.device_used_bytes = plus(sum.device_used_bytes, one.device_used_bytes);
        sum.processes_running = sum.processes_running.saturating_add(one.processes_running);
        sum.processes_ended = sum.processes_ended.saturating_add(one.processes_ended);
        sum.spans_running = sum.spans_running.saturating_add(one.spans_running);
        sum.processes.extend_from_slice(&one.processes);
        sum.spans.extend_from_slice(&one.spans);
    }
    sum.totals.allocations = sum.totals.allocations.saturating_add(one.totals.allocations);
    sum.totals.requested_bytes = sum.totals.requested_bytes.saturating_add(one.totals.requested_bytes);
    sum.lost.events = sum.lost.events.saturating_add(one.lost.events);
    sum.operators_seen = sum.operators_seen.max(one.operators_seen);
    sum.signal = sum.signal.or(one.signal);
}

fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.saturating_add(b)).or(a).or(b)
}

/// What was seen at one time, and no less than any one recording had.
fn largest_so_far(peak: &mut Peak, sum: &Figures, all: &[&Figures]) {
    let ones = all.iter().map(|figures| figures.peak);
    let now = Peak {
        live_bytes: sum.live_bytes,
        heap_bytes: sum.heap_bytes,
        resident_bytes: 0,
        resident_sum_bytes: sum.resident_bytes,
        seconds: sum.seconds,
        device_driver_bytes: sum.device_driver_bytes,
        device_used_bytes: sum.device_used_bytes,
    };
    for one in ones.chain([now]) {
        if one.live_bytes > peak.live_bytes {
            (peak.live_bytes, peak.seconds) = (one.live_bytes, one.seconds);
        }
        peak.heap_bytes = peak.heap_bytes.max(one.heap_bytes);
        peak.resident_bytes = peak.resident_bytes.max(one.resident_bytes);
        peak.resident_sum_bytes = peak.resident_sum_bytes.max(one.resident_sum_bytes);
        peak.device_driver_bytes = peak.device_driver_bytes.max(one.device_driver_bytes);
        peak.device_used_bytes = peak.device_used_bytes.max(one.device_used_bytes);
    }
}

/// All recordings of a machine have its limit, and those of a group have the group's.
fn add_limits(limits: &mut BTreeMap<(String, String), Limit>, one: &Figures) {
    let running = one.limits.iter().filter(|_| !one.ended);
    limits.extend(running.map(|limit| ((limit.kind.clone(), limit.name.clone()), limit.clone())));
}

fn add_operators(operators: &mut BTreeMap<String, Operator>, one: &Figures) {
    for operator in &one.operators {
        let sum = operators.entry(operator.name.clone()).or_default();
        sum.name.clone_from(&operator.name);
        sum.started = sum.started.saturating_add(operator.started);
        sum.finished = sum.finished.saturating_add(operator.finished);
        sum.running = sum.running.saturating_add(operator.running);
        sum.working_peak_bytes = sum.working_peak_bytes.max(operator.working_peak_bytes);
        sum.seconds += operator.seconds;
    }
}

fn add_placed(placed: &mut BTreeMap<(String, Option<u64>), Placed>, one: &Figures) {
    for row in one.placed.iter().filter(|_| !one.ended) {
        let sum = placed.entry((row.tier.clone(), row.site)).or_default();
        sum.tier.clone_from(&row.tier);
        sum.site = row.site;
        sum.place.clone_from(&row.place);
        sum.blocks = sum.blocks.saturating_add(row.blocks);
        sum.live_bytes = sum.live_bytes.saturating_add(row.live_bytes);
        sum.out_bytes = sum.out_bytes.saturating_add(row.out_bytes);
    }
}

/// A call stack has one id in all recordings.
fn add_sites(sites: &mut BTreeMap<u64, Site>, one: &Figures) {
    for site in one.sites.iter().filter(|_| !one.ended) {
        let sum = sites.entry(site.site).or_default();
        sum.site = site.site;
        sum.place.clone_from(&site.place);
        sum.live_bytes = sum.live_bytes.saturating_add(site.live_bytes);
        sum.grew_bytes = sum.grew_bytes.saturating_add(site.grew_bytes);
        sum.over_seconds = sum.over_seconds.max(site.over_seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_protocol::{Process, Span};

    fn rank(rank: u32, live_bytes: u64) -> Figures {
        let operator = Operator {
            name: "m:f".into(),
            started: 2,
            working_peak_bytes: live_bytes,
            ..Operator::default()
        };
        let limit = Limit { kind: "machine".into(), limit_bytes: 100, used_bytes: 40, ..Limit::default() };
        Figures {
            live_bytes,
            peak: Peak { live_bytes: live_bytes + 1, ..Peak::default() },
            processes: vec![Process { rank: Some(rank), live_bytes, ..Process::default() }],
            processes_running: 1,
            spans: vec![Span::default()],
            operators: vec![operator],
            sites: vec![Site { site: 9, live_bytes, grew_bytes: -1, ..Site::default() }],
            limits: vec![limit],
            exit: Some(0),
            ..Figures::default()
        }
    }

    #[test]
    fn ranks_are_added_up() {
        let (first, second) = (rank(0, 10), rank(1, 30));
        let mut peak = Peak::default();
        let sum = merged(&[&first, &second], &mut peak);
        assert_eq!((sum.live_bytes, sum.peak.live_bytes, sum.processes_running), (40, 40, 2));
        assert_eq!(sum.processes.iter().map(|process| process.rank).collect::<Vec<_>>(), [Some(1), Some(0)]);
        assert_eq!(
            (sum.operators.len(), sum.operators[0].started, sum.operators[0].working_peak_bytes),
            (1, 4, 30)
        );
        assert_eq!((sum.sites.len(), sum.sites[0].live_bytes, sum.sites[0].grew_bytes), (1, 40, -2));
        assert_eq!(sum.limits.len(), 1);
        let ended = Figures { ended: true, exit: Some(3), ..rank(1, 30) };
        let sum = merged(&[&first, &ended], &mut peak);
        assert_eq!((sum.live_bytes, sum.peak.live_bytes, sum.processes_ended), (10, 40, 1));
        assert_eq!((sum.exit, sum.ended), (Some(3), false));
    }
}
