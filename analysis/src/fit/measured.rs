//! What was measured next to an operator's runs, over all processes that ran it.

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

/// Memory of the processes before: the largest over those that ran the operator.
pub(super) fn baseline(profiles: &[Profile], operator: &str) -> Option<Baseline> {
    let of_profile = |profile: &'_ Profile| {
        let runs = profile.runs.iter().filter(|run| run.span.operator == operator);
        runs.filter_map(|run| profile.baselines.get(&run.span.process).cloned())
            .max_by_key(|b| b.resident_bytes)
    };
    profiles.iter().filter_map(of_profile).max_by_key(|baseline| baseline.resident_bytes)
}
