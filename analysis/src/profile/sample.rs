//! Which calls a law is made of: of each operator, shape and parameters the first ones and those with
//! the largest peaks. More of them add memory and nothing to the law.

use std::hash::{Hash, Hasher};

use memtrace_trace::rows::SpanRow;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

/// Calls of one kind that are taken as they come.
const FIRST: usize = 29;
/// What calls are largest by: working peak, peak on devices, what was used there before, resident
/// peak.
const PEAKS: usize = 4;
/// Leading bits that count of what a whole process had.
const LEADING_BITS: u32 = 11;

/// A sample of calls that are offered one after the other, known by numbers of type `Id`. A sample
/// of samples in their order is the sample of all calls.
#[derive(Debug)]
pub(super) struct Sample<Id> {
    kinds: FxHashMap<u64, Taken<Id>>,
}

/// The calls of one kind that were taken.
#[derive(Debug)]
struct Taken<Id> {
    first: Vec<Id>,
    /// Largest peaks of the first calls.
    of_first: [u64; PEAKS],
    /// Later calls with larger peaks, with the peak of each.
    larger: [Option<(u64, Id)>; PEAKS],
}

impl<Id: Copy + Eq + Hash> Sample<Id> {
    pub(super) fn new() -> Sample<Id> {
        Sample { kinds: FxHashMap::default() }
    }

    /// Takes a call, or leaves it. What is taken now may be replaced by a later call.
    pub(super) fn offer(&mut self, span: &SpanRow, before_on_devices: u64, id: Id) -> bool {
        let none = || Taken { first: Vec::new(), of_first: [0; PEAKS], larger: [None; PEAKS] };
        self.kinds.entry(kind(span)).or_insert_with(none).offer(peaks(span, before_on_devices), id)
    }

    /// The calls that are taken by now.
    pub(super) fn taken(&self) -> FxHashSet<Id> {
        let of_kind = |kind: &Taken<Id>| {
            let larger = kind.larger.iter().flatten().map(|(_, id)| *id);
            kind.first.iter().copied().chain(larger).collect::<Vec<_>>()
        };
        self.kinds.values().flat_map(of_kind).collect()
    }
}

impl<Id: Copy> Taken<Id> {
    fn offer(&mut self, peaks: [u64; PEAKS], id: Id) -> bool {
        let has_room = self.first.len() < FIRST;
        if has_room {
            self.first.push(id);
        }
        let mut is_taken = has_room;
        for (by, peak) in peaks.into_iter().enumerate() {
            if has_room {
                self.of_first[by] = self.of_first[by].max(peak);
            } else if peak > self.larger[by].map_or(self.of_first[by], |(largest, _)| largest) {
                self.larger[by] = Some((peak, id));
                is_taken = true;
            }
        }
        is_taken
    }
}

/// Memory of the whole process to a thousandth: where it grows, each call's is larger than the last.
fn peaks(span: &SpanRow, before_on_devices: u64) -> [u64; PEAKS] {
    let rounded = |bytes: u64| {
        let below = (bytes.max(1).ilog2() + 1).saturating_sub(LEADING_BITS);
        bytes >> below << below
    };
    let (before, resident) = (rounded(before_on_devices), rounded(span.resident_peak_bytes.unwrap_or(0)));
    let on_devices = span.device_peak_bytes.unwrap_or(0);
    [span.working_peak_bytes, on_devices, before, resident]
}

/// Calls of one kind have the same number: those that a law cannot tell apart by what went in.
fn kind(span: &SpanRow) -> u64 {
    let mut hasher = FxHasher::default();
    (&span.operator, span.call == 0, span.parent.is_some()).hash(&mut hasher);
    for input in &*span.inputs {
        (&input.shape, &input.dtype, &input.layout, &input.device).hash(&mut hasher);
    }
    for (name, value) in span.params.iter().filter(|(name, _)| *name != super::TASK) {
        (name, value).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(number: u32, length: u64, peak: u64) -> SpanRow {
        let input = memtrace_trace::rows::ArrayInfo { shape: vec![length], ..Default::default() };
        SpanRow {
            operator: "m:f".into(),
            call: number,
            inputs: [input].into(),
            working_peak_bytes: peak,
            resident_peak_bytes: Some(peak % 7),
            ..SpanRow::default()
        }
    }

    fn sample<'a>(calls: impl Iterator<Item = (usize, &'a SpanRow)>) -> Vec<usize> {
        let mut sample = Sample::new();
        for (id, span) in calls {
            sample.offer(span, 0, id);
        }
        let mut taken: Vec<usize> = sample.taken().into_iter().collect();
        taken.sort_unstable();
        taken
    }

    #[test]
    fn first_calls_and_the_largest_are_taken() {
        let mut calls: Vec<SpanRow> = (0..1000).map(|number| call(number, 8, 100)).collect();
        calls[700].working_peak_bytes = 900;
        calls[800].working_peak_bytes = 800;
        calls[900].resident_peak_bytes = Some(50);
        // The first call of a process is of a kind of its own.
        let expected: Vec<usize> = (0..=FIRST).chain([700, 900]).collect();
        assert_eq!(sample(calls.iter().enumerate()), expected);
    }

    proptest! {
        #[test]
        fn a_sample_of_samples_is_the_sample_of_all(
            peaks in prop::collection::vec((0u64..3, 0u64..50), 0..400),
            cuts in prop::collection::vec(0usize..400, 0..4),
        ) {
            let made = |(number, &(length, peak)): (usize, &(u64, u64))| call(number as u32 % 40, length, peak);
            let calls: Vec<SpanRow> = peaks.iter().enumerate().map(made).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= calls.len()).collect();
            cuts.extend([0, calls.len()]);
            cuts.sort_unstable();
            let all: Vec<(usize, &SpanRow)> = calls.iter().enumerate().collect();
            let parts = cuts.windows(2).flat_map(|ends| sample(all[ends[0]..ends[1]].iter().copied()));
            let again = sample(parts.map(|id| (id, &calls[id])));
            prop_assert_eq!(again, sample(all.into_iter()));
        }
    }
}
