//! What sampled accesses say of the blocks that were live at the peak.

use std::collections::HashMap;

use memtrace_analysis::report::accesses::{self, Accesses, JUDGED_FROM, Retained};
use memtrace_analysis::report::clock;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_trace::rows::{AccessRow, AllocationRow, Kind, ProcessRow, Role};
use memtrace_trace::{Meta, Peak, Rows, Trace, TraceWriter};
use proptest::prelude::*;

const PEAK: i64 = 1000;

fn block(thread: u32, bytes: u64, alloc_ns: i64, free_ns: Option<i64>, site: Option<u64>) -> AllocationRow {
    AllocationRow {
        process: 0,
        thread,
        kind: Kind::Malloc,
        address: Some(4096),
        bytes,
        alloc_ns,
        free_ns,
        site,
        ordinal: 0,
        span: None,
        role: Role::None,
        device: None,
    }
}

fn access(time_ns: i64, access: &str, block: Option<&AllocationRow>) -> AccessRow {
    AccessRow {
        time_ns,
        access: access.into(),
        block_thread: block.map(|block| block.thread),
        block_ns: block.map(|block| block.alloc_ns),
        ..AccessRow::default()
    }
}

fn traced(meta: Meta, blocks: &[AllocationRow], sampled: &[AccessRow]) -> (tempfile::TempDir, Trace) {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    for row in blocks {
        writer.allocation(row.clone()).unwrap();
    }
    for row in sampled {
        writer.access(row.clone()).unwrap();
    }
    writer.processes(&[ProcessRow::default()]).unwrap();
    writer.finish(&meta).unwrap();
    let trace = Trace::open(directory.path()).unwrap();
    (directory, trace)
}

fn meta(source: &str) -> Meta {
    Meta {
        recorded: [("accesses".to_string(), source.to_string())].into(),
        peak: Peak { peak_ns: PEAK, ..Peak::default() },
        ..Meta::default()
    }
}

fn retained(trace: &Trace) -> Retained {
    accesses::of(trace).unwrap().unwrap().retained.unwrap().unwrap()
}

#[test]
fn what_is_not_accessed_after_the_peak_is_unused() {
    let used = block(0, 100_000, 1, None, Some(7));
    let done = block(0, 200_000, 2, Some(3000), Some(8));
    let never = block(1, 400_000, 2, None, Some(8));
    let gone = block(0, 800_000, 3, Some(PEAK), Some(9));
    let small = block(0, JUDGED_FROM - 1, 4, None, Some(9));
    let sampled = [
        access(1500, "load", Some(&used)),
        access(900, "load", Some(&used)),
        access(PEAK, "store", Some(&done)),
        access(1600, "other", None),
        // A first touch after the peak is no use.
        access(1700, "fault", Some(&never)),
    ];
    let (_directory, trace) = traced(meta("hardware"), &[used, done, never, gone, small], &sampled);
    let all = accesses::of(&trace).unwrap().unwrap();
    assert_eq!((all.samples, all.in_blocks, all.faults, all.faults_in_blocks), (4, 3, 1, 1));
    let retained = retained(&trace);
    assert_eq!((retained.samples_after, retained.bytes), (2, 700_000));
    assert_eq!((retained.unused_bytes, retained.never_bytes), (600_000, 400_000));
    let [site] = retained.sites.as_slice() else { panic!("{:?}", retained.sites) };
    assert_eq!((site.site, site.blocks, site.unused_bytes, site.never_bytes), (Some(8), 2, 600_000, 400_000));
    let json = serde_json::to_value(report(&trace, Listed::default()).unwrap()).unwrap();
    let unused = &json["accesses"]["retained_but_unused"];
    assert_eq!((unused["unused_bytes"].as_u64(), unused["estimate"].as_bool()), (Some(600_000), Some(true)));
}

#[test]
fn faults_by_themselves_say_nothing_of_use() {
    let touched = block(0, 100_000, 1, None, None);
    let sampled = [access(500, "fault", Some(&touched))];
    let (_directory, trace) = traced(meta("faults"), &[touched], &sampled);
    let all = accesses::of(&trace).unwrap().unwrap();
    assert_eq!(all, Accesses { faults: 1, faults_in_blocks: 1, ..Accesses::default() });
    assert_eq!(report(&trace, Listed::default()).unwrap().accesses.unwrap().retained_but_unused, None);
}

#[test]
fn nothing_is_said_where_nothing_was_requested() {
    let (_directory, trace) = traced(meta("off"), &[], &[]);
    assert_eq!(accesses::of(&trace).unwrap(), None);
    assert_eq!(report(&trace, Listed::default()).unwrap().accesses, None);
}

/// Without rows of blocks there is nothing to judge.
#[test]
fn a_trace_without_rows_of_blocks_says_so() {
    let rows = Rows { aggregate: true, ..Rows::default() };
    let sampled = [access(1500, "load", None)];
    let (_directory, trace) = traced(Meta { rows, ..meta("hardware") }, &[], &sampled);
    let why = accesses::of(&trace).unwrap().unwrap().retained.unwrap().unwrap_err();
    assert!(why.contains("--aggregate"), "{why}");
}

#[test]
fn samples_of_the_clock_say_where_time_goes_and_not_what_is_unused() {
    let (large, small) = (block(0, 100_000, 1, None, Some(7)), block(0, 100, 2, None, Some(8)));
    let met = |kind: &str, block: &AllocationRow| AccessRow {
        address: block.address,
        block_bytes: Some(block.bytes),
        site: block.site,
        ..access(1500, kind, Some(block))
    };
    let elsewhere = AccessRow { address: Some(1), ..access(1500, "load", None) };
    let sampled = [
        met("load", &large),
        met("store", &large),
        met("load", &small),
        elsewhere,
        access(1500, "load", None),
        access(1500, "none", None),
        access(1500, "unknown", None),
    ];
    let (_directory, trace) = traced(meta("clock"), &[large, small], &sampled);
    let times = clock::of(&trace).unwrap().unwrap();
    assert_eq!((times.samples, times.known, times.touching, times.without_address), (7, 6, 5, 1));
    assert_eq!((times.in_blocks, times.in_large_blocks), (3, 2));
    let sites: Vec<_> = times.sites.iter().map(|site| (site.site, site.samples, site.stores)).collect();
    assert_eq!(sites, [(Some(7), 2, 1), (Some(8), 1, 0)]);
    assert_eq!(accesses::of(&trace).unwrap().unwrap(), Accesses::default());
    let document = report(&trace, Listed::default()).unwrap().accesses.unwrap();
    assert_eq!(document.clock.map(|clock| clock.samples), Some(7));
    assert_eq!(clock::of(&traced(meta("faults"), &[], &[]).1).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a plain account, block by block.
    #[test]
    fn is_the_sum_over_blocks(
        blocks in prop::collection::vec(
            (0..3u32, 1..200_000u64, 0..2000i64, prop::option::of(1..2000i64), prop::option::of(0..4u64)), 0..40),
        sampled in prop::collection::vec((0..2500i64, any::<prop::sample::Index>()), 1..60),
    ) {
        // A thread allocates once at a time.
        let unique: HashMap<(u32, i64), _> =
            blocks.into_iter().map(|block| ((block.0, block.2), block)).collect();
        let blocks: Vec<AllocationRow> = unique
            .into_values()
            .map(|(thread, bytes, at, life, site)| block(thread, bytes, at, life.map(|life| at + life), site))
            .collect();
        let rows: Vec<AccessRow> = sampled
            .iter()
            .map(|(time, index)| access(*time, "load", blocks.get(index.index(blocks.len() + 1))))
            .collect();
        let (_directory, trace) = traced(meta("hardware"), &blocks, &rows);
        let retained = retained(&trace);
        let of = |block: &AllocationRow| {
            let own = |row: &&AccessRow| {
                row.block_thread == Some(block.thread) && row.block_ns == Some(block.alloc_ns)
            };
            rows.iter().filter(own).map(|row| row.time_ns).max()
        };
        let at_peak = |block: &&AllocationRow| {
            block.bytes >= JUDGED_FROM
                && block.alloc_ns <= PEAK
                && block.free_ns.is_none_or(|free| free > PEAK)
        };
        let at_peak: Vec<&AllocationRow> = blocks.iter().filter(at_peak).collect();
        let sum = |wanted: &dyn Fn(Option<i64>) -> bool| -> u64 {
            at_peak.iter().filter(|block| wanted(of(block))).map(|block| block.bytes).sum()
        };
        prop_assert_eq!(retained.bytes, sum(&|_| true));
        prop_assert_eq!(retained.unused_bytes, sum(&|last| last.is_none_or(|last| last <= PEAK)));
        prop_assert_eq!(retained.never_bytes, sum(&|last| last.is_none()));
        prop_assert_eq!(retained.sites.iter().map(|site| site.unused_bytes).sum::<u64>(), retained.unused_bytes);
        prop_assert!(retained.sites.is_sorted_by_key(|site| std::cmp::Reverse(site.unused_bytes)));
    }
}
