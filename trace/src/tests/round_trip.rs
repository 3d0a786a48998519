//! What goes into a trace comes out of it, whatever it is.

use std::collections::HashSet;

use proptest::prelude::*;

use super::arbitrary;
use crate::rows::{
    AccessRow, AllocationRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, Kind, ModuleRow, PlacementRow,
    ProcessRow, Role, SiteRow, SpanRow, ThreadRow, TimelineRow,
};
use crate::{AllocationFilter, Error, Meta, SCHEMA_VERSION, Table, Trace, TraceWriter, recover};

fn read_blocks(trace: &Trace, filter: AllocationFilter) -> Vec<AllocationRow> {
    let mut rows = Vec::new();
    trace.allocations(filter, |row| rows.push(row)).unwrap();
    rows
}

/// Blocks of few processes and spans, so that a filter selects some.
fn some_block() -> impl Strategy<Value = AllocationRow> {
    (any::<AllocationRow>(), 0u32..4, prop::option::of(0u32..10))
        .prop_map(|(row, process, span)| AllocationRow { process, span, ..row })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_table_comes_back(
        processes in prop::collection::vec(any::<ProcessRow>(), 0..20),
        threads in prop::collection::vec(any::<ThreadRow>(), 0..20),
        modules in prop::collection::vec(any::<ModuleRow>(), 0..20),
        spans in prop::collection::vec(any::<SpanRow>(), 0..20),
        timeline in prop::collection::vec(any::<TimelineRow>(), 0..20),
        blocks in prop::collection::vec(some_block(), 0..200),
        sites in prop::collection::vec(any::<SiteRow>(), 0..20),
        frames in prop::collection::vec(any::<FrameRow>(), 0..20),
        folded in prop::collection::vec(any::<FoldedRow>(), 0..20),
        kernel_events in prop::collection::vec(any::<KernelEventRow>(), 0..20),
        accesses in prop::collection::vec(any::<AccessRow>(), 0..20),
        devices in prop::collection::vec(any::<DeviceRow>(), 0..20),
        placements in prop::collection::vec(any::<PlacementRow>(), 0..20),
        parts in 1usize..5,
        meta in arbitrary::meta(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = TraceWriter::create(directory.path()).unwrap();
        for rows in blocks.chunks(blocks.len() / parts + 1) {
            for row in rows {
                writer.allocation(row.clone()).unwrap();
            }
            writer.close_part().unwrap();
        }
        for row in &timeline {
            writer.timeline(row.clone()).unwrap();
        }
        for row in &kernel_events {
            writer.kernel_event(row.clone()).unwrap();
        }
        for row in &accesses {
            writer.access(row.clone()).unwrap();
        }
        for row in &placements {
            writer.placement(row.clone()).unwrap();
        }
        writer.processes(&processes).unwrap();
        writer.threads(&threads).unwrap();
        writer.modules(&modules).unwrap();
        writer.spans(spans.iter().cloned()).unwrap();
        writer.sites(&sites).unwrap();
        writer.frames(&frames).unwrap();
        writer.folded(&folded).unwrap();
        writer.devices(&devices).unwrap();
        writer.finish(&meta).unwrap();

        let trace = Trace::open(directory.path()).unwrap();
        let (mut processes, mut threads, mut spans) = (processes, threads, spans);
        processes.sort_by_key(|row| row.process);
        threads.sort_by_key(|row| row.thread);
        spans.sort_by_key(|row| row.span);
        let mut modules = modules;
        modules.sort_by_key(|row| row.process);
        prop_assert_eq!(trace.meta(), &Meta { complete: true, ..meta });
        prop_assert_eq!(trace.processes().unwrap(), processes);
        prop_assert_eq!(trace.threads().unwrap(), threads);
        prop_assert_eq!(trace.modules().unwrap(), modules);
        prop_assert_eq!(trace.spans().unwrap(), spans);
        prop_assert_eq!(trace.timeline().unwrap(), timeline);
        prop_assert_eq!(trace.kernel_events().unwrap(), kernel_events);
        let mut sampled = Vec::new();
        trace.accesses(|row| sampled.push(row)).unwrap();
        prop_assert_eq!(sampled, accesses);
        let mut placed = Vec::new();
        trace.placements(|row| placed.push(row)).unwrap();
        prop_assert_eq!(placed, placements);
        prop_assert_eq!(trace.sites().unwrap(), sites);
        prop_assert_eq!(trace.frames().unwrap(), frames);
        prop_assert_eq!(trace.folded().unwrap(), folded);
        prop_assert_eq!(trace.devices().unwrap(), devices);
        prop_assert_eq!(read_blocks(&trace, AllocationFilter::default()), blocks);
    }

    #[test]
    fn a_filter_hands_over_what_it_says(
        blocks in prop::collection::vec(some_block(), 0..200),
        min_bytes in any::<u64>(),
        process in prop::option::of(0u32..4),
        spans in prop::option::of(prop::collection::hash_set(0u32..10, 0..4)),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = TraceWriter::create(directory.path()).unwrap();
        for (index, row) in blocks.iter().enumerate() {
            writer.allocation(row.clone()).unwrap();
            if index % 7 == 0 {
                writer.close_part().unwrap();
            }
        }
        writer.finish(&Meta::default()).unwrap();

        let filter = AllocationFilter { min_bytes, process, spans: spans.as_ref() };
        let expected: Vec<_> = blocks
            .into_iter()
            .filter(|row| row.bytes >= min_bytes)
            .filter(|row| process.is_none_or(|process| row.process == process))
            .filter(|row| match (&spans, row.span) {
                (None, _) => true,
                (Some(spans), Some(span)) => spans.contains(&span),
                (Some(_), None) => false,
            })
            .collect();
        prop_assert_eq!(read_blocks(&Trace::open(directory.path()).unwrap(), filter), expected);
    }
}

/// Rows enough for several pages, with what decides how a page is encoded: how many different
/// values a column has, how long it stays the same, how often it is null, how far values lie apart.
fn many_blocks(seed: u64, rows: usize, distinct: u64, stays: u64, spread: u32) -> Vec<AllocationRow> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut first = block(0);
    let mut time = random() as i64;
    let mut next = |row: &mut AllocationRow| {
        if random() % stays == 0 {
            *row = AllocationRow {
                process: (random() % distinct) as u32,
                thread: (random() % distinct) as u32,
                kind: [Kind::Malloc, Kind::Calloc, Kind::MapArena, Kind::TorchBlock][random() as usize % 4],
                span: (random() % 3 > 0).then_some((random() % distinct) as u32),
                device: (random() % 5 == 0).then_some((random() % distinct) as u32),
                ..row.clone()
            };
        }
        time = time.wrapping_add((random() >> spread) as i64);
        row.address = (random() % stays == 0).then(&mut random);
        row.bytes = random() % distinct;
        row.alloc_ns = time.wrapping_sub((random() >> spread) as i64);
        row.free_ns = (random() % stays != 1).then_some(time);
        row.site = (random() % 4 > 0).then(|| (random() % distinct).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        row.ordinal = row.ordinal.wrapping_add((random() >> 60) as u32);
    };
    let each = |_| {
        next(&mut first);
        first.clone()
    };
    (0..rows).map(each).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pages_come_back(
        seed in any::<u64>(),
        rows in 1usize..60_000,
        distinct in prop::sample::select(vec![1, 2, 3, 17, 200, 1000, 40_000, u64::from(u32::MAX)]),
        stays in prop::sample::select(vec![1, 2, 9, 100, 5000]),
        spread in 0u32..64,
    ) {
        let blocks = many_blocks(seed, rows, distinct, stays, spread);
        let directory = tempfile::tempdir().unwrap();
        let mut writer = TraceWriter::create(directory.path()).unwrap();
        for row in &blocks {
            writer.allocation(row.clone()).unwrap();
        }
        writer.finish(&Meta::default()).unwrap();
        let trace = Trace::open(directory.path()).unwrap();
        let some = HashSet::from([0, 1, 5]);
        let filter = AllocationFilter { min_bytes: distinct / 3, process: None, spans: Some(&some) };
        let wanted = |row: &&AllocationRow| {
            row.bytes >= filter.min_bytes && row.span.is_some_and(|span| some.contains(&span))
        };
        let wanted: Vec<_> = blocks.iter().filter(wanted).cloned().collect();
        for (expected, filter) in [(wanted, filter), (blocks, AllocationFilter::default())] {
            let mut read = read_blocks(&trace, filter).into_iter();
            for block in expected {
                prop_assert_eq!(read.next(), Some(block));
            }
            prop_assert_eq!(read.next(), None);
        }
    }
}

fn block(address: u64) -> AllocationRow {
    AllocationRow {
        process: 0,
        thread: 0,
        kind: Kind::Malloc,
        address: Some(address),
        bytes: address % 1000,
        alloc_ns: address as i64,
        free_ns: None,
        site: None,
        ordinal: 0,
        span: None,
        role: Role::None,
        device: None,
    }
}

/// More rows than a batch, a row group and a part hold.
#[test]
fn parts_rotate_and_keep_the_order() {
    const ROWS: u64 = 4 * 1024 * 1024 + 100_000;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    for address in 0..ROWS {
        writer.allocation(block(address)).unwrap();
    }
    assert!(directory.path().join("allocations/part-00000.parquet").exists());
    assert!(!directory.path().join("allocations/part-00001.parquet").exists());
    writer.finish(&Meta::default()).unwrap();
    assert!(directory.path().join("allocations/part-00001.parquet").exists());

    let mut next = 0;
    let trace = Trace::open(directory.path()).unwrap();
    trace
        .allocations(AllocationFilter::default(), |row| {
            assert_eq!(row.address, Some(next));
            next += 1;
        })
        .unwrap();
    assert_eq!(next, ROWS);
    let groups: Vec<usize> = row_groups(&directory.path().join("allocations/part-00000.parquet"));
    assert!(groups.iter().all(|&rows| rows <= 512 * 1024), "{groups:?}");
}

fn row_groups(part: &std::path::Path) -> Vec<usize> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(std::fs::File::open(part).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    groups.iter().map(|group| group.num_rows() as usize).collect()
}

/// Bytes of all files of a trace, those under hidden names too.
fn bytes_on_disk(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { bytes_on_disk(&path) } else { path.metadata().unwrap().len() })
        .sum()
}

/// The oldest parts go, and what is left holds every block that was live at the time named or
/// later.
#[test]
fn a_trace_stays_within_its_limit() {
    const LIMIT: u64 = 4 << 20;
    const ROWS: u64 = 2_000_000;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    writer.limit(LIMIT);
    let row = |number: u64| AllocationRow {
        bytes: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
        free_ns: Some(number as i64 + 5),
        ..block(number)
    };
    for number in 0..ROWS {
        writer.allocation(row(number)).unwrap();
        if number % 100_000 == 0 {
            assert!(bytes_on_disk(directory.path()) <= LIMIT);
        }
    }
    writer.finish(&Meta::default()).unwrap();
    assert!(bytes_on_disk(directory.path()) <= LIMIT);

    let trace = Trace::open(directory.path()).unwrap();
    let rows = trace.meta().rows;
    let read = read_blocks(&trace, AllocationFilter::default());
    assert!(rows.rotated > 0 && read.len() > 100_000);
    assert_eq!(rows.rotated + read.len() as u64, ROWS);
    let complete = (0..ROWS).map(row).filter(|row| row.free_ns.unwrap() > rows.complete_from_ns);
    assert_eq!(read, complete.collect::<Vec<_>>());

    // What is written next does not take the place of a part that is still there.
    std::fs::write(directory.path().join("meta.json"), format!(r#"{{"schema_version": {SCHEMA_VERSION}}}"#))
        .unwrap();
    recover(directory.path()).unwrap();
    let again = Trace::open(directory.path()).unwrap();
    assert_eq!(read_blocks(&again, AllocationFilter::default()), read);
}

/// A tracer that was killed: closed parts and the last small tables are there, the rest is not.
#[test]
fn a_trace_cut_short_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    writer.allocation(block(1)).unwrap();
    writer
        .timeline(TimelineRow {
            pages: None,
            process: 0,
            time_ns: 1,
            reason: "sample".into(),
            live_bytes: 1,
            heap_bytes: 1,
            mapped_bytes: 0,
            resident_bytes: None,
            device_bytes: None,
        })
        .unwrap();
    writer.close_part().unwrap();
    writer.allocation(block(2)).unwrap();
    std::mem::forget(writer); // no destructor runs when a process is killed

    let trace = Trace::open(directory.path()).unwrap();
    assert!(!trace.meta().complete);
    assert_eq!(read_blocks(&trace, AllocationFilter::default()), [block(1)]);
    assert_eq!(trace.timeline().unwrap().len(), 1);
    assert_eq!(trace.spans().unwrap(), []);
}

/// `meta` during the run says the trace is not complete, whatever the caller has in it.
#[test]
fn a_running_trace_is_not_complete() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    writer.meta(&Meta { complete: true, cpus: 3, ..Meta::default() }).unwrap();
    let trace = Trace::open(directory.path()).unwrap();
    assert_eq!(trace.meta(), &Meta { complete: false, cpus: 3, ..Meta::default() });
    writer.finish(&Meta::default()).unwrap();
    assert!(Trace::open(directory.path()).unwrap().meta().complete);
}

#[test]
fn whole_tables_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    let row = |thread| ThreadRow { thread, process: 0, tid: 1, start_ns: 2, events: 3 };
    writer.threads(&[row(0), row(1)]).unwrap();
    writer.threads(&[row(0), row(1), row(2)]).unwrap();
    let trace = Trace::open(directory.path()).map(|trace| trace.threads().unwrap()).unwrap();
    assert_eq!(trace, [row(0), row(1), row(2)]);
}

#[test]
fn an_empty_trace_has_every_table() {
    let directory = tempfile::tempdir().unwrap();
    TraceWriter::create(directory.path()).unwrap().finish(&Meta::default()).unwrap();
    for table in Table::ALL {
        let name = table.name();
        let file = if table.in_parts() { format!("{name}/part-00000") } else { name.to_owned() };
        assert!(directory.path().join(file + ".parquet").exists(), "{name}");
    }
    let trace = Trace::open(directory.path()).unwrap();
    assert_eq!(trace.meta().schema_version, SCHEMA_VERSION);
    assert_eq!(read_blocks(&trace, AllocationFilter::default()), []);
}

/// Pruning by statistics changes nothing but the work: an empty set of spans matches nothing.
#[test]
fn no_spans_selected_means_no_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    writer.allocation(block(1)).unwrap();
    writer.finish(&Meta::default()).unwrap();
    let none = HashSet::new();
    let filter = AllocationFilter { spans: Some(&none), ..AllocationFilter::default() };
    assert_eq!(read_blocks(&Trace::open(directory.path()).unwrap(), filter), []);
}

#[test]
fn files_are_private_and_an_old_trace_is_not_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("run/1");
    TraceWriter::create(&directory).unwrap().finish(&Meta::default()).unwrap();
    let mode = |path: &str| directory.join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("allocations"), 0o700);
    assert_eq!(mode("meta.json"), 0o600);
    assert_eq!(mode("allocations/part-00000.parquet"), 0o600);
    assert!(matches!(TraceWriter::create(&directory), Err(Error::Occupied(_))));
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let Err(error) = TraceWriter::create(file.join("trace")) else { panic!("made a trace in a file") };
    assert!(error.to_string().starts_with("cannot create "), "{error}");
}
