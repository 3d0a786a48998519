//! Rows of processes that are over leave memory, and are in the tables all the same.

use std::path::Path;

use crate::rows::{ModuleRow, ProcessRow, ThreadRow};
use crate::{Meta, Table, Trace, TraceWriter, recover};

const PROCESSES: u32 = 9000;

fn process(process: u32) -> ProcessRow {
    ProcessRow { process, pid: process + 7, command: format!("program {process}"), ..ProcessRow::default() }
}

fn thread(process: u32) -> ThreadRow {
    ThreadRow { thread: process, process: process % 7, tid: process + 9, start_ns: 5, events: 1 }
}

fn module(process: u32) -> ModuleRow {
    let path = "/usr/lib/libc.so.6".into();
    ModuleRow { process, path, start: 4096, end: 8192, build_id: String::new() }
}

/// The first process runs on; the others are over, and the tables are written now and then.
fn write(directory: &Path) -> TraceWriter {
    let mut writer = TraceWriter::create(directory).unwrap();
    for over in 1..PROCESSES {
        writer.settle_process(process(over), [module(over), module(over)]).unwrap();
        writer.settle_threads([thread(over)]).unwrap();
        if over % 1000 == 0 || over == PROCESSES - 1 {
            writer.processes(&[process(0)]).unwrap();
            writer.threads(&[thread(0)]).unwrap();
            writer.modules(&[module(0)]).unwrap();
        }
    }
    writer
}

fn has_all(directory: &Path) -> bool {
    let trace = Trace::open(directory).unwrap();
    trace.processes().unwrap() == (0..PROCESSES).map(process).collect::<Vec<_>>()
        && trace.threads().unwrap() == (0..PROCESSES).map(thread).collect::<Vec<_>>()
        && trace.modules().unwrap().len() as u32 == 2 * PROCESSES - 1
}

/// A reader may be anywhere in the tables while they are joined.
#[test]
fn rows_are_all_there_while_the_trace_is_closed() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let writer = write(path);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| writer.finish(&Meta::default()).unwrap());
            while !closing.is_finished() {
                assert_eq!(Trace::open(path).unwrap().processes().unwrap().len() as u32, PROCESSES);
            }
        });
        assert!(has_all(path) && !has_parts(path));
    }
}

fn has_parts(directory: &Path) -> bool {
    directory.join(Table::Processes.name()).exists()
}

#[test]
fn an_open_trace_has_them_in_parts_and_a_closed_one_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let writer = write(path);
    assert!(has_all(path) && has_parts(path));
    writer.finish(&Meta::default()).unwrap();
    assert!(has_all(path) && !has_parts(path));
}

/// A recorder that is short of processor time writes tables seldom.
#[test]
fn rows_leave_memory_though_no_table_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut writer = TraceWriter::create(path).unwrap();
    (0..5000).for_each(|over| writer.settle_process(process(over), []).unwrap());
    assert!(has_parts(path));
    assert_eq!(Trace::open(path).unwrap().processes().unwrap().len(), 4096);
}

#[test]
fn where_the_recorder_died_nothing_is_there_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(write(path));
    // The file of a table was written anew, and its parts were not removed yet.
    let saved = tempfile::tempdir().unwrap();
    let part = path.join("processes/part-00000.parquet");
    std::fs::copy(&part, saved.path().join("part")).unwrap();
    recover(path).unwrap();
    assert!(has_all(path) && !has_parts(path));
    std::fs::remove_file(path.join("meta.json")).unwrap();
    std::fs::create_dir(path.join("processes")).unwrap();
    std::fs::copy(saved.path().join("part"), &part).unwrap();
    recover(path).unwrap();
    assert!(has_all(path) && !has_parts(path));
}

#[test]
fn rows_of_a_part_are_later_than_those_of_a_table_that_was_not_written_since() {
    let (before, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path();
    let running = |process| ProcessRow { command: "running".into(), ..self::process(process) };
    let rows: Vec<ProcessRow> = (0..4097).map(running).collect();
    TraceWriter::create(before.path()).unwrap().processes(&rows).unwrap();
    let mut writer = TraceWriter::create(path).unwrap();
    (1..4097).for_each(|over| writer.settle_process(process(over), []).unwrap());
    writer.processes(&[running(0)]).unwrap();
    std::fs::copy(before.path().join("processes.parquet"), path.join("processes.parquet")).unwrap();
    for _ in 0..2 {
        let rows = Trace::open(path).unwrap().processes().unwrap();
        assert_eq!((rows.len(), rows.iter().filter(|row| row.command == "running").count()), (4097, 1));
        recover(path).unwrap();
    }
}
