//! Spans leave memory as they end, and are in the table all the same: in the order of their numbers, with
//! what was found out later.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::rows::{ArrayInfo, SpanRow};
use crate::{Meta, SpanCursor, Table, Trace, TraceWriter, recover};

/// More than two parts.
const SPANS: u32 = 40_000;
/// It runs as long as all others.
const OUTER: u32 = 3;
/// It never ends.
const OPEN: u32 = 20_000;

/// As it is when it ends.
fn ended(span: u32) -> SpanRow {
    let shape = vec![u64::from(span % 50), 1000];
    let input = ArrayInfo { shape, dtype: "<f8".into(), ..ArrayInfo::default() };
    let (operator, inputs) = (format!("operator {}", span % 20), [input].into());
    SpanRow { span, operator, inputs, end_ns: Some(i64::from(span)), ..SpanRow::default() }
}

fn open(span: u32) -> SpanRow {
    SpanRow { end_ns: None, ..ended(span) }
}

/// Every thousandth had blocks that were live at the end.
fn at_end() -> impl Iterator<Item = (u32, u64)> {
    (0..SPANS).step_by(1000).map(|span| (span, u64::from(span) + 1))
}

fn expected() -> Vec<SpanRow> {
    let mut rows: Vec<SpanRow> = (0..SPANS).map(ended).collect();
    rows[OPEN as usize].end_ns = None;
    at_end().for_each(|(span, bytes)| rows[span as usize].live_bytes_at_end = bytes);
    rows
}

/// Spans in the order of their ends: eight threads take turns, with calls that last differently long.
fn in_order_of_ends() -> Vec<u32> {
    let mut spans: Vec<u32> = (0..SPANS).filter(|span| ![OUTER, OPEN].contains(span)).collect();
    spans.sort_by_key(|span| span + 7 * (span % 8) + if span % 997 == 0 { 9000 } else { 0 });
    spans.push(OUTER);
    spans
}

/// Everything has ended but one span, and the tables are written now and then.
fn write(directory: &Path) -> TraceWriter {
    let mut writer = TraceWriter::create(directory).unwrap();
    for (count, span) in in_order_of_ends().into_iter().enumerate() {
        if count % 7000 == 0 {
            writer.spans([open(OPEN), open(OUTER)].into_iter()).unwrap();
        }
        writer.span(ended(span)).unwrap();
    }
    let mut open = open(OPEN);
    let (own, others): (Vec<_>, Vec<_>) = at_end().partition(|(span, _)| *span == OPEN);
    open.live_bytes_at_end = own[0].1;
    writer.live_at_end(others);
    writer.spans([open].into_iter()).unwrap();
    writer
}

fn has_parts(directory: &Path) -> bool {
    directory.join(Table::Spans.name()).exists()
}

/// What every way to read them says.
fn check(directory: &Path, expected: &[SpanRow]) {
    let trace = Trace::open(directory).unwrap();
    assert!(trace.spans().unwrap() == expected);
    let mut figures = Vec::new();
    trace.each_span_figures(|row| figures.push(row)).unwrap();
    let without = |row: &SpanRow| SpanRow { inputs: Arc::default(), ..row.clone() };
    assert!(figures == expected.iter().map(without).collect::<Vec<_>>());
    let mut records = Vec::new();
    for group in trace.span_groups().unwrap() {
        group.records(|record| records.push((record.span, record.operator, record.end_ns))).unwrap();
    }
    let of = |row: &SpanRow| (row.span, row.operator.clone(), row.end_ns);
    assert!(records == expected.iter().map(of).collect::<Vec<_>>());
    let some = [0, OUTER, OPEN, SPANS - 1];
    let of_some = trace.spans_of(&some.into_iter().collect()).unwrap();
    assert!(of_some.iter().all(|row| *row == expected[row.span as usize]) && of_some.len() == some.len());
    assert_eq!(trace.row_count(Table::Spans).unwrap(), expected.len() as u64);
    let batches = trace.batches(Table::Spans).unwrap().map(Result::unwrap);
    assert_eq!(batches.map(|batch| batch.num_rows()).sum::<usize>(), expected.len());
}

#[test]
fn an_open_trace_has_them_in_parts_and_a_closed_one_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let writer = write(path);
    assert!(has_parts(path));
    check(path, &expected());
    writer.finish(&Meta::default()).unwrap();
    assert!(!has_parts(path));
    check(path, &expected());
}

/// Writes the table of a closed trace anew, with so many rows in each row group but the last.
fn in_groups(directory: &Path, rows: usize) {
    let batches = Trace::open(directory).unwrap().batches(Table::Spans).unwrap();
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    let file = File::create(directory.join("spans.parquet")).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(file, Table::Spans.schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

#[test]
fn a_table_of_many_row_groups_is_read_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path).finish(&Meta::default()).unwrap();
    // In the second way the last group has one row.
    for rows in [999, SPANS - 1] {
        in_groups(path, rows as usize);
        let trace = Trace::open(path).unwrap();
        assert_eq!(trace.span_groups().unwrap().len(), SPANS.div_ceil(rows) as usize);
        check(path, &expected());
    }
}

#[test]
fn where_the_recorder_died_nothing_is_lost_or_there_twice() {
    let (directory, saved) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path();
    drop(write(path));
    let part = path.join("spans/part-00001.parquet");
    fs::copy(&part, saved.path().join("part")).unwrap();
    recover(path).unwrap();
    check(path, &expected());
    // The table was written anew, and not all of its parts were removed.
    fs::remove_file(path.join("meta.json")).unwrap();
    fs::create_dir(path.join("spans")).unwrap();
    fs::copy(saved.path().join("part"), &part).unwrap();
    check(path, &expected());
    recover(path).unwrap();
    assert!(!has_parts(path));
    check(path, &expected());
}

#[test]
fn what_ended_after_the_table_was_written_is_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut writer = TraceWriter::create(path).unwrap();
    (0..10).for_each(|span| writer.span(ended(span)).unwrap());
    writer.spans((10..20_000).map(open)).unwrap();
    (10..20_000).for_each(|span| writer.span(ended(span)).unwrap());
    drop(writer);
    let rows = Trace::open(path).unwrap().spans().unwrap();
    assert_eq!(rows.len(), 20_000);
    assert!(rows.iter().take(16_384).all(|row| row.end_ns.is_some()));
    recover(path).unwrap();
    assert!(Trace::open(path).unwrap().spans().unwrap() == rows);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// However often one who follows reads, and how much: each span comes once, in the order of the ends.
    #[test]
    fn one_who_follows_misses_none(turns in prop::collection::vec((1..9000usize, 0..9000usize), 1..12)) {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = TraceWriter::create(directory.path()).unwrap();
        let order = in_order_of_ends();
        let (mut ends, mut cursor, mut followed) = (order.iter(), SpanCursor::default(), Vec::new());
        for (ending, reading) in turns.into_iter().chain([(order.len(), order.len())]) {
            ends.by_ref().take(ending).for_each(|span| writer.span(ended(*span)).unwrap());
            for _ in 0..reading {
                followed.extend(writer.next_span(&mut cursor).unwrap());
            }
        }
        prop_assert!(followed == order.into_iter().map(ended).collect::<Vec<_>>());
    }
}

#[test]
fn a_reader_misses_nothing_while_rows_go_into_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(folder.path()).unwrap();
    let mut spans = 0..SPANS;
    // A part, and some that wait and are in the table.
    spans.by_ref().take(20_000).for_each(|span| writer.span(ended(span)).unwrap());
    writer.spans(std::iter::empty()).unwrap();
    let mut batches = Trace::open(folder.path()).unwrap().batches(Table::Spans).unwrap();
    let first = batches.next().unwrap().unwrap().num_rows();
    // They go into a part, and the table is written again.
    spans.for_each(|span| writer.span(ended(span)).unwrap());
    writer.spans(std::iter::empty()).unwrap();
    let rest: usize = batches.map(|batch| batch.unwrap().num_rows()).sum();
    assert!(first > 0 && rest > 0);
    assert_eq!(first + rest, 20_000);
}

#[test]
fn numbers_far_apart_in_many_parts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(folder.path()).unwrap();
    // Each of a part's rows is in a stretch of its own.
    let far = |span: u32| SpanRow { span: span % 16_384 * 250_000, ..SpanRow::default() };
    (0..20 * 16_384).for_each(|span| writer.span(far(span)).unwrap());
    let refused = Trace::open(folder.path()).unwrap().spans().unwrap_err().to_string();
    assert!(refused.contains("stretches of its numbers"), "{refused}");
}
