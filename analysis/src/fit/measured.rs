//! What was measured next to an operator's runs, over all processes that ran it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::profile::measured::{self, Baseline, OneTime};
use crate::profile::{Profile, Run};

/// One-time bytes of an operator: the largest over the processes that ran it.
pub(super) fn one_time(profiles: &[Profile], operator: &str) -> OneTime {
    let mut largest = OneTime::default();
    for profile in profiles {
        let mut processes: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
        for run in profile.runs.iter().filter(|run| run.span.operator == operator) {
            processes.entry(run.span.process).or_default().push(run);
        }
        let of_process = processes.into_values().map(|runs| measured::one_time(&runs));
        largest = of_process.fold(largest, |a, b| if b.bytes > a.bytes { b } else { a });
    }
    largest
}

/// Memory of the processes before, in the recording whose inputs are smallest: a program makes its
/// arrays before the first call, and a task's own are counted apart. The largest over the processes.
pub(super) fn baseline(profiles: &[Profile], operator: &str) -> Option<Baseline> {
    let of_profile = |profile: &'_ Profile| {
        let runs = || profile.runs.iter().filter(|run| run.span.operator == operator);
        let baselines = runs().filter_map(|run| profile.baselines.get(&run.span.process).cloned());
        let inputs = runs().map(|run| run.span.input_bytes).max()?;
        Some((inputs, baselines.max_by_key(|baseline| baseline.resident_bytes)?))
    };
    let all = profiles.iter().filter_map(of_profile);
    let key = |(inputs, baseline): &(u64, Baseline)| {
        (baseline.resident_bytes.is_none(), *inputs, Reverse(baseline.resident_bytes))
    };
    let smallest = all.min_by_key(key);
    smallest.map(|(_, baseline)| baseline)
}
