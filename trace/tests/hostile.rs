//! A damaged, foreign or hostile trace is an error and never a panic.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use memtrace_trace::rows::{AllocationRow, ArrayInfo, Kind, Role, SpanRow};
use memtrace_trace::{AllocationFilter, Error, Meta, Result, SCHEMA_VERSION, Table, Trace, TraceWriter};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

/// A trace with enough rows for several pages and encodings.
fn write_trace(directory: &Path) {
    let mut writer = TraceWriter::create(directory).unwrap();
    for i in 0..3000u64 {
        writer
            .allocation(AllocationRow {
                process: (i % 3) as u32,
                thread: (i % 5) as u32,
                kind: if i % 2 == 0 { Kind::Malloc } else { Kind::MapAnonymous },
                address: Some(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                bytes: i * 16,
                alloc_ns: i as i64 * 100,
                free_ns: (i % 4 != 0).then_some(i as i64 * 100 + 50),
                site: (i % 7 == 0).then_some(i),
                ordinal: (i / 3) as u32,
                span: (i % 2 == 0).then_some((i / 100) as u32),
                role: Role::Temporary,
                device: (i % 11 == 0).then_some(i as u32),
            })
            .unwrap();
    }
    writer.spans([span()].into_iter()).unwrap();
    writer.finish(&Meta::default()).unwrap();
}

fn span() -> SpanRow {
    SpanRow {
        span: 0,
        parent: None,
        process: 0,
        thread: 0,
        operator: "scipy.ndimage:gaussian_filter".into(),
        call: 0,
        start_ns: 0,
        end_ns: Some(10),
        inputs: [ArrayInfo { shape: vec![41, 43, 47], dtype: "<f4".into(), ..ArrayInfo::default() }].into(),
        outputs: Default::default(),
        params: Default::default(),
        input_bytes: 1,
        output_bytes: 2,
        working_peak_bytes: 3,
        net_peak_bytes: 4,
        one_time_bytes: 5,
        allocations: 6,
        peak_ns: 7,
        temporaries: 1,
        temporary_bytes: 8,
        temporary_peak_bytes: Some(9),
        kept_bytes: Some(2),
        pinned_bytes: Some(0),
        device_peak_bytes: Some(10),
        ..SpanRow::default()
    }
}

/// Reads all there is; the value is the number of rows.
fn read_all(directory: &Path) -> Result<usize> {
    let trace = Trace::open(directory)?;
    let mut rows = 0;
    trace.allocations(AllocationFilter::default(), |_| rows += 1)?;
    rows += trace.processes()?.len() + trace.threads()?.len() + trace.modules()?.len();
    Ok(rows + trace.spans()?.len() + trace.timeline()?.len())
}

/// Files of a trace that the tests below damage; the last is the first with its pages bare, so
/// that damage reaches the decoders and does not end at the decompressor.
const FILES: [&str; 4] =
    ["allocations/part-00000.parquet", "spans.parquet", "meta.json", "uncompressed part"];

/// Every file of an intact trace, by its path in the trace (a static would never be removed from
/// the disk).
static INTACT: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    write_trace(directory.path());
    let mut files = BTreeMap::new();
    for prefix in ["", "allocations/", "timeline/", "kernel_events/", "accesses/", "placements/"] {
        for entry in fs::read_dir(directory.path().join(prefix)).unwrap().map(|entry| entry.unwrap()) {
            if entry.path().is_file() {
                let name = format!("{prefix}{}", entry.file_name().display());
                files.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    files
});

static UNCOMPRESSED: LazyLock<Vec<u8>> = LazyLock::new(|| uncompressed(&INTACT[FILES[0]]));

/// Reads a trace of which one of [`FILES`] is replaced by what `damage` makes of it.
fn read_damaged(file: &str, damage: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<usize> {
    read_all(damaged(file, damage).path())
}

/// Such a trace.
fn damaged(file: &str, damage: impl FnOnce(&[u8]) -> Vec<u8>) -> tempfile::TempDir {
    let (name, bytes) = match INTACT.get(file) {
        Some(bytes) => (file, bytes),
        None => (FILES[0], &*UNCOMPRESSED),
    };
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("allocations")).unwrap();
    fs::create_dir(copy.path().join("timeline")).unwrap();
    fs::create_dir(copy.path().join("kernel_events")).unwrap();
    fs::create_dir(copy.path().join("accesses")).unwrap();
    fs::create_dir(copy.path().join("placements")).unwrap();
    for (other, bytes) in &*INTACT {
        fs::write(copy.path().join(other), bytes).unwrap();
    }
    fs::write(copy.path().join(name), damage(bytes)).unwrap();
    copy
}

/// The bytes with some of them changed.
fn flipped(bytes: &[u8], flips: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, flip) in flips {
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
    }
    bytes
}

/// Takes tables as batches, and checks them as closely as a program that trusts them would have to.
fn take_batches(directory: &Path) -> Result<usize> {
    let trace = Trace::open(directory)?;
    let mut rows = 0;
    for table in [Table::Allocations, Table::Spans, Table::Timeline, Table::Processes] {
        for batch in trace.batches(table)? {
            let batch = batch?;
            assert_eq!(batch.schema(), table.schema());
            batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            rows += batch.num_rows();
        }
    }
    Ok(rows)
}

/// The same rows, with dictionaries and deltas but without compression.
fn uncompressed(part: &[u8]) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(part).unwrap();
    let batches = ParquetRecordBatchReader::try_new(file, 10_000).unwrap();
    let properties = WriterProperties::builder()
        .set_column_dictionary_enabled("address".into(), false)
        .set_column_encoding("address".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled("alloc_ns".into(), false)
        .set_column_encoding("alloc_ns".into(), Encoding::DELTA_BINARY_PACKED)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Table::Allocations.schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
    bytes
}

#[test]
fn the_intact_trace_reads() {
    for file in FILES {
        assert_eq!(read_damaged(file, |bytes| bytes.to_vec()).unwrap(), 3001, "{file}");
        assert_eq!(take_batches(damaged(file, |bytes| bytes.to_vec()).path()).unwrap(), 3001, "{file}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Flipped bytes go unseen or are an error; a panic would fail the test.
    #[test]
    fn flipped_bytes_do_not_panic(
        file in prop::sample::select(FILES.to_vec()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..8),
    ) {
        let _ = read_damaged(file, |bytes| flipped(bytes, &flips));
    }

    /// Batches are passed to other programs: what is in one can be read unchecked.
    #[test]
    fn batches_are_whole_or_an_error(
        file in prop::sample::select(FILES.to_vec()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..8),
    ) {
        let trace = damaged(file, |bytes| flipped(bytes, &flips));
        let _ = take_batches(trace.path());
    }

    #[test]
    fn a_truncated_file_is_an_error(
        file in prop::sample::select(FILES.to_vec()),
        length in any::<prop::sample::Index>(),
    ) {
        // The closing newline of meta.json is no loss.
        let result = read_damaged(file, |bytes| bytes[..length.index(bytes.len() - 1)].to_vec());
        prop_assert!(result.is_err());
    }

    #[test]
    fn garbage_is_an_error(
        file in prop::sample::select(FILES.to_vec()),
        garbage in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let result = read_damaged(file, |_| [b"PAR1", garbage.as_slice(), b"PAR1"].concat());
        prop_assert!(result.is_err());
    }
}

fn write_parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn message(result: Result<usize>) -> String {
    result.expect_err("the trace was accepted").to_string()
}

#[test]
fn a_missing_column_is_named() {
    let directory = tempfile::tempdir().unwrap();
    write_trace(directory.path());
    let column: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    write_parquet(&directory.path().join("threads.parquet"), vec![("thread", column)]);
    let message = message(read_all(directory.path()));
    assert!(message.ends_with("column `process` of table `threads` is missing"), "{message}");
}

/// `spans.parquet` as written, without the columns that are not `kept`.
fn drop_from_spans(directory: &Path, kept: impl Fn(&str) -> bool) {
    let path = directory.join("spans.parquet");
    let mut batches = ParquetRecordBatchReader::try_new(fs::File::open(&path).unwrap(), 10).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).filter(|(field, _)| kept(field.name()));
    write_parquet(&path, columns.map(|(field, column)| (field.name().as_str(), column.clone())).collect());
}

/// A column that may hold nulls must be there all the same, for rows and for batches.
#[test]
fn a_missing_column_of_nulls_is_named() {
    for name in Table::Spans.columns().iter().filter(|column| column.null.is_some()).map(|column| column.name)
    {
        let directory = tempfile::tempdir().unwrap();
        write_trace(directory.path());
        drop_from_spans(directory.path(), |column| column != name);
        for result in [read_all(directory.path()), take_batches(directory.path())] {
            let message = message(result);
            let expected = format!("column `{name}` of table `spans` is missing");
            assert!(message.ends_with(&expected), "{message}");
        }
    }
}

#[test]
fn a_column_of_another_type_is_named() {
    let directory = tempfile::tempdir().unwrap();
    write_trace(directory.path());
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![1]));
    write_parquet(&directory.path().join("threads.parquet"), vec![("thread", column)]);
    let message = message(read_all(directory.path()));
    let expected = "column `thread` of table `threads` has type UInt64 instead of UInt32";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn a_null_that_must_not_be_is_named() {
    let directory = tempfile::tempdir().unwrap();
    write_trace(directory.path());
    let column: ArrayRef = Arc::new(UInt32Array::from(vec![Some(1), None]));
    write_parquet(&directory.path().join("threads.parquet"), vec![("thread", column)]);
    let message = message(read_all(directory.path()));
    let expected = "column `thread` of table `threads` has 1 nulls and must have none";
    assert!(message.ends_with(expected), "{message}");
}

/// `spans.parquet` as written, with one column replaced.
fn replace_in_spans(directory: &Path, name: &str, values: ArrayRef) {
    let path = directory.join("spans.parquet");
    let mut batches = ParquetRecordBatchReader::try_new(fs::File::open(&path).unwrap(), 10).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = if field.name() == name { values.clone() } else { column.clone() };
        (field.name().as_str(), column)
    });
    write_parquet(&path, columns.collect());
}

#[test]
fn malformed_json_in_a_column_is_named() {
    for (column, text) in [
        ("inputs", "[{\"shape\": [-1], \"dtype\": \"<f4\"}]".to_owned()),
        ("outputs", "{}".to_owned()),
        ("params", "[".repeat(100_000)),
    ] {
        let directory = tempfile::tempdir().unwrap();
        write_trace(directory.path());
        replace_in_spans(directory.path(), column, Arc::new(StringArray::from(vec![text])));
        let message = message(read_all(directory.path()));
        let expected = format!("column `{column}` of table `spans` is not the JSON it should be");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn what_is_not_a_trace_says_so() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Trace::open(directory.path().join("gone")), Err(Error::Io { .. })));
    assert!(matches!(Trace::open(directory.path()), Err(Error::NotATrace(_))));
    // A recorder that died before it wrote a part.
    std::fs::create_dir(directory.path().join("allocations")).unwrap();
    assert!(matches!(Trace::open(directory.path()), Err(Error::NotATrace(_))));
}

#[test]
fn a_newer_schema_is_refused_before_anything_else_is_understood() {
    let directory = tempfile::tempdir().unwrap();
    let newer = SCHEMA_VERSION + 1;
    let meta = format!(r#"{{"schema_version": {newer}, "lost": "all"}}"#);
    fs::write(directory.path().join("meta.json"), meta).unwrap();
    let error = Trace::open(directory.path()).unwrap_err();
    let Error::Newer { found, supported, .. } = error else { panic!("{error}") };
    assert_eq!((found, supported), (newer, SCHEMA_VERSION));
}

#[test]
fn an_older_schema_is_refused_before_anything_else_is_understood() {
    let directory = tempfile::tempdir().unwrap();
    write_trace(directory.path());
    fs::write(directory.path().join("meta.json"), r#"{"schema_version": 1, "lost": "all"}"#).unwrap();
    let error = Trace::open(directory.path()).unwrap_err();
    assert!(matches!(error, Error::Older { found: 1, supported: SCHEMA_VERSION, .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("older memtrace (trace schema 1, ") && message.ends_with("record it again"));
}

#[test]
fn a_complete_trace_without_a_table_is_an_error() {
    for table in Table::ALL {
        let directory = tempfile::tempdir().unwrap();
        write_trace(directory.path());
        match table.in_parts() {
            true => fs::remove_dir_all(directory.path().join(table.name())).unwrap(),
            false => fs::remove_file(directory.path().join(format!("{}.parquet", table.name()))).unwrap(),
        }
        let error = Trace::open(directory.path()).unwrap_err();
        let Error::MissingTable { table: missing, .. } = error else { panic!("{error}") };
        assert_eq!(missing, table.name());
    }
}

/// A pipe would be waited for, and a link that leads to itself has no end: neither is a table
/// without rows.
#[test]
fn what_is_no_file_is_no_table() {
    for name in ["frames.parquet", "sites.parquet", "allocations/part-00000.parquet"] {
        let directory = tempfile::tempdir().unwrap();
        write_trace(directory.path());
        let path = directory.path().join(name);
        let refused = |what: &str| {
            let error = Trace::open(directory.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(what), "{error}");
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
        };
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused("is not a file");
        symlink(&path, &path).unwrap();
        refused("symbolic links");
        symlink("nowhere", &path).unwrap();
        refused("No such file");
        fs::create_dir(&path).unwrap();
        refused("is not a file");
    }
}

#[test]
fn many_calls_with_addresses_of_their_own_are_read() {
    const CALLS: u32 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    let array = |call: u32, name: &str| ArrayInfo {
        name: name.into(),
        shape: vec![64, 3, 224, 224],
        dtype: "<f4".into(),
        layout: "C".into(),
        bytes: 38_535_168,
        address: 0x7f00_0000_0000 + 64 * u64::from(call.wrapping_mul(2_654_435_761)),
        ..ArrayInfo::default()
    };
    let time = |call: u32, part: u32| 1_000_000 * i64::from(call) + i64::from(call * 7919 % part);
    let call = |call: u32| SpanRow {
        span: call,
        call,
        start_ns: time(call, 9973),
        end_ns: Some(time(call, 99_991) + 10_000),
        inputs: [array(call, "x"), array(0, "w"), array(0, "b")].into(),
        outputs: [array(!call, "")].into(),
        ..span()
    };
    writer.spans((0..CALLS).map(call)).unwrap();
    writer.finish(&Meta::default()).unwrap();
    let spans = Trace::open(directory.path()).unwrap().spans().unwrap();
    assert_eq!(spans.len(), CALLS as usize);
    assert_ne!(spans[0].inputs[0].address, spans[1].inputs[0].address);
}

/// Calls of one operator on arrays of one shape take 31 bytes each in a file: equal arrays are one
/// value in memory, so that as many as there may be are read.
#[test]
fn many_calls_share_their_arrays() {
    const CALLS: u32 = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path()).unwrap();
    writer.spans((0..CALLS).map(|call| SpanRow { span: call, call, ..span() })).unwrap();
    writer.finish(&Meta::default()).unwrap();
    let spans = Trace::open(directory.path()).unwrap().spans().unwrap();
    assert_eq!(spans.len(), CALLS as usize);
    assert!(spans.iter().all(|read| read.inputs == span().inputs));
    assert!(Arc::ptr_eq(&spans[0].inputs, &spans[1].inputs));
}
