//! Traces, executables, names that programs write for perf, and what a recording says of itself.

use std::cell::LazyCell;
use std::fs;

use memtrace_analysis::report::flame::{At, flame};
use memtrace_analysis::report::json::{Listed, report};
use memtrace_analysis::report::page::page;
use memtrace_trace::{AllocationFilter, Meta, Table, Trace};

use crate::fuzz_inputs::{Scratch, seeds};
use crate::live_protocol::Message;
use crate::symbols::{Source, Wanted, build_id, demangle, perf_map};

/// A whole trace, of the seeds: the first byte of each is the number of its table.
fn whole_trace() -> Scratch {
    let trace = Scratch::new();
    for (_, bytes) in seeds("corpus", "tables") {
        put_table(&trace, &bytes);
    }
    let (_, meta) = &seeds("corpus", "meta")[0];
    trace.put("meta.json", meta);
    trace
}

/// The table that an input is of.
fn table_of(bytes: &[u8]) -> Option<Table> {
    bytes.first().map(|number| Table::ALL[usize::from(*number) % Table::ALL.len()])
}

/// Which table it is.
fn put_table(trace: &Scratch, bytes: &[u8]) -> Option<Table> {
    let (table, file) = (table_of(bytes)?, &bytes[1..]);
    let name = match table.in_parts() {
        true => format!("{}/part-00000.parquet", table.name()),
        false => format!("{}.parquet", table.name()),
    };
    trace.put(name, file);
    Some(table)
}

/// One table of a trace is anything. What its reader accepts as batches, other programs may trust.
pub fn tables(bytes: &[u8]) {
    thread_local!(static TRACE: LazyCell<(Scratch, Vec<Vec<u8>>)> = LazyCell::new(|| {
        let intact = seeds("corpus", "tables").into_iter().map(|(_, bytes)| bytes).collect();
        (whole_trace(), intact)
    }));
    TRACE.with(|state| {
        let (scratch, intact) = &**state;
        let Some(table) = put_table(scratch, bytes) else { return };
        if let Ok(trace) = Trace::open(scratch.path()) {
            read(&trace, table);
            read_reports(&trace);
        }
        let whole = intact.iter().find(|seed| table_of(seed) == Some(table)).expect("a seed of each table");
        put_table(scratch, whole);
    });
}

fn read(trace: &Trace, table: Table) {
    let _ = trace.row_count(table);
    for batch in trace.batches(table).into_iter().flatten().map_while(Result::ok) {
        assert_eq!(batch.schema(), table.schema());
        for column in batch.columns() {
            column.to_data().validate_full().expect("a batch that is passed on is whole");
        }
    }
}

fn read_reports(trace: &Trace) {
    let _ = trace.allocations(AllocationFilter::default(), |_| ());
    let _ = trace.kernel_events();
    let _ = trace.accesses(|_| ());
    let _ = trace.placements(|_| ());
    let _ = trace.block_groups();
    let _ = trace.health();
    let _ = report(trace, Listed { all_spans: true, stacks: true });
    let _ = report(trace, Listed::default()).and_then(|report| page(trace, &report));
    let _ = memtrace_analysis::profile::read(trace);
    for at in [At::Peak, At::End, At::Exit, At::Temporary, At::DevicePeak] {
        let _ = flame(trace, &at);
    }
}

/// `meta.json` is anything.
pub fn meta(bytes: &[u8]) {
    thread_local!(static TRACE: LazyCell<Scratch> = LazyCell::new(whole_trace));
    TRACE.with(|scratch| {
        scratch.put("meta.json", bytes);
        if let Ok(trace) = Trace::open(scratch.path()) {
            let again = serde_json::to_vec(trace.meta()).expect("what was read can be written");
            let meta: Meta = serde_json::from_slice(&again).expect("and read again");
            let _ = report(&trace, Listed { all_spans: false, stacks: false });
            assert_eq!(meta.complete, trace.meta().complete);
        }
    });
}

/// An executable or library is anything.
pub fn elf(bytes: &[u8]) {
    thread_local!(static FOLDER: LazyCell<Scratch> = LazyCell::new(Scratch::new));
    FOLDER.with(|folder| {
        let path = folder.put("program", bytes);
        let Some(source) = Source::open(&path) else { return };
        let known = source.elf().map(|elf| build_id(&elf)).unwrap_or_default();
        crate::record::fuzz::executable(&path);
        let addresses: Vec<u64> = (0x1000..0x1400).step_by(7).collect();
        let wanted = Wanted { build_id: known, paths: vec![path.clone()], addresses: addresses.clone() };
        let found = wanted.look_up();
        assert!(found.keys().all(|address| addresses.contains(address)));
        let _ = fs::remove_file(path);
    });
}

/// A perf map, each line of it also as a name of the linker.
pub fn names(bytes: &[u8]) {
    let mut names: perf_map::Names = (0..64).map(|page| (page << 12, None)).collect();
    perf_map::read(&mut names, bytes);
    for line in String::from_utf8_lossy(bytes).lines() {
        demangle(line);
    }
}

/// What a recording says of itself.
pub fn live(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(message) = serde_json::from_slice::<Message>(line) {
            let again = serde_json::to_vec(&message).expect("what was read can be written");
            serde_json::from_slice::<Message>(&again).expect("and read again");
        }
    }
}
