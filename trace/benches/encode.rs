//! How fast blocks become pages on disk, and what of that their columns cost. CPU time and bytes
//! per column: `cargo run --release --example write_rate`.

mod churn;

use churn::Churn;
use divan::Bencher;
use divan::counter::ItemsCount;
use memtrace_trace::rows::AllocationRow;
use memtrace_trace::{Meta, TraceWriter};

/// One row group.
const ROWS: usize = 512 * 1024;

fn main() {
    divan::main();
}

fn write(bencher: Bencher, churn: Churn) {
    let mut rows: Vec<AllocationRow> = Vec::with_capacity(ROWS);
    churn.rows(ROWS, |row| rows.push(row));
    bencher.counter(ItemsCount::new(ROWS)).with_inputs(|| tempfile::tempdir().unwrap()).bench_values(
        |directory| {
            let mut writer = TraceWriter::create(directory.path()).unwrap();
            rows.iter().for_each(|row| writer.allocation(row.clone()).unwrap());
            writer.finish(&Meta::default()).unwrap();
            directory
        },
    );
}

#[divan::bench(args = [1_000, 10_000, 100_000])]
fn one_thread(bencher: Bencher, slots: usize) {
    write(bencher, Churn { slots, threads: 1, spans: false });
}

#[divan::bench(args = [1_000, 10_000, 100_000])]
fn eight_threads(bencher: Bencher, slots: usize) {
    write(bencher, Churn { slots, threads: 8, spans: false });
}

#[divan::bench]
fn in_spans(bencher: Bencher) {
    write(bencher, Churn { slots: 10_000, threads: 8, spans: true });
}
