//! Measures the writer by CPU time, and the bytes per row of each column, for a random pattern of `malloc` and
//! `free`. Usage: `cargo run --release --example write_rate [SLOTS] [THREADS] [ROWS] [spans]`.
#![allow(clippy::print_stdout)]

#[path = "../benches/churn.rs"]
mod churn;

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use churn::Churn;
use memtrace_trace::{AllocationFilter, Meta, Trace, TraceWriter};
use parquet::file::reader::{FileReader, SerializedFileReader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let churn = Churn {
        slots: number(0, 10_000)?,
        threads: u32::try_from(number(1, 1)?)?,
        spans: arguments.iter().any(|argument| argument == "spans"),
    };
    let rows = number(2, 4_000_000)?;
    let directory = tempfile::tempdir()?;

    let mut all = Vec::with_capacity(rows);
    churn.rows(rows, |row| all.push(row));
    let writing = cpu_seconds()?;
    let mut writer = TraceWriter::create(directory.path())?;
    for row in &all {
        writer.allocation(row.clone())?;
    }
    writer.finish(&Meta::default())?;
    let reading = cpu_seconds()?;
    let trace = Trace::open(directory.path())?;
    let mut same = all.iter();
    trace.allocations(AllocationFilter::default(), |row| {
        assert_eq!(Some(&row), same.next(), "what was read is not what was written");
    })?;
    assert_eq!(same.next(), None);
    let done = cpu_seconds()?;

    let per_row = |seconds: f64| seconds * 1e9 / rows as f64;
    println!("write {:.1} ns of CPU per row, read {:.1}", per_row(reading - writing), per_row(done - reading));
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
