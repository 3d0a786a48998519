//! How much of a block is written: a few of its pages go to swap, and come back when the program accesses
//! them, clean where it has only read them. (A page that was written once stays dirty, so all of a
//! block would have to go each time.) What cannot be sent, or comes back dirty whatever the program
//! does, as from swap that is more than half full, counts as written. Where the kernel itself swaps pages
//! of a block that come back clean, what is written may be missed.

use super::mapping::Mapping;
use super::swap;
use crate::sys;

/// Spread over the block, or over the part of it that was touched.
const PAGES: usize = 4;
/// Bits of an entry of /proc/self/pagemap (proc_pid_pagemap(5)).
const IN_MEMORY: u64 = 1 << 63;
const IN_SWAP: u64 = 1 << 62;

/// Sampled pages of a block.
pub struct Sample {
    start: usize,
    /// So many pages they are spread over.
    pages: usize,
    /// Those in memory: accessed since they were sent, or never sent.
    in_memory: usize,
    in_swap: usize,
}

impl Sample {
    /// Looks at them in the file /proc/self/pagemap, that is open. Pages that the program never touched
    /// are in neither: programs fill blocks from the front, so then it looks at the first pages.
    pub fn of(block: Mapping, pagemap: usize) -> Sample {
        let pages = block.length / sys::page();
        let mut sample = Sample { start: block.start, pages, in_memory: 0, in_swap: 0 };
        sample.look(pagemap);
        while sample.in_memory + sample.in_swap == 0 && sample.pages >= 2 * PAGES * PAGES {
            sample.pages /= 2 * PAGES;
            sample.look(pagemap);
        }
        sample
    }

    fn look(&mut self, pagemap: usize) {
        for address in self.addresses() {
            let mut entry = [0; 8];
            sys::read_at(pagemap, &mut entry, address / sys::page() * 8);
            let entry = u64::from_ne_bytes(entry);
            self.in_memory += usize::from(entry & IN_MEMORY != 0);
            self.in_swap += usize::from(entry & IN_SWAP != 0);
        }
    }

    /// How many of them are dirty, if so many bytes of the block are in memory and clean.
    fn dirty(&self, clean: usize) -> usize {
        self.in_memory.saturating_sub(clean / sys::page())
    }

    /// Bytes of a block that are written, if so many of it were ever touched: as much of them as of the
    /// sample.
    pub fn written(&self, touched: usize, clean: usize) -> usize {
        let seen = self.in_memory + self.in_swap;
        let pages = (touched / sys::page()).wrapping_mul(self.dirty(clean));
        pages.checked_div(seen).map_or(touched, |pages| pages * sys::page())
    }

    /// Sends them to swap, if any is dirty.
    pub fn send(&self, clean: usize) {
        if self.dirty(clean) > 0 {
            self.addresses().for_each(|address| _ = swap::send(address, sys::page()));
        }
    }

    /// In the middle of each part of what they are spread over.
    fn addresses(&self) -> impl Iterator<Item = usize> + use<> {
        let (start, pages) = (self.start, self.pages);
        (0..PAGES).map(move |each| start + pages * (2 * each + 1) / (2 * PAGES) * sys::page())
    }
}
