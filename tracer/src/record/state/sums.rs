//! Sums and maxima over the processes of a recording.

use memtrace_trace::rows::ProcessRow;

/// See the module. Bytes, but for what is counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Events of probes that found no room.
    pub lost_events: u64,
    /// Releases of blocks whose allocation was not seen.
    pub unseen_releases: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their sizes.
    pub requested_bytes: u64,
    /// The most that one process had mapped.
    pub peak_mapped_bytes: u64,
    /// The most that was resident of one.
    pub peak_resident_bytes: u64,
}

impl Sums {
    /// One more process.
    pub fn add(&mut self, row: &ProcessRow) {
        self.lost_events = self.lost_events.saturating_add(row.lost_events);
        self.unseen_releases = self.unseen_releases.saturating_add(row.unseen_releases);
        self.allocations = self.allocations.saturating_add(row.allocations);
        self.requested_bytes = self.requested_bytes.saturating_add(row.requested_bytes);
        self.peak_mapped_bytes = self.peak_mapped_bytes.max(row.peak_mapped_bytes);
        self.peak_resident_bytes = self.peak_resident_bytes.max(row.peak_resident_bytes);
    }

    /// These processes too.
    pub fn with<'a>(mut self, rows: impl IntoIterator<Item = &'a ProcessRow>) -> Sums {
        rows.into_iter().for_each(|row| self.add(row));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_peaks_do_not() {
        let row = |allocations, peak_mapped_bytes| ProcessRow {
            allocations,
            peak_mapped_bytes,
            ..ProcessRow::default()
        };
        let sums = Sums::default().with(&[row(3, 50), row(4, 40)]);
        assert_eq!(sums, Sums { allocations: 7, peak_mapped_bytes: 50, ..Sums::default() });
    }
}
