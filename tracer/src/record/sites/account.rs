//! Live bytes per site, now and at the last peak of all live bytes, without ever looking at all sites:
//! a site notes its value when it first changes after a new peak. The same of devices, whose bytes peak at another time.

/// What one site holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account {
    /// Blocks allocated.
    pub blocks: u64,
    /// Sum of their sizes.
    pub requested: u64,
    /// Largest sum of its live bytes.
    pub peak: u64,
    /// Its live bytes.
    pub live: Bytes,
}

impl Account {
    /// Something was allocated that counts for so many blocks and bytes.
    pub fn acquired(&mut self, blocks: u64, bytes: u64) {
        self.blocks += blocks;
        self.requested += bytes;
    }

    /// Live bytes change; `peaks` peaks have been seen so far.
    pub fn change(&mut self, bytes: i64, peaks: u64) {
        self.live.change(bytes, peaks);
        self.peak = self.peak.max(self.live.now());
    }
}

/// A sum, now and at the last peak of all sums together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes {
    now: u64,
    at_peak: u64,
    /// The peak that `at_peak` is of, by number.
    noted: u64,
}

impl Bytes {
    /// It changes; `peaks` peaks have been seen so far.
    #[inline(always)]
    pub fn change(&mut self, bytes: i64, peaks: u64) {
        if self.noted != peaks {
            self.at_peak = self.now;
            self.noted = peaks;
        }
        self.now = self.now.saturating_add_signed(bytes);
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When the last of `peaks` peaks was reached.
    pub fn at_peak(&self, peaks: u64) -> u64 {
        if self.noted == peaks { self.at_peak } else { self.now }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against noting every site at every peak.
        #[test]
        fn lazily_noted_values_are_those_of_the_peak(
            changes in prop::collection::vec((0..4usize, -50..60i64), 1..200),
        ) {
            let mut accounts = [Account::default(); 4];
            let (mut live, mut at_peak) = ([0i64; 4], [0i64; 4]);
            let (mut most, mut peaks) = (0, 0);
            for (site, bytes) in changes {
                let bytes = bytes.max(-live[site]);
                accounts[site].change(bytes, peaks);
                live[site] += bytes;
                let total: i64 = live.iter().sum();
                if total > most {
                    (most, at_peak) = (total, live);
                    peaks += 1;
                }
            }
            for site in 0..4 {
                prop_assert_eq!(accounts[site].live.at_peak(peaks) as i64, at_peak[site]);
            }
        }
    }
}
