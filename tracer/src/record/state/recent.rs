//! The releases that came last in a process whose threads may hand blocks to each other.

/// How many are remembered: those of some microseconds, of many threads.
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
    /// Around in a circle; empty until there are two threads.
    releases: Vec<Release>,
    next: usize,
}

impl Recent {
    /// From now on releases are remembered.
    pub fn start(&mut self) {
        self.releases.resize(REMEMBERED, Release::default());
    }

    /// A thread has released the block at this address.
    #[inline(always)]
    pub fn note(&mut self, address: u64, stamp: u64, thread: u32) {
        if let Some(release) = self.releases.get_mut(self.next % REMEMBERED) {
            *release = Release { address, stamp, thread };
            self.next += 1;
        }
    }

    /// The thread, other than this one, that has released the block at this address at most
    /// `patience` ticks before `stamp`.
    pub fn by_other(&self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        let is_it = |release: &&Release| {
            let age = stamp.saturating_sub(release.stamp);
            release.address == address && release.thread != thread && age <= patience
        };
        self.releases.iter().find(is_it).map(|release| release.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_releases_of_other_threads_are_remembered() {
        let mut recent = Recent::default();
        recent.note(0x1000, 10, 1);
        assert_eq!(recent.by_other(2, 0x1000, 11, 5), None, "not before there are two threads");
        recent.start();
        recent.note(0x1000, 10, 1);
        assert_eq!(recent.by_other(2, 0x1000, 15, 5), Some(1));
        assert_eq!(recent.by_other(2, 0x2000, 15, 5), None, "another block");
        assert_eq!(recent.by_other(1, 0x1000, 15, 5), None, "its own");
        assert_eq!(recent.by_other(2, 0x1000, 16, 5), None, "too long ago");
        (0..REMEMBERED as u64).for_each(|at| recent.note(0x3000 + at, 20, 1));
        assert_eq!(recent.by_other(2, 0x1000, 15, 5), None, "others have come since");
        assert_eq!(recent.by_other(2, 0x3000, 20, 5), Some(1));
    }
}
