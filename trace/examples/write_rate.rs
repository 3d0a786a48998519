//! Measures the writer: rows per second of CPU time and bytes per row on disk, for a random
//! pattern of `malloc` and `free`. Usage: `cargo run --release --example write_rate [ROWS]`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;

use memtrace_trace::rows::{AllocationRow, Kind, Role};
use memtrace_trace::{AllocationFilter, Meta, Trace, TraceWriter};

/// Blocks live at a time.
const SLOTS: usize = 4096;

/// Sizes a program asks for: mostly a few small ones.
const SIZES: [u64; 8] = [16, 24, 32, 48, 64, 104, 256, 4096];

fn main() -> Result<(), Box<dyn Error>> {
    let rows = std::env::args().nth(1).map_or(Ok(20_000_000), |text| text.parse::<u64>())?;
    let directory = tempfile::tempdir()?;

    let generating = cpu_seconds()?;
    let mut checksum = 0;
    for_each_block(rows, |row| {
        checksum ^= row.address;
        Ok(())
    })?;
    let writing = cpu_seconds()?;
    let mut writer = TraceWriter::create(directory.path())?;
    for_each_block(rows, |row| writer.allocation(row))?;
    writer.finish(&Meta::default())?;
    let reading = cpu_seconds()?;
    let mut check = 0;
    let trace = Trace::open(directory.path())?;
    trace.allocations(AllocationFilter::default(), |row| check ^= row.address)?;
    let done = cpu_seconds()?;
    assert_eq!(check, checksum, "what was read is not what was written");

    let generator = writing - generating;
    let seconds = reading - writing - generator;
    println!(
        "write: {:.1} M rows/s of CPU ({:.1} ns per row)",
        rows as f64 / seconds / 1e6,
        seconds * 1e9 / rows as f64
    );
    println!("read:  {:.1} M rows/s of CPU", rows as f64 / (done - reading) / 1e6);
    println!(
        "size:  {:.2} bytes per row",
        size_of(&directory.path().join("allocations"))? as f64 / rows as f64
    );
    Ok(())
}

/// Blocks of random slots, handed over as they are released, as the tracer does.
fn for_each_block(
    rows: u64,
    mut each: impl FnMut(AllocationRow) -> memtrace_trace::Result<()>,
) -> memtrace_trace::Result<()> {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut live = vec![(0i64, 16u64); SLOTS];
    let mut now = 0i64;
    for _ in 0..rows {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let slot = random as usize % SLOTS;
        let (alloc_ns, bytes) = live[slot];
        each(AllocationRow {
            process: 0,
            thread: (slot % 4) as u32,
            kind: if random & 0xf0 == 0 { Kind::Calloc } else { Kind::Malloc },
            address: 0x5555_0000_0000 + slot as u64 * 4112,
            bytes,
            alloc_ns,
            free_ns: Some(now),
            site: None,
            ordinal: 0,
            span: None,
            role: Role::None,
        })?;
        now += 20 + (random >> 58) as i64;
        live[slot] = (now, SIZES[(random >> 32) as usize % SIZES.len()]);
    }
    Ok(())
}

/// CPU time of this process so far, by the kernel's count of 10 ms ticks.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

fn size_of(directory: &std::path::Path) -> Result<u64, Box<dyn Error>> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
