//! From live bytes to resident ones: fitted to the resident peaks of the runs.

use std::collections::{BTreeMap, HashSet};

use memtrace_trace::rows::{SpanResident, SpanRow};

use crate::law::heap::{MAX_DYNAMIC, Settings};
use crate::model::{self, Law, Resident};
use crate::profile::{Profile, Run};
use crate::shape::Point;

/// Less than this share untouched is what had not been written to yet when the peak was reached: up
/// to 4 % in small runs of operators that write to all they allocate.
const LEAST_UNTOUCHED: f64 = 0.1;
/// A run must have this much resident before its untouched share says anything: small blocks are
/// not watched.
const MIN_RESIDENT: u64 = 8 << 20;

/// A run with this many times the largest block of a growing heap has most of its memory mapped.
const MOSTLY_MAPPED: u64 = 4;

/// A recorded resident peak.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakSample {
    /// One length per variable.
    pub shape: Vec<u64>,
    /// Bytes of the whole process.
    pub resident: u64,
    /// Bytes of the working peak that had not been written to by then, where the kernel reported them.
    pub untouched: Option<u64>,
    /// Settings of the allocator in the process's environment.
    pub settings: String,
}

/// Resident peaks of a group's runs, first calls included: a process has one-time bytes too.
pub(super) fn samples(profiles: &[Profile], runs: &[&Run], law: &Law) -> Vec<PeakSample> {
    let of_group: HashSet<*const Run> = runs.iter().map(|&run| std::ptr::from_ref(run)).collect();
    let sample = |profile: &Profile, run: &Run| {
        Some(PeakSample {
            shape: model::point(&law.variables, &run.span.inputs)?,
            resident: run.span.resident_peak_bytes?,
            untouched: run.span.at_resident_peak.map(|then| untouched(&run.span, then)),
            settings: profile.allocators.get(&run.span.process).cloned().unwrap_or_default(),
        })
    };
    let of_profile = |profile: &Profile| {
        let runs = profile.runs.iter().filter(|&run| of_group.contains(&std::ptr::from_ref(run)));
        runs.filter_map(|run| sample(profile, run)).collect::<Vec<_>>()
    };
    profiles.iter().flat_map(of_profile).collect()
}

/// Large blocks of the heap that were not touched, or what is mapped in advance, as a JVM does: no more of
/// the working peak was touched than was ever live and touched, nor more than was in memory at most.
fn untouched(span: &SpanRow, then: SpanResident) -> u64 {
    let memory = span.resident_peak_bytes.unwrap_or(u64::MAX).saturating_sub(then.file);
    then.untouched.max(span.working_peak_bytes.saturating_sub(memory.max(then.live)))
}

/// Fits the law to the recorded peaks; `None` without any. If they were recorded under several
/// allocator settings, those that were met most often are taken.
pub fn fit(law: &Law, samples: &[PeakSample]) -> Option<Resident> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    samples.iter().for_each(|sample| *counts.entry(&sample.settings).or_default() += 1);
    let settings = counts.into_iter().max_by_key(|&(_, count)| count)?.0;
    let exact = samples.iter().any(|sample| sample.settings == settings && sample.untouched.is_some());
    let fitting = samples.iter().filter(|sample| sample.settings == settings);
    let fitting: Vec<&PeakSample> = fitting.filter(|sample| sample.untouched.is_some() == exact).collect();
    // A process's peak is that of its largest call.
    let mut peaks: BTreeMap<&Point, u64> = BTreeMap::new();
    for sample in &fitting {
        let peak = peaks.entry(&sample.shape).or_default();
        *peak = sample.resident.max(*peak);
    }
    let mut found = Resident { settings: settings.to_owned(), touched: 1.0, exact, ..Resident::default() };
    let shares = fitting.iter().filter_map(|sample| {
        let bytes = found.bytes(law, &sample.shape, false).filter(|&bytes| bytes >= MIN_RESIDENT)?;
        Some((bytes, sample.untouched? as f64 / bytes as f64))
    });
    let shares: Vec<(u64, f64)> = shares.collect();
    // What comes from the heap may have been written to before; only blocks too large for it show
    // what is never touched.
    let mapped = |bytes: u64| !Settings::parse(settings).dynamic || bytes >= MOSTLY_MAPPED * MAX_DYNAMIC;
    let any_mapped = shares.iter().any(|&(bytes, _)| mapped(bytes));
    let relevant = shares.iter().filter(|&&(bytes, _)| mapped(bytes) || !any_mapped);
    let untouched = relevant.map(|&(_, share)| share).fold(f64::INFINITY, f64::min);
    if (LEAST_UNTOUCHED..=1.0).contains(&untouched) {
        found.touched = 1.0 - untouched;
    }
    let base = |(shape, peak): (&&Point, &u64)| Some(peak.saturating_sub(found.bytes(law, shape, false)?));
    let mut bases: Vec<u64> = peaks.iter().filter_map(base).collect();
    bases.sort_unstable();
    found.shapes = bases.len();
    found.base_bytes = *bases.get(bases.len() / 2)?;
    found.base_upper_bytes = *bases.last()?;
    let error = |(shape, &peak): (&&Point, &u64)| {
        Some((found.at(law, shape)? as f64 - peak as f64).abs() / peak.max(1) as f64)
    };
    found.error = peaks.iter().filter_map(error).fold(0.0, f64::max);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untouched_of(working_peak_bytes: u64, resident: u64, live: u64, untouched: u64) -> u64 {
        let resident_peak_bytes = Some(resident);
        let span = SpanRow { working_peak_bytes, resident_peak_bytes, ..SpanRow::default() };
        super::untouched(&span, SpanResident { start: 0, file: 10, live, untouched, mapped: 0 })
    }

    #[test]
    fn what_is_mapped_in_advance_was_not_touched() {
        assert_eq!(untouched_of(700, 290, 270, 4), 420, "more than was in memory");
        assert_eq!(untouched_of(700, 290, 500, 4), 200, "more than was live: some may be in swap");
        assert_eq!(untouched_of(100, 290, 270, 4), 4, "blocks of the heap");
    }
}
