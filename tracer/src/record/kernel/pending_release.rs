//! Ranges that were mapped anew before their unmapping was reported: calls are reported when they
//! return, so one that unmapped may be reported after another thread was given the same place.

use std::ops::Range;

/// After this time the report is no longer awaited.
const AWAITED_NS: u64 = 10_000_000;

#[derive(Debug, Clone)]
struct PendingRelease {
    process: u32,
    range: Range<u64>,
    since: u64,
}

/// Those of all processes without a probe.
#[derive(Debug, Default)]
pub struct PendingReleases {
    pending: Vec<PendingRelease>,
}

impl PendingReleases {
    /// The range was mapped anew at this time.
    pub fn expect(&mut self, process: u32, range: Range<u64>, ns: u64) {
        self.pending.push(PendingRelease { process, range, since: ns });
    }

    /// True if the unmapping of this range, reported now, was awaited.
    pub fn settle(&mut self, process: u32, range: &Range<u64>, ns: u64) -> bool {
        self.pending.retain(|each| ns.saturating_sub(each.since) < AWAITED_NS);
        let is_awaited = |each: &PendingRelease| {
            each.process == process
                && each.range.start >= range.start
                && each.range.end <= range.end
                && each.since <= ns
        };
        let found = self.pending.iter().position(is_awaited);
        found.map(|index| self.pending.swap_remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_settled_once_by_a_later_call_around_it() {
        let mut releases = PendingReleases::default();
        releases.expect(1, 0x2000..0x3000, 100);
        assert!(!releases.settle(2, &(0x1000..0x4000), 200), "of another process");
        assert!(!releases.settle(1, &(0x2000..0x2800), 200), "less than the range");
        assert!(!releases.settle(1, &(0x1000..0x4000), 99), "before it was mapped anew");
        assert!(releases.settle(1, &(0x1000..0x4000), 200));
        assert!(!releases.settle(1, &(0x1000..0x4000), 200), "once");
        releases.expect(1, 0x2000..0x3000, 300);
        assert!(!releases.settle(1, &(0x2000..0x3000), 300 + AWAITED_NS), "too late");
    }
}
