//! Runs read from a real trace directory: order, nesting, outputs, one-time bytes, what is left
//! out.

use memtrace_analysis::profile::{self, Event, Profile, Run};
use memtrace_trace::rows::{AllocationRow, ArrayInfo, Kind, ProcessRow, Role, SpanRow, TimelineRow};
use memtrace_trace::{Meta, Trace, TraceWriter};

fn process(process: u32, lost_events: u64) -> ProcessRow {
    ProcessRow {
        process,
        pid: 100 + process,
        ppid: 1,
        command: "program".into(),
        origin: "exec".into(),
        start_ns: 0,
        end_ns: None,
        parted_ns: None,
        exit: None,
        peak_live_bytes: 0,
        peak_heap_bytes: 0,
        peak_mapped_bytes: 0,
        peak_resident_bytes: 0,
        probe_bytes: 0,
        peak_ns: 0,
        allocations: 0,
        requested_bytes: 0,
        lost_events,
        inherited_releases: 0,
        unseen_releases: 0,
        ..Default::default()
    }
}

fn span(span: u32, parent: Option<u32>, call: u32, times: (i64, Option<i64>)) -> SpanRow {
    SpanRow {
        span,
        parent,
        operator: if parent.is_some() { "inner".into() } else { "outer".into() },
        call,
        start_ns: times.0,
        end_ns: times.1,
        ..SpanRow::default()
    }
}

fn block(span: u32, bytes: u64, alloc_ns: i64, free_ns: Option<i64>) -> AllocationRow {
    AllocationRow {
        process: 0,
        thread: 0,
        kind: Kind::Malloc,
        address: Some(4096 * alloc_ns as u64),
        bytes,
        alloc_ns,
        free_ns,
        site: None,
        ordinal: 0,
        span: Some(span),
        role: Role::None,
        device: None,
    }
}

fn trace(folder: &std::path::Path, spans: &[SpanRow], blocks: Vec<AllocationRow>, lost: u64) -> Trace {
    let mut writer = TraceWriter::create(folder).unwrap();
    // Written in the order of release, as a recorder does.
    blocks.into_iter().rev().for_each(|row| writer.allocation(row).unwrap());
    for (time_ns, heap_bytes) in [(5, 1000), (8, 2000), (50, 99_000)] {
        let reason = "sample".to_owned();
        let point = TimelineRow {
            pages: None,
            process: 0,
            time_ns,
            reason,
            live_bytes: heap_bytes,
            heap_bytes,
            mapped_bytes: 0,
            resident_bytes: Some(9),
            device_bytes: None,
        };
        writer.timeline(point).unwrap();
    }
    writer.processes(&[process(0, lost)]).unwrap();
    writer.threads(&[]).unwrap();
    writer.modules(&[]).unwrap();
    writer.spans(spans.iter().cloned()).unwrap();
    writer.finish(&Meta::default()).unwrap();
    Trace::open(folder).unwrap()
}

#[test]
fn spans_hold_the_blocks_of_the_spans_inside_them_in_time_order() {
    let folder = tempfile::tempdir().unwrap();
    let spans = [
        span(1, None, 0, (10, Some(100))),
        span(2, Some(1), 0, (20, Some(40))),
        span(3, None, 1, (200, None)),
    ];
    let mut reserved = block(1, 1 << 30, 12, None);
    reserved.kind = Kind::MapReserved;
    let mut output = block(1, 9000, 60, Some(300));
    output.role = Role::Output;
    // The second block moves into the room that the first one's release makes at the same time.
    let blocks = vec![
        block(1, 5000, 11, Some(30)),
        reserved,
        block(2, 6000, 30, Some(35)),
        block(1, 100, 50, None),
        output,
    ];
    let profile = profile::read(&trace(folder.path(), &spans, blocks, 0)).unwrap();

    let [outer, inner] = profile.runs.as_slice() else { panic!("{} runs", profile.runs.len()) };
    let bytes = |run: &Run| run.program.blocks.iter().map(|block| block.bytes).collect::<Vec<_>>();
    assert_eq!(bytes(outer), [5000, 6000, 9000]);
    let events = [Event::Alloc(0), Event::Free(0), Event::Alloc(1), Event::Free(1), Event::Alloc(2)];
    assert_eq!(outer.program.events, events, "a release after the span's end is none of its events");
    assert!(outer.program.blocks[2].output);
    assert_eq!(bytes(inner), [6000]);
    assert_eq!(profile.baselines[&0].heap_bytes, 2000);
    assert!(profile.notes.iter().any(|note| note.contains("never ended")), "{:?}", profile.notes);
}

#[test]
fn a_process_that_lost_events_is_left_out_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let profile =
        profile::read(&trace(folder.path(), &[span(1, None, 0, (10, Some(20)))], vec![], 3)).unwrap();
    assert!(profile.runs.is_empty());
    assert!(profile.notes[0].contains("lost 3 events"), "{:?}", profile.notes);
}

#[test]
fn spans_that_nest_in_a_circle_end() {
    let folder = tempfile::tempdir().unwrap();
    let spans = [span(1, Some(2), 0, (10, Some(100))), span(2, Some(1), 0, (20, Some(40)))];
    let profile = profile::read(&trace(folder.path(), &spans, vec![block(1, 5000, 25, None)], 0)).unwrap();
    assert_eq!(profile.runs.len(), 2);
    assert!(profile.runs.iter().all(|run| run.program.blocks.len() == 1));
}

#[test]
fn one_time_bytes_are_what_only_the_first_call_leaves_behind() {
    let folder = tempfile::tempdir().unwrap();
    let spans = [span(1, None, 0, (10, Some(100))), span(2, None, 1, (110, Some(200)))];
    let mut buffer = block(1, 33_554_432, 20, None);
    buffer.kind = Kind::MapAnonymous;
    let mut output = block(1, 7000, 50, None);
    output.role = Role::Output;
    let blocks = vec![
        buffer,
        block(1, 8000, 30, Some(40)), // temporary
        block(1, 12_000, 45, None),   // a cache refilled by every call
        output,                       // result
        block(2, 12_000, 145, None),
    ];
    let profile = profile::read(&trace(folder.path(), &spans, blocks, 0)).unwrap();
    let [call] = profile.first_calls.as_slice() else { panic!("{:?}", profile.first_calls) };
    let one_time = call.one_time.as_ref().unwrap();
    assert_eq!(one_time.bytes, 33_554_432);
    assert_eq!(one_time.blocks[0].kind, "map_anonymous");
    let single = Profile::of_runs(profile.runs[..1].to_vec());
    assert!(single.first_calls[0].one_time.is_none(), "one call says nothing");
}

#[test]
fn of_many_calls_the_first_and_the_largest_are_read() {
    let array = ArrayInfo { shape: vec![1000], dtype: "<f4".into(), ..ArrayInfo::default() };
    let call = |number: u32, peak: u64| SpanRow {
        inputs: [array.clone()].into(),
        working_peak_bytes: peak,
        ..span(number, None, number, (i64::from(100 * number), Some(i64::from(100 * number + 90))))
    };
    let (folder, mut calls) = (tempfile::tempdir().unwrap(), Vec::new());
    calls.extend((0..200).map(|number| call(number, 5000)));
    calls[150].working_peak_bytes = 9000;
    let blocks = |calls: &[SpanRow]| {
        let of = |call: &SpanRow| block(call.span, call.working_peak_bytes, call.start_ns + 10, call.end_ns);
        calls.iter().map(of).collect::<Vec<_>>()
    };
    let first = trace(&folder.path().join("first"), &calls, blocks(&calls), 0);
    calls.iter_mut().for_each(|call| call.working_peak_bytes = 5000);
    calls[60].working_peak_bytes = 7000;
    calls[70].working_peak_bytes = 11_000;
    let second = trace(&folder.path().join("second"), &calls, blocks(&calls), 0);
    let numbers = |profile: &Profile| profile.runs.iter().map(|run| run.span.span).collect::<Vec<_>>();
    let [one, two] = [&first, &second].map(|trace| profile::read(trace).unwrap());
    assert_eq!(numbers(&one)[27..], [27, 28, 29, 150]);
    assert_eq!(numbers(&two)[27..], [27, 28, 29, 70]);
    assert_eq!((one.left_out, two.left_out), (169, 169));
    assert!(one.runs.iter().all(|run| run.program.blocks.len() == 1));

    // Of both, the first calls are those of the first; of the second only its first call in a
    // process, which is of a kind of its own, and the largest.
    let both = profile::read_all(&[first, second]).unwrap();
    assert_eq!(numbers(&both[0]), (0..30).collect::<Vec<_>>());
    assert_eq!(numbers(&both[1]), [0, 70]);
    assert_eq!((both[0].left_out, both[1].left_out), (170, 198));
    // One-time bytes are those of each process, whatever the sample has of it.
    assert!(both.iter().all(|profile| profile.first_calls[0].one_time.is_some()));
}
