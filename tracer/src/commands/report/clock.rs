//! Where the time of a program goes, in the summary: samples of its threads' clocks.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::accesses::JUDGED_FROM;
use memtrace_analysis::report::clock::{self, Times};
use memtrace_trace::Trace;

use crate::terminal::clean;
use crate::units::{Bytes, grouped};

const SITES_MAX: usize = 5;

/// Shares of samples, and the blocks with most of them; nothing without `--accesses clock`.
pub fn lines(out: &mut String, trace: &Trace) -> Result<()> {
    let Some(times) = clock::of(trace)? else { return Ok(()) };
    writeln!(out, "  {} moments of the program's own code sampled (cpu-clock):", grouped(times.samples))?;
    if trace.meta().rows.rotated_timeline > 0 {
        writeln!(out, "  they are of the end of the recording: older ones were deleted (--max-trace-size)")?;
    }
    if times.samples == 0 {
        return Ok(());
    }
    let share = |samples: u64| format!("{:>9.1} %", 100.0 * samples as f64 / times.samples as f64);
    for (samples, what) in kinds(&times) {
        writeln!(out, "  {}  {what}", share(samples))?;
    }
    let largest = &times.sites[..times.sites.len().min(SITES_MAX)];
    let places = clock::places(trace, largest)?;
    for timed in largest {
        let place = timed.site.and_then(|site| places.get(&site)).map_or("(no call stack)", String::as_str);
        let (share, bytes) = (share(timed.samples), Bytes(timed.block_bytes));
        writeln!(out, "  {share}  on blocks of up to {bytes}, allocated at {}", clean(place))?;
    }
    Ok(())
}

/// Each sample is of one kind.
fn kinds(times: &Times) -> [(u64, String); 6] {
    let others = times.touching.saturating_sub(times.without_address.saturating_add(times.in_blocks));
    [
        (times.in_large_blocks, format!("on memory of blocks from {} on", Bytes(JUDGED_FROM))),
        (times.in_blocks - times.in_large_blocks, "on memory of smaller blocks".into()),
        (others, "on other memory: stacks, static data, what the probe does not see".into()),
        (times.without_address, "on a load that replaced its own address, as in a chain of pointers".into()),
        (
            times.known.saturating_sub(times.touching),
            "on an instruction that touches none, or the stack by its pointer".into(),
        ),
        (times.samples - times.known, "on an instruction that is not known".into()),
    ]
}
