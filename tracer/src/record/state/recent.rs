//! The last releases of a process whose threads may hand blocks to each other.

/// How many are remembered: most of those of a microsecond, of many threads.
const REMEMBERED: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct Release {
    address: u64,
    stamp: u64,
    thread: u32,
}

/// See the module; by default nothing is remembered.
#[derive(Debug, Default)]
pub struct Recent {
    /// Each at the place of its address ([`place`]); empty until there are two threads.
    releases: Vec<Release>,
}

impl Recent {
    /// From now on releases are remembered.
    pub fn start(&mut self) {
        self.releases.resize(REMEMBERED, Release::default());
    }

    /// A thread has released the block at this address.
    #[inline(always)]
    pub fn note(&mut self, address: u64, stamp: u64, thread: u32) {
        if let Some(release) = self.releases.get_mut(place(address)) {
            *release = Release { address, stamp, thread };
        }
    }

    /// The thread that released the last block at this address, if that is another than this one and
    /// was at most `patience` ticks before `stamp`.
    pub fn by_other(&self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        let last = self.releases.get(place(address)).filter(|release| release.address == address)?;
        let is_recent = stamp.saturating_sub(last.stamp) <= patience;
        (last.thread != thread && is_recent).then_some(last.thread)
    }
}

/// By the golden ratio (Knuth, volume 3, 6.4); blocks lie at multiples of 16.
#[inline(always)]
fn place(address: u64) -> usize {
    ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - REMEMBERED.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_at_an_address_is_remembered() {
        let mut recent = Recent::default();
        recent.note(0x1000, 10, 1);
        assert_eq!(recent.by_other(2, 0x1000, 11, 5), None, "not before there are two threads");
        recent.start();
        recent.note(0x1000, 10, 1);
        assert_eq!(recent.by_other(2, 0x1000, 15, 5), Some(1));
        assert_eq!(recent.by_other(2, 0x2000, 15, 5), None, "another block");
        assert_eq!(recent.by_other(1, 0x1000, 15, 5), None, "its own");
        assert_eq!(recent.by_other(2, 0x1000, 16, 5), None, "too long ago");
        recent.note(0x1000, 14, 3);
        assert_eq!(recent.by_other(2, 0x1000, 16, 5), Some(3), "the last one");
        assert_eq!(recent.by_other(3, 0x1000, 15, 5), None, "thread 1's is forgotten");
        (0..1000).for_each(|_| recent.note(0x1010, 14, 1));
        assert_eq!(recent.by_other(2, 0x1000, 16, 5), Some(3), "another address has its own place");
        (0..100_000).for_each(|at| recent.note(0x3000 + 16 * at, 20, 1));
        assert_eq!(recent.by_other(2, 0x1000, 16, 5), None, "others have come since");
    }
}
