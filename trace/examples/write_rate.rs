//! Measures the writer by CPU time, and the bytes per row of each column, for a random pattern of
//! `malloc` and `free`. Usage: `cargo run --release --example write_rate [SLOTS] [THREADS]
//! [MILLIONS] [spans]`.
#![allow(clippy::print_stdout)]

#[path = "../benches/churn.rs"]
mod churn;

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use churn::Churn;
use memtrace_trace::rows::AllocationRow;
use memtrace_trace::{AllocationFilter, Meta, Trace, TraceWriter};
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Rows that are made, and written again and again at later times.
const ROUND: usize = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let churn = Churn {
        slots: number(0, 10_000)?,
        threads: u32::try_from(number(1, 1)?)?,
        spans: arguments.iter().any(|argument| argument == "spans"),
    };
    let rounds = number(2, 16)?;
    let rows = rounds * ROUND;
    let directory = tempfile::tempdir()?;

    let mut some = Vec::with_capacity(ROUND);
    churn.rows(ROUND, |row| some.push(row));
    let length = some.iter().filter_map(|row| row.free_ns).max().unwrap_or(0);
    let shifted = |row: &AllocationRow, round: i64| AllocationRow {
        alloc_ns: row.alloc_ns + round * length,
        free_ns: row.free_ns.map(|ns| ns + round * length),
        ..*row
    };
    let making = cpu_seconds()?;
    for round in 0..rounds as i64 {
        for row in &some {
            std::hint::black_box(shifted(row, round));
        }
    }
    let writing = cpu_seconds()?;
    let mut writer = TraceWriter::create(directory.path())?;
    for round in 0..rounds as i64 {
        for row in &some {
            writer.allocation(shifted(row, round))?;
        }
    }
    writer.finish(&Meta::default())?;
    let reading = cpu_seconds()?;
    let trace = Trace::open(directory.path())?;
    let mut read = 0;
    trace.allocations(AllocationFilter::default(), |row| {
        let expected = shifted(&some[read % ROUND], (read / ROUND) as i64);
        assert_eq!(row, expected, "what was read is not what was written");
        read += 1;
    })?;
    assert_eq!(read, rows);
    let done = cpu_seconds()?;

    let making = writing - making;
    let per_row = |seconds: f64| (seconds - making) * 1e9 / rows as f64;
    println!(
        "write {:.1} ns of CPU per row, read {:.1}",
        per_row(reading - writing),
        per_row(done - reading)
    );
    sizes(&directory.path().join("allocations"), rows as f64)
}

/// Bytes per row: files, and columns of half a byte in a thousand rows and more.
fn sizes(directory: &Path, rows: f64) -> Result<(), Box<dyn Error>> {
    let (mut total, mut columns) = (0, std::collections::BTreeMap::<String, i64>::new());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        total += path.metadata()?.len();
        let reader = SerializedFileReader::new(File::open(path)?)?;
        for column in reader.metadata().row_groups().iter().flat_map(|group| group.columns()) {
            *columns.entry(column.column_path().string()).or_default() += column.compressed_size();
        }
    }
    print!("bytes per row {:.3}:", total as f64 / rows);
    columns.iter().for_each(|(name, bytes)| print!(" {name} {:.3}", *bytes as f64 / rows));
    println!();
    Ok(())
}

/// CPU time of this process so far, by the kernel's count of 10 ms ticks.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}
