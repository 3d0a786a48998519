//! Where the blocks were allocated.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::sites;
use memtrace_trace::Trace;
use memtrace_trace::rows::{SiteRow, Untouched};

use crate::terminal::clean;
use crate::units::Bytes;
use crate::units::grouped;

const SITES_MAX: usize = 10;
/// Sites of blocks that were not touched as a whole.
const UNTOUCHED_MAX: usize = 5;
/// Columns for the place of a site; with what stands before it, 100.
const PLACE_MAX: usize = 65;

/// What the peak was made of: the largest sites, and in one line each what the others and no stack
/// account for.
pub fn largest(out: &mut String, trace: &Trace) -> Result<()> {
    let (largest, all) = sites::largest_at_peak(trace, SITES_MAX)?;
    let listed = Listed { headings: ["at peak", "blocks"], peak: trace.meta().peak.live_bytes, all };
    listed.write(out, trace, &largest, |row| grouped(row.blocks))
}

/// The same of devices' memory.
pub fn largest_on_devices(out: &mut String, trace: &Trace) -> Result<()> {
    let peak = trace.meta().peak.device_used_bytes.unwrap_or(0);
    let bytes = |row: &SiteRow| row.device_bytes_at_peak.unwrap_or(0);
    let all = trace.sites()?.iter().map(bytes).fold(0, u64::saturating_add);
    let largest = sites::largest_on_devices(trace, SITES_MAX)?;
    let parts: Vec<u64> = largest.iter().map(|site| bytes(&site.row)).collect();
    let largest: Vec<_> = largest.into_iter().zip(parts).collect();
    let listed = Listed { headings: ["on device", ""], peak, all };
    listed.write(out, trace, &largest, |_| String::new())
}

/// Live bytes of sites at a peak.
struct Listed {
    /// Of bytes and of blocks.
    headings: [&'static str; 2],
    peak: u64,
    /// Of all sites.
    all: u64,
}

impl Listed {
    fn write(
        &self,
        out: &mut String,
        trace: &Trace,
        largest: &[(sites::Site, u64)],
        blocks: impl Fn(&SiteRow) -> String,
    ) -> Result<()> {
        if self.all == 0 {
            return Ok(());
        }
        let whole = self.peak.max(self.all);
        let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / whole as f64);
        writeln!(out)?;
        let [bytes, number] = self.headings;
        writeln!(out, "  {bytes:>9} {:>8} {number:>11}  allocated at", "share")?;
        let mut rest = self.all;
        for (site, bytes) in largest.iter().filter(|(_, bytes)| *bytes > 0) {
            rest = rest.saturating_sub(*bytes);
            let place = shortened(&clean(&site.place()), PLACE_MAX);
            writeln!(out, "  {:>9} {:>8} {:>11}  {place}", Bytes(*bytes), share(*bytes), blocks(&site.row))?;
        }
        let without = (self.peak.saturating_sub(self.all), sites::without_stack(trace.meta()));
        for (bytes, what) in [(rest, "(other sites)"), without].into_iter().filter(|(bytes, _)| *bytes > 0) {
            writeln!(out, "  {:>9} {:>8} {:>11}  {what}", Bytes(bytes), share(bytes), "")?;
        }
        Ok(())
    }
}

/// What of large blocks was never touched, by site. Nothing of less than a hundredth of the peak.
pub fn untouched(out: &mut String, trace: &Trace) -> Result<()> {
    let Some((sum, sites)) = sites::untouched(trace, UNTOUCHED_MAX)? else { return Ok(()) };
    if sum.bytes < trace.meta().peak.live_bytes / 100 {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "  {:>13} {:>9} {:>7}  allocated at", "never touched", "of", "blocks")?;
    let mut rest = sum;
    for site in sites {
        let part = site.row.untouched.unwrap_or_default();
        rest.bytes = rest.bytes.saturating_sub(part.bytes);
        rest.of_bytes = rest.of_bytes.saturating_sub(part.of_bytes);
        rest.blocks = rest.blocks.saturating_sub(part.blocks);
        line(out, &part, &shortened(&clean(&site.place()), PLACE_MAX))?;
    }
    if rest.blocks > 0 {
        line(out, &rest, "(other sites)")?;
    }
    Ok(())
}

fn line(out: &mut String, part: &Untouched, what: &str) -> Result<()> {
    let (bytes, of) = (Bytes(part.bytes), Bytes(part.of_bytes));
    writeln!(out, "  {bytes:>13} {of:>9} {:>7}  {what}", grouped(part.blocks))?;
    Ok(())
}

/// Its beginning and its end, if it is too long.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    let start: String = text.chars().take(most * 2 / 3).collect();
    let end: String = text.chars().skip(length - (most - most * 2 / 3 - 1)).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_keeps_its_ends() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abcdef…ijk");
        assert_eq!(shortened("äöü".repeat(9).as_str(), 6).chars().count(), 6);
    }
}
