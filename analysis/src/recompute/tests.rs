//! The sweep against adding everything up the plain way, however rows are split and ordered.

use memtrace_trace::rows::{Kind, ProcessRow, SiteRow, SpanRow};
use memtrace_trace::weights::{EXACT_FROM, SAMPLED_MEAN, SiteWeights};
use memtrace_trace::{Life, Meta};
use proptest::prelude::*;

use super::events::Cast;
use super::sweep::{Group, Limits, sweep};
use crate::error::Error;

const DURATION: i64 = 1000;

/// Rows, and whether the end of their file says something about them.
struct Rows(Vec<Life>, bool);

impl Group for Rows {
    fn rows(&self) -> u64 {
        self.0.len() as u64
    }

    fn acquires(&self) -> Option<(i64, i64)> {
        let times = || self.0.iter().map(|life| life.alloc_ns);
        self.1.then_some((times().min()?, times().max()?))
    }

    fn last_release(&self) -> Option<i64> {
        self.1.then_some(self.0.iter().filter_map(|life| life.free_ns).max()?)
    }

    fn has_unreleased(&self) -> bool {
        !self.1 || self.0.iter().any(|life| life.free_ns.is_none())
    }

    fn lives(&self, each: impl FnMut(&Life) -> Result<(), Error>) -> Result<(), Error> {
        self.0.iter().try_for_each(each)
    }
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let kind = prop_oneof![4 => Just(Kind::Malloc), 1 => Just(Kind::MapAnonymous), 1 => Just(Kind::MapFile), 1 => Just(Kind::Cuda)];
    let times = (0..DURATION, prop::option::weighted(0.8, prop_oneof![3 => 0..20i64, 1 => 0..DURATION]));
    let whose = (0..3u32, prop::option::of(0..3u64), prop::option::of(0..4u32));
    let life = (kind, 0..1000u64, times, whose).prop_map(
        |(kind, bytes, (alloc_ns, length), (process, site, span))| Life {
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
    prop::collection::vec(life, 0..150)
}

fn cast(parted: [Option<i64>; 3], weights: SiteWeights) -> Cast {
    let process = |(process, parted_ns)| ProcessRow { process, parted_ns, ..Default::default() };
    let processes: Vec<ProcessRow> = (0..).zip(parted).map(process).collect();
    let sites: Vec<SiteRow> = (70..73).map(|site| SiteRow { site, ..Default::default() }).collect();
    let spans: Vec<SpanRow> = [None, Some(0), Some(1), None].into_iter().enumerate().map(span).collect();
    Cast::new(&processes, &sites, &spans, weights, DURATION).unwrap()
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

/// The largest sum over time of the blocks that `end` gives an end (`None`: they do not count), and when. What is
/// released at a time goes first; a block that is released when it comes has been there.
fn largest<'a>(lives: &'a [Life], end: impl Fn(&'a Life) -> Option<i64>) -> (i64, i64) {
    let blocks: Vec<(i64, i64, i64)> =
        lives.iter().filter_map(|life| Some((life.alloc_ns, end(life)?, life.bytes as i64))).collect();
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
        lives in lives(),
        parted in prop::array::uniform3(prop::option::of(0..DURATION)),
        (group, window) in (1..60usize, 1..80usize),
        limit in (70..400usize, 70..140usize),
        in_order: bool,
        is_said in prop::bool::weighted(0.8),
        is_sampled: bool,
        peak in 0..DURATION,
    ) {
        let weights = if is_sampled { sampled() } else { SiteWeights::default() };
        let cast = cast(parted, weights);
        let weighed: Vec<Life> =
            lives.iter().map(|life| Life { bytes: weights.bytes(life.bytes), ..*life }).collect();
        let mut rows = lives.clone();
        if in_order {
            rows.sort_by_key(|life| life.free_ns.unwrap_or(i64::MAX));
        }
        let groups: Vec<Rows> = rows.chunks(group).map(|rows| Rows(rows.to_vec(), is_said)).collect();
        let limits = Limits { rows: window as u64, events: limit.0, waiting: 2 * limit.1, threads: 2 };
        let (sums, courses) = sweep(&groups, &cast, peak, limits).unwrap();

        let forever = |life: &Life| Some(life.free_ns.unwrap_or(i64::MAX));
        let until_parted = |life: &Life| {
            let parted = parted[life.process as usize].unwrap_or(i64::MAX);
            (life.kind.is_heap() && life.alloc_ns <= parted).then(|| {
                let free = life.free_ns.unwrap_or(i64::MAX);
                // Who parts leaves its blocks after all else that happens then.
                if free > parted { parted.saturating_add(1) } else { free }
            })
        };
        let found = |course: super::peaks::Course| (course.most, course.at);
        let same_time_parting = parted.iter().flatten().any(|at| lives.iter().any(|l| l.alloc_ns == at + 1));
        if !same_time_parting {
            prop_assert_eq!(found(courses.together()), largest(&lives, until_parted));
        }
        for process in 0..3u32 {
            let own = |life: &Life| (life.kind.is_heap() && life.process == process).then(|| forever(life)).flatten();
            prop_assert_eq!(found(courses.process(process as usize)), largest(&lives, own));
            let blocks = lives.iter().filter(|life| life.process == process && !life.kind.is_of_driver());
            prop_assert_eq!(
                sums.processes[process as usize].requested, blocks.map(|life| life.bytes).sum::<u64>()
            );
        }
        for site in 0..3usize {
            let own = |life: &Life| (life.site == Some(site as u64 + 70)).then(|| until_parted(life)).flatten();
            if !same_time_parting {
                prop_assert_eq!(found(courses.site(site)), largest(&weighed, own));
            }
            let heap = lives.iter().filter(|life| life.site == Some(site as u64 + 70) && life.kind.is_heap());
            let blocks: u64 = heap.map(|life| weights.blocks(life.bytes)).sum();
            prop_assert!(sums.sites[site].blocks >= blocks, "and mapping calls");
            let there = weighed.iter().filter(|life| {
                own(life).is_some_and(|end| life.alloc_ns <= peak && peak < end)
                    && life.free_ns != Some(peak) && parted[life.process as usize] != Some(peak)
            });
            prop_assert_eq!(sums.sites[site].at_peak, there.map(|life| life.bytes).sum::<u64>());
        }
        for span in 0..4u32 {
            let inside = |life: &Life| life.span.is_some_and(|own| own == span || span < own && own < 3);
            let counts = |life: &Life| life.kind.is_heap() || life.kind.is_own_memory();
            let own = |life: &Life| (inside(life) && counts(life)).then(|| forever(life)).flatten();
            prop_assert_eq!(found(courses.span(span as usize)), largest(&lives, own));
        }
    }
}

fn life(alloc_ns: i64, free_ns: i64, bytes: u64) -> Life {
    Life {
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
fn a_row_of_nobody_is_an_error() {
    let life = Life { process: 9, free_ns: None, ..life(0, 0, 1) };
    let limits = Limits { rows: 64, events: 64, waiting: 64, threads: 2 };
    for strange in
        [life, Life { process: 0, site: Some(1), ..life }, Life { process: 0, span: Some(9), ..life }]
    {
        assert!(
            sweep(&[Rows(vec![strange], true)], &cast([None; 3], SiteWeights::default()), 0, limits).is_err()
        );
    }
}

#[test]
fn what_the_order_within_a_nanosecond_leaves_open_is_bounded() {
    let bounds = |lives: Vec<Life>| {
        let limits = Limits { rows: 64, events: 64, waiting: 64, threads: 1 };
        let (_, courses) = sweep(&[Rows(lives, true)], &cast([None; 3], sampled()), 0, limits).unwrap();
        (courses.process(0).most, courses.process(0).bound)
    };
    assert_eq!(bounds(vec![life(1, 5, 100), life(5, 9, 70)]), (100, 170));
    let renewed = Life { kind: Kind::Realloc, ..life(5, 9, 70) };
    assert_eq!(bounds(vec![life(1, 5, 100), renewed]), (100, 100), "realloc releases first");
    assert_eq!(
        bounds(vec![life(1, 5, 100), renewed, life(5, 6, 1)]),
        (100, 171),
        "if nobody else did anything"
    );
    let of_site = |life: Life| Life { site: Some(70), ..life };
    let weighed = bounds(vec![of_site(life(1, 5, 100)), of_site(renewed)]);
    assert_eq!(weighed, (100, 100), "also if its site counts others with it");
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
        fn lives(&self, mut each: impl FnMut(&Life) -> Result<(), Error>) -> Result<(), Error> {
            each(&life(0, 9, 1))
        }
    }
    let limits = Limits { rows: 1, events: 64, waiting: 64, threads: 2 };
    let cast = cast([None; 3], SiteWeights::default());
    let error = sweep(&[Lying, Lying], &cast, 0, limits).map(drop).unwrap_err();
    assert!(error.to_string().contains("its own statistics exclude"), "{error}");
}

#[test]
fn blocks_live_for_hours() {
    let hour = 3_600_000_000_000;
    let lives =
        [life(1, 9 * hour, 100), life(2, 3, 50), life(2 * hour, 8 * hour, 30), life(8 * hour, 9 * hour, 7)];
    let groups: Vec<Rows> = lives.iter().map(|life| Rows(vec![*life], true)).collect();
    let process = [ProcessRow::default()];
    let cast = Cast::new(&process, &[], &[], SiteWeights::default(), 10 * hour).unwrap();
    let limits = Limits { rows: 1, events: 64, waiting: 64, threads: 2 };
    let (_, courses) = sweep(&groups, &cast, 0, limits).unwrap();
    assert_eq!((courses.process(0).most, courses.process(0).at), (150, 2));
}
