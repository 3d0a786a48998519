//! The sweep against adding everything up the plain way, however rows are split and ordered.

use memtrace_trace::rows::{Kind, ProcessRow, SiteRow, SpanRow};
use memtrace_trace::weights::{EXACT_FROM, SAMPLED_MEAN, SiteWeights};
use memtrace_trace::{AllocationRecord, Meta};
use proptest::prelude::*;

use super::events::Owners;
use super::sweep::{Group, Limits, sweep};
use crate::error::Error;

const DURATION: i64 = 1000;

/// Rows, and whether the end of their file says something about them.
struct Rows(Vec<AllocationRecord>, bool);

impl Group for Rows {
    fn rows(&self) -> u64 {
        self.0.len() as u64
    }

    fn acquires(&self) -> Option<(i64, i64)> {
        let times = || self.0.iter().map(|record| record.alloc_ns);
        self.1.then_some((times().min()?, times().max()?))
    }

    fn last_release(&self) -> Option<i64> {
        self.1.then_some(self.0.iter().filter_map(|record| record.free_ns).max()?)
    }

    fn has_unreleased(&self) -> bool {
        !self.1 || self.0.iter().any(|record| record.free_ns.is_none())
    }

    fn records(&self, each: impl FnMut(&AllocationRecord) -> Result<(), Error>) -> Result<(), Error> {
        self.0.iter().try_for_each(each)
    }
}

fn records() -> impl Strategy<Value = Vec<AllocationRecord>> {
    let kind = prop_oneof![4 => Just(Kind::Malloc), 1 => Just(Kind::MapAnonymous), 1 => Just(Kind::MapFile), 1 => Just(Kind::Cuda)];
    let times = (0..DURATION, prop::option::weighted(0.8, prop_oneof![3 => 0..20i64, 1 => 0..DURATION]));
    let whose = (0..3u32, prop::option::of(0..3u64), prop::option::of(0..4u32));
    let record = (kind, 0..1000u64, times, whose).prop_map(
        |(kind, bytes, (alloc_ns, length), (process, site, span))| AllocationRecord {
            process,
            thread: process,
            kind,
            bytes,
            alloc_ns,
            free_ns: length.map(|length| (alloc_ns + length).min(DURATION)),
            site: site.map(|site| site + 70),
            span,
        },
    );
    prop::collection::vec(record, 0..150)
}

fn owners(parted: [Option<i64>; 3], weights: SiteWeights) -> Owners {
    let process = |(process, parted_ns)| ProcessRow { process, parted_ns, ..Default::default() };
    let processes: Vec<ProcessRow> = (0..).zip(parted).map(process).collect();
    let sites: Vec<SiteRow> = (70..73).map(|site| SiteRow { site, ..Default::default() }).collect();
    let spans: Vec<SpanRow> = [None, Some(0), Some(1), None].into_iter().enumerate().map(span).collect();
    Owners::new(&processes, &sites, &spans, weights, DURATION).unwrap()
}

fn span((span, parent): (usize, Option<u32>)) -> SpanRow {
    SpanRow { span: span as u32, parent, operator: "f".into(), ..SpanRow::default() }
}

/// Every block of 600 bytes has a stack, and of smaller ones some.
fn sampled() -> SiteWeights {
    let recorded = [(EXACT_FROM, "600"), (SAMPLED_MEAN, "700")];
    let recorded = recorded.map(|(name, number)| (name.to_string(), number.to_string())).into();
    SiteWeights::of(&Meta { recorded, ..Meta::default() })
}

/// The largest sum over time of the blocks that `end` gives an end (`None`: they do not count), and
/// when. What is released at a time goes first; a block that is released when it comes has been
/// there.
fn largest<'a>(
    records: &'a [AllocationRecord],
    end: impl Fn(&'a AllocationRecord) -> Option<i64>,
) -> (i64, i64) {
    let blocks: Vec<(i64, i64, i64)> = records
        .iter()
        .filter_map(|record| Some((record.alloc_ns, end(record)?, record.bytes as i64)))
        .collect();
    let at = |time: i64| {
        let there = blocks
            .iter()
            .filter(|(from, end, _)| *from <= time && (time < *end || *from == time && *end == time));
        there.map(|(_, _, bytes)| bytes).sum::<i64>()
    };
    let mut most = (0, 0);
    for time in 0..=DURATION {
        let here = at(time);
        if here > most.0 {
            most = (here, time);
        }
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn equals_the_plain_way(
        records in records(),
        parted in prop::array::uniform3(prop::option::of(0..DURATION)),
        (group, window) in (1..60usize, 1..80usize),
        limit in (70..400usize, 70..140usize),
        in_order: bool,
        is_said in prop::bool::weighted(0.8),
        is_sampled: bool,
        peak in 0..DURATION,
    ) {
        let weights = if is_sampled { sampled() } else { SiteWeights::default() };
        let owners = owners(parted, weights);
        let with_weights: Vec<AllocationRecord> =
            records.iter().map(|record| AllocationRecord { bytes: weights.bytes(record.bytes), ..*record }).collect();
        let mut rows = records.clone();
        if in_order {
            rows.sort_by_key(|record| record.free_ns.unwrap_or(i64::MAX));
        }
        let groups: Vec<Rows> = rows.chunks(group).map(|rows| Rows(rows.to_vec(), is_said)).collect();
        let limits = Limits { rows: window as u64, events: limit.0, waiting: 2 * limit.1, threads: 2 };
        let (sums, courses) = sweep(&groups, &owners, peak, limits).unwrap();

        let forever = |record: &AllocationRecord| Some(record.free_ns.unwrap_or(i64::MAX));
        let until_parted = |record: &AllocationRecord| {
            let parted = parted[record.process as usize].unwrap_or(i64::MAX);
            (record.kind.is_heap() && record.alloc_ns <= parted).then(|| {
                let free = record.free_ns.unwrap_or(i64::MAX);
                // Who parts leaves its blocks after all else that happens then.
                if free > parted { parted.saturating_add(1) } else { free }
            })
        };
        let found = |course: super::peaks::Course| (course.most, course.at);
        let same_time_parting = parted.iter().flatten().any(|at| records.iter().any(|l| l.alloc_ns == at + 1));
        if !same_time_parting {
            prop_assert_eq!(found(courses.together()), largest(&records, until_parted));
        }
        for process in 0..3u32 {
            let own = |record: &AllocationRecord| (record.kind.is_heap() && record.process == process).then(|| forever(record)).flatten();
            prop_assert_eq!(found(courses.process(process as usize)), largest(&records, own));
            let blocks = records.iter().filter(|record| record.process == process && !record.kind.is_of_driver());
            prop_assert_eq!(
                sums.processes[process as usize].requested, blocks.map(|record| record.bytes).sum::<u64>()
            );
        }
        for site in 0..3usize {
            let own = |record: &AllocationRecord| (record.site == Some(site as u64 + 70)).then(|| until_parted(record)).flatten();
            if !same_time_parting {
                prop_assert_eq!(found(courses.site(site)), largest(&with_weights, own));
            }
            let heap = records.iter().filter(|record| record.site == Some(site as u64 + 70) && record.kind.is_heap());
            let blocks: u64 = heap.map(|record| weights.blocks(record.bytes)).sum();
            prop_assert!(sums.sites[site].blocks >= blocks, "and mapping calls");
            let there = with_weights.iter().filter(|record| {
                own(record).is_some_and(|end| record.alloc_ns <= peak && peak < end)
                    && record.free_ns != Some(peak) && parted[record.process as usize] != Some(peak)
            });
            prop_assert_eq!(sums.sites[site].at_peak, there.map(|record| record.bytes).sum::<u64>());
        }
        for span in 0..4u32 {
            let inside = |record: &AllocationRecord| record.span.is_some_and(|own| own == span || span < own && own < 3);
            let counts = |record: &AllocationRecord| record.kind.is_heap() || record.kind.is_own_memory();
            let own = |record: &AllocationRecord| (inside(record) && counts(record)).then(|| forever(record)).flatten();
            prop_assert_eq!(found(courses.span(span as usize)), largest(&records, own));
        }
    }
}

fn record(alloc_ns: i64, free_ns: i64, bytes: u64) -> AllocationRecord {
    AllocationRecord {
        process: 0,
        thread: 0,
        kind: Kind::Malloc,
        bytes,
        alloc_ns,
        free_ns: Some(free_ns),
        site: None,
        span: None,
    }
}

#[test]
fn a_row_of_no_process_is_an_error() {
    let record = AllocationRecord { process: 9, free_ns: None, ..record(0, 0, 1) };
    let limits = Limits { rows: 64, events: 64, waiting: 64, threads: 2 };
    for strange in [
        record,
        AllocationRecord { process: 0, site: Some(1), ..record },
        AllocationRecord { process: 0, span: Some(9), ..record },
    ] {
        assert!(
            sweep(&[Rows(vec![strange], true)], &owners([None; 3], SiteWeights::default()), 0, limits)
                .is_err()
        );
    }
}

#[test]
fn what_the_order_within_a_nanosecond_leaves_open_is_bounded() {
    let bounds = |records: Vec<AllocationRecord>| {
        let limits = Limits { rows: 64, events: 64, waiting: 64, threads: 1 };
        let (_, courses) = sweep(&[Rows(records, true)], &owners([None; 3], sampled()), 0, limits).unwrap();
        (courses.process(0).most, courses.process(0).bound)
    };
    assert_eq!(bounds(vec![record(1, 5, 100), record(5, 9, 70)]), (100, 170));
    let renewed = AllocationRecord { kind: Kind::Realloc, ..record(5, 9, 70) };
    assert_eq!(bounds(vec![record(1, 5, 100), renewed]), (100, 100), "realloc releases first");
    assert_eq!(
        bounds(vec![record(1, 5, 100), renewed, record(5, 6, 1)]),
        (100, 171),
        "if nothing else happened"
    );
    let of_site = |record: AllocationRecord| AllocationRecord { site: Some(70), ..record };
    let with_weights = bounds(vec![of_site(record(1, 5, 100)), of_site(renewed)]);
    assert_eq!(with_weights, (100, 100), "also if its site counts others with it");
}

#[test]
fn a_row_that_statistics_exclude_is_an_error() {
    struct Lying;
    impl Group for Lying {
        fn rows(&self) -> u64 {
            1
        }
        fn acquires(&self) -> Option<(i64, i64)> {
            Some((0, 0))
        }
        fn last_release(&self) -> Option<i64> {
            Some(5)
        }
        fn has_unreleased(&self) -> bool {
            false
        }
        fn records(&self, mut each: impl FnMut(&AllocationRecord) -> Result<(), Error>) -> Result<(), Error> {
            each(&record(0, 9, 1))
        }
    }
    let limits = Limits { rows: 1, events: 64, waiting: 64, threads: 2 };
    let owners = owners([None; 3], SiteWeights::default());
    let error = sweep(&[Lying, Lying], &owners, 0, limits).map(drop).unwrap_err();
    assert!(error.to_string().contains("its own statistics exclude"), "{error}");
}

#[test]
fn blocks_live_for_hours() {
    let hour = 3_600_000_000_000;
    let records = [
        record(1, 9 * hour, 100),
        record(2, 3, 50),
        record(2 * hour, 8 * hour, 30),
        record(8 * hour, 9 * hour, 7),
    ];
    let groups: Vec<Rows> = records.iter().map(|record| Rows(vec![*record], true)).collect();
    let process = [ProcessRow::default()];
    let owners = Owners::new(&process, &[], &[], SiteWeights::default(), 10 * hour).unwrap();
    let limits = Limits { rows: 1, events: 64, waiting: 64, threads: 2 };
    let (_, courses) = sweep(&groups, &owners, 0, limits).unwrap();
    assert_eq!((courses.process(0).most, courses.process(0).at), (150, 2));
}
