//! Bytes of all processes together, and their peaks.

use crate::record::state::devices::{Change, Sum, Used};

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    live: u64,
    heap: u64,
    peak_live: u64,
    peak_heap: u64,
    /// Heap bytes at the peak of live bytes.
    heap_at_peak: u64,
    /// Stamp of the peak of live bytes.
    peak: u64,
    /// `None` before some process has had memory of a device.
    devices: Option<DeviceTotals>,
}

/// Bytes of all devices.
#[derive(Debug, Default, Clone, Copy)]
pub struct DeviceTotals {
    driver: Sum,
    used: Used,
}

impl Totals {
    /// Heap bytes change.
    #[inline(always)]
    pub fn change_heap(&mut self, bytes: i64) {
        self.live = self.live.wrapping_add_signed(bytes);
        self.heap = self.heap.wrapping_add_signed(bytes);
    }

    /// Touched bytes of mappings change.
    pub fn change_touched(&mut self, before: u64, now: u64) {
        self.live = self.live.wrapping_add(now).wrapping_sub(before);
    }

    /// A process no longer counts.
    pub fn remove(&mut self, live: u64, heap: u64) {
        self.live -= live;
        self.heap -= heap;
    }

    /// Live bytes may have grown. True if there were never as many.
    #[inline(always)]
    pub fn note_peak(&mut self, stamp: u64) -> bool {
        self.peak_heap = self.peak_heap.max(self.heap);
        let higher = self.live > self.peak_live;
        if higher {
            self.peak_live = self.live;
            self.heap_at_peak = self.heap;
            self.peak = stamp;
        }
        higher
    }

    /// Live bytes now.
    #[inline(always)]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Heap bytes now.
    pub fn heap(&self) -> u64 {
        self.heap
    }

    /// Peak of live bytes.
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Peak of heap bytes.
    pub fn peak_heap(&self) -> u64 {
        self.peak_heap
    }

    /// Heap bytes at the peak of live bytes.
    pub fn heap_at_peak(&self) -> u64 {
        self.heap_at_peak
    }

    /// Stamp of the peak of live bytes, if there were any.
    pub fn peak_stamp(&self) -> Option<u64> {
        (self.peak_live > 0).then_some(self.peak)
    }

    /// Bytes of all devices, from now on if there were none.
    pub fn devices_mut(&mut self) -> &mut DeviceTotals {
        self.devices.get_or_insert_default()
    }

    /// Bytes of all devices.
    pub fn devices(&self) -> Option<&DeviceTotals> {
        self.devices.as_ref()
    }
}

impl DeviceTotals {
    /// Driver bytes change.
    pub fn change_driver(&mut self, bytes: i64) {
        self.driver.change(bytes);
    }

    /// Used bytes change. True if they were at a new peak before.
    pub fn change_used(&mut self, change: Change) -> bool {
        self.used.change(change)
    }

    /// Driver bytes.
    pub fn driver(&self) -> Sum {
        self.driver
    }

    /// Used bytes.
    pub fn used(&self) -> Used {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_peaks_counts() {
        let mut totals = Totals::default();
        assert_eq!(totals.peak_stamp(), None);
        totals.change_heap(10);
        totals.change_touched(0, 5);
        assert!(totals.note_peak(1));
        totals.change_heap(-10);
        totals.change_heap(10);
        assert!(!totals.note_peak(2));
        totals.remove(15, 10);
        assert_eq!((totals.live(), totals.heap()), (0, 0));
        assert_eq!((totals.peak_live(), totals.peak_heap(), totals.peak_stamp()), (15, 10, Some(1)));
    }

    #[test]
    fn there_are_no_bytes_of_devices_before_a_process_has_some() {
        let mut totals = Totals::default();
        assert!(totals.devices().is_none());
        totals.devices_mut().change_driver(7);
        totals.devices_mut().change_driver(-7);
        assert_eq!(totals.devices().map(|devices| devices.driver()), Some(Sum { now: 0, peak: 7 }));
    }
}
