//! Call stacks with the memory that was live at the peak.

use memtrace_trace::rows::{FrameRow, SiteRow, Untouched};
use memtrace_trace::{Meta, Trace};

use crate::error::Error;
use crate::profile::stacks::{self, stack};

/// A site with its frames, innermost first.
pub struct Site {
    /// What it allocated, and what of that was live.
    pub row: SiteRow,
    /// Its call stack.
    pub stack: Vec<FrameRow>,
}

/// The sites of a trace with most live bytes at their peak, the largest first.
///
/// # Errors
/// A table cannot be read.
pub fn largest(trace: &Trace, most: usize) -> Result<Vec<Site>, Error> {
    let mut rows = trace.sites()?;
    rows.sort_by_key(|row| {
        let size = |bytes: u64| std::cmp::Reverse(bytes);
        (size(row.live_bytes_at_peak), size(row.peak_live_bytes), row.site)
    });
    rows.truncate(most);
    with_stacks(trace, rows)
}

/// All sites with their part of the peak of live bytes. What sampled blocks stand for may come to
/// more than there was: it is scaled to what the blocks of known stacks leave of the peak.
///
/// # Errors
/// A table cannot be read.
pub fn at_peak(trace: &Trace) -> Result<Vec<(SiteRow, u64)>, Error> {
    let rows = trace.sites()?;
    let of = |row: &SiteRow| Live { bytes: row.live_bytes_at_peak, sampled: row.sampled_bytes_at_peak };
    let parts = scaled_to(&rows.iter().map(of).collect::<Vec<_>>(), trace.meta().peak.live_bytes);
    Ok(rows.into_iter().zip(parts).collect())
}

/// All sites with their part of what was live when programs ended, `live_bytes` in all: scaled like
/// that of the peak.
///
/// # Errors
/// A table cannot be read.
pub fn at_end(trace: &Trace, live_bytes: u64) -> Result<Vec<(SiteRow, u64)>, Error> {
    let rows = trace.sites()?;
    let of = |row: &SiteRow| Live { bytes: row.live_bytes_at_end, sampled: row.sampled_bytes_at_end };
    let parts = scaled_to(&rows.iter().map(of).collect::<Vec<_>>(), live_bytes);
    Ok(rows.into_iter().zip(parts).collect())
}

/// Live bytes of a site, and what of them is an estimate.
struct Live {
    bytes: u64,
    sampled: u64,
}

fn scaled_to(sites: &[Live], all: u64) -> Vec<u64> {
    let sampled: Vec<u64> = sites.iter().map(|live| live.sampled.min(live.bytes)).collect();
    let exact: Vec<u64> = sites.iter().zip(&sampled).map(|(live, sampled)| live.bytes - sampled).collect();
    let exact = at_most(&exact, all);
    let left = all - exact.iter().sum::<u64>();
    at_most(&sampled, left).into_iter().zip(exact).map(|(sampled, exact)| sampled + exact).collect()
}

/// Parts that add up to `most` at most, in the same proportions; the largest takes what rounding
/// leaves.
fn at_most(parts: &[u64], most: u64) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum <= most.into() {
        return parts.to_vec();
    }
    let mut scaled: Vec<u64> =
        parts.iter().map(|part| (u128::from(*part) * u128::from(most) / sum) as u64).collect();
    let rest = most - scaled.iter().sum::<u64>();
    if let Some(largest) = scaled.iter_mut().max() {
        *largest += rest;
    }
    scaled
}

/// The sites with most used bytes of devices at their peak, the largest first; those with none are
/// left out.
///
/// # Errors
/// A table cannot be read.
pub fn largest_on_devices(trace: &Trace, most: usize) -> Result<Vec<Site>, Error> {
    let mut rows = trace.sites()?;
    rows.retain(|row| row.device_bytes_at_peak.unwrap_or(0) > 0);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.device_bytes_at_peak), row.site));
    rows.truncate(most);
    with_stacks(trace, rows)
}

/// What of large blocks was never touched as long as they lived: the sum over all sites, and the
/// sites with most of it, the largest first. `None` without the kernel side.
///
/// # Errors
/// A table cannot be read.
pub fn untouched(trace: &Trace, most: usize) -> Result<Option<(Untouched, Vec<Site>)>, Error> {
    let mut rows = trace.sites()?;
    if rows.iter().all(|row| row.untouched.is_none()) {
        return Ok(None);
    }
    let part = |row: &SiteRow| row.untouched.unwrap_or_default();
    rows.retain(|row| part(row).bytes > 0);
    let sum = rows.iter().map(part).fold(Untouched::default(), |sum, part| Untouched {
        blocks: sum.blocks.saturating_add(part.blocks),
        of_bytes: sum.of_bytes.saturating_add(part.of_bytes),
        bytes: sum.bytes.saturating_add(part.bytes),
    });
    rows.sort_by_key(|row| (std::cmp::Reverse(part(row).bytes), row.site));
    rows.truncate(most);
    Ok(Some((sum, with_stacks(trace, rows)?)))
}

fn with_stacks(trace: &Trace, rows: Vec<SiteRow>) -> Result<Vec<Site>, Error> {
    let frames = trace.frames_of(rows.iter().map(|row| row.frame))?;
    let stack = |leaf| stack(|frame| frames.get(&frame), leaf).into_iter().cloned().collect();
    Ok(rows.into_iter().map(|row| Site { stack: stack(row.frame), row }).collect())
}

impl Site {
    /// Where it is: see [`stacks::place`].
    pub fn place(&self) -> String {
        stacks::place(&self.stack.iter().collect::<Vec<_>>())
    }
}

/// What to call that which no stack accounts for.
pub fn without_stack(meta: &Meta) -> &'static str {
    match meta.recorded.get("stacks").map(String::as_str) {
        Some("auto") => "(not sampled)",
        _ => "(no stack)",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sites(bytes: &[(u64, u64)]) -> Vec<Live> {
        let live = |(exact, sampled): &(u64, u64)| Live { bytes: exact + sampled, sampled: *sampled };
        bytes.iter().map(live).collect()
    }

    #[test]
    fn estimates_give_way_to_what_is_known() {
        assert_eq!(scaled_to(&sites(&[(60, 0), (0, 60), (0, 20)]), 100), [60, 30, 10]);
        assert_eq!(scaled_to(&sites(&[(60, 0), (0, 30)]), 100), [60, 30], "the rest was not sampled");
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_peak(
            bytes in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..20),
            peak in 0..1u64 << 42,
        ) {
            let sites = sites(&bytes);
            let parts = scaled_to(&sites, peak);
            let known: u64 = sites.iter().map(|live| live.bytes).sum();
            prop_assert_eq!(parts.iter().sum::<u64>(), known.min(peak));
        }
    }
}
