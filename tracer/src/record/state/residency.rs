//! Resident memory of one process, as /proc shows it, and what the probe's rings take of it.

use rustc_hash::FxHashMap;

/// See the module. In bytes.
#[derive(Debug, Default)]
pub struct Residency {
    /// Largest size that was seen, the rings included.
    peak: u64,
    /// Size when it was last seen, the rings left out.
    now: u64,
    /// Size when stack and data were sampled.
    image_sampled_at: u64,
    /// Touched bytes of the rings it has used, by slot.
    rings: FxHashMap<usize, u64>,
}

impl Residency {
    /// It was as large as this once, the rings included.
    pub fn note_peak(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes);
    }

    /// It is as large as this now, the rings left out.
    pub fn note_now(&mut self, bytes: u64) {
        self.now = bytes;
    }

    /// Largest size that was seen, the rings included.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Size when it was last seen, the rings left out.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// True if stack and data are to be sampled now: what is found when the most was resident is
    /// close to what there was at the peak.
    pub fn takes_image(&mut self, bytes: u64) -> bool {
        let larger = bytes > self.image_sampled_at + self.image_sampled_at / 16;
        if larger {
            self.image_sampled_at = bytes;
        }
        larger
    }

    /// A ring of its was seen with this many touched bytes. What all of them take.
    pub fn note_ring(&mut self, ring: usize, touched: u64) -> u64 {
        let most = self.rings.entry(ring).or_default();
        *most = (*most).max(touched);
        self.rings.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_count_with_the_most_that_was_touched_of_each() {
        let mut residency = Residency::default();
        assert_eq!(residency.note_ring(1, 4096), 4096);
        assert_eq!(residency.note_ring(2, 8192), 12288);
        assert_eq!(residency.note_ring(1, 0), 12288);
    }

    #[test]
    fn stack_and_data_are_sampled_when_the_process_has_grown() {
        let mut residency = Residency::default();
        assert!(residency.takes_image(1600));
        assert!(!residency.takes_image(1700));
        assert!(residency.takes_image(1701));
    }
}
