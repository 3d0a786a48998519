//! What several ranks had: the least, the most, the mean.

use crate::report::document::{RankName, Spread};

/// Figures of ranks, one after the other.
#[derive(Debug, Default)]
pub(super) struct SpreadSum {
    ranks: u64,
    sum: u64,
    min: u64,
    max: u64,
    largest: RankName,
}

impl SpreadSum {
    /// One more rank; true if no rank before had as much.
    pub(super) fn add(&mut self, bytes: u64, name: &RankName) -> bool {
        let is_most = self.ranks == 0 || bytes > self.max;
        if is_most {
            self.max = bytes;
            self.largest = name.clone();
        }
        self.min = if self.ranks == 0 { bytes } else { self.min.min(bytes) };
        self.ranks += 1;
        self.sum = self.sum.saturating_add(bytes);
        is_most
    }

    /// The most so far.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn finish(self) -> Spread {
        Spread {
            ranks: self.ranks,
            min_bytes: self.min,
            mean_bytes: self.sum / self.ranks.max(1),
            max_bytes: self.max,
            sum_bytes: self.sum,
            largest: self.largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_is_named() {
        let mut sum = SpreadSum::default();
        let rank = |rank| RankName { rank: Some(rank), ..RankName::default() };
        let most: Vec<bool> =
            [(0, 5), (1, 9), (2, 9), (3, 1)].map(|(n, bytes)| sum.add(bytes, &rank(n))).into();
        assert_eq!(most, [true, true, false, false]);
        let found = sum.finish();
        assert_eq!((found.ranks, found.min_bytes, found.mean_bytes, found.max_bytes), (4, 1, 6, 9));
        assert_eq!((found.sum_bytes, found.largest.rank), (24, Some(1)));
        assert_eq!(SpreadSum::default().finish().mean_bytes, 0, "of none");
    }
}
