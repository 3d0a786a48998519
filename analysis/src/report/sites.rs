//! Call stacks with the memory that was live at the peak.

use memtrace_trace::rows::{FrameRow, SiteRow, Untouched};
use memtrace_trace::weights::SiteWeights;
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

/// The sites of a trace with most live bytes at their peak, the largest first, as they were
/// recorded: see [`at_peak`] for their parts of the peak.
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

/// Samples that are enough to share out all small blocks in the proportions of those sampled: their
/// sum is then off by a quarter (one standard deviation, 1/√16).
const ENOUGH_SAMPLES: u64 = 16;

/// A site with its part of a sum of live bytes.
pub struct Share {
    /// What it allocated.
    pub row: SiteRow,
    /// Its part.
    pub bytes: u64,
    /// What of that blocks stand for that were sampled.
    pub estimated: u64,
}

/// All sites with their part of the peak of live bytes. What sampled blocks stand for comes to more
/// or less than there was, by chance: it is scaled to what the blocks of known stacks leave of the
/// peak. Few samples, or samples that stand for less than half of that, are never scaled up: the
/// rest of the peak has no place then.
///
/// # Errors
/// A table cannot be read.
pub fn at_peak(trace: &Trace) -> Result<Vec<Share>, Error> {
    let of = |row: &SiteRow| Live { bytes: row.live_bytes_at_peak, sampled: row.sampled_bytes_at_peak };
    shares(trace, trace.meta().peak.live_bytes, of)
}

/// The sites with the largest parts of the peak of live bytes, the largest first; and the sum of all
/// sites' parts.
///
/// # Errors
/// A table cannot be read.
pub fn largest_at_peak(trace: &Trace, most: usize) -> Result<(Vec<(Site, u64)>, u64), Error> {
    let mut shares = at_peak(trace)?;
    let sum = shares.iter().fold(0, |sum: u64, share| sum.saturating_add(share.bytes));
    shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.row.site));
    shares.truncate(most);
    let bytes: Vec<u64> = shares.iter().map(|share| share.bytes).collect();
    let sites = with_stacks(trace, shares.into_iter().map(|share| share.row).collect())?;
    Ok((sites.into_iter().zip(bytes).collect(), sum))
}

/// All sites with their part of what was live when programs ended, `live_bytes` in all: scaled like
/// that of the peak.
///
/// # Errors
/// A table cannot be read.
pub fn at_end(trace: &Trace, live_bytes: u64) -> Result<Vec<Share>, Error> {
    let of = |row: &SiteRow| Live { bytes: row.live_bytes_at_end, sampled: row.sampled_bytes_at_end };
    shares(trace, live_bytes, of)
}

fn shares(trace: &Trace, all: u64, of: impl Fn(&SiteRow) -> Live) -> Result<Vec<Share>, Error> {
    let rows = trace.sites()?;
    let parts = scaled_to(&rows.iter().map(of).collect::<Vec<_>>(), all, enough(trace.meta()));
    let share = |(row, (exact, estimated))| Share { row, bytes: exact + estimated, estimated };
    Ok(rows.into_iter().zip(parts).map(share).collect())
}

/// Live bytes of a site, and what of them is an estimate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Live {
    pub(super) bytes: u64,
    pub(super) sampled: u64,
}

/// What as many samples as are enough stand for.
pub(super) fn enough(meta: &Meta) -> u64 {
    ENOUGH_SAMPLES.saturating_mul(SiteWeights::of(meta).mean_bytes())
}

/// Exact and estimated bytes of each.
pub(super) fn scaled_to(sites: &[Live], all: u64, enough: u64) -> Vec<(u64, u64)> {
    let sampled: Vec<u64> = sites.iter().map(|live| live.sampled.min(live.bytes)).collect();
    let exact: Vec<u64> = sites.iter().zip(&sampled).map(|(live, sampled)| live.bytes - sampled).collect();
    let exact = in_proportion(&exact, sum(&exact).min(all.into()));
    let left = u128::from(all) - sum(&exact);
    let known = sum(&sampled);
    let up = known >= enough.max(1).into() && known >= left / 2;
    let sampled = in_proportion(&sampled, if up { left } else { known.min(left) });
    exact.into_iter().zip(sampled).collect()
}

fn sum(parts: &[u64]) -> u128 {
    parts.iter().map(|part| u128::from(*part)).sum()
}

/// Parts that add up to `whole`, in the same proportions; the largest takes what rounding leaves.
fn in_proportion(parts: &[u64], whole: u128) -> Vec<u64> {
    let before = sum(parts).max(1);
    let mut scaled: Vec<u64> = parts.iter().map(|part| (u128::from(*part) * whole / before) as u64).collect();
    let rest = whole - sum(&scaled);
    if let Some(largest) = scaled.iter_mut().max() {
        *largest += rest as u64;
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

/// True if blocks lack a stack for not being sampled. Only heap blocks are sampled: where there is no
/// heap, no probe was in the program.
pub fn are_sampled(meta: &Meta) -> bool {
    meta.recorded.get("stacks").is_some_and(|how| how == "auto") && meta.peak.heap_bytes > 0
}

/// What to call that which no stack accounts for.
pub fn without_stack(meta: &Meta) -> &'static str {
    if are_sampled(meta) { "(not sampled)" } else { "(no stack)" }
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
        assert_eq!(scaled_to(&sites(&[(60, 0), (0, 60), (0, 20)]), 100, 1000), [(60, 0), (0, 30), (0, 10)]);
        assert_eq!(scaled_to(&sites(&[(60, 0), (0, 30)]), 100, 1000), [(60, 0), (0, 30)], "few samples");
    }

    #[test]
    fn enough_samples_share_out_all_small_blocks() {
        assert_eq!(scaled_to(&sites(&[(60, 0), (0, 20), (0, 10)]), 100, 30), [(60, 0), (0, 27), (0, 13)]);
        assert_eq!(scaled_to(&sites(&[(0, 30)]), 100, 30), [(0, 30)], "most of them have no stack at all");
        assert_eq!(scaled_to(&sites(&[(60, 0)]), 100, 0), [(60, 0)]);
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_peak(
            bytes in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..20),
            peak in 0..1u64 << 42,
            enough in 0..1u64 << 42,
        ) {
            let sites = sites(&bytes);
            let parts = scaled_to(&sites, peak, enough);
            let known: u64 = sites.iter().map(|live| live.bytes).sum();
            let shown = parts.iter().map(|(exact, estimated)| exact + estimated).sum::<u64>();
            prop_assert!(shown == known.min(peak) || shown == peak && known >= peak / 2);
        }
    }
}
