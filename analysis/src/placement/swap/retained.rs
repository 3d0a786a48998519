//! Mappings of released blocks that the probe retains for the next blocks of their length: the same
//! rules as its own (`probe-lib/src/placement/retained.rs`).

use super::PAGE;

const PLACES: usize = 16;
const MOST_PAGES: u64 = (64 << 20) / PAGE;
const LARGEST: u64 = (32 << 20) / PAGE;

/// Pages of mappings, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Retained(Vec<u64>);

impl Retained {
    /// True if there is one of this length; it is taken.
    pub fn take(&mut self, pages: u64) -> bool {
        let place = self.0.iter().position(|each| *each == pages);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// Retains one, for which others may have to go.
    pub fn put(&mut self, pages: u64) {
        if pages > LARGEST {
            return;
        }
        while self.0.len() >= PLACES || self.pages() + pages > MOST_PAGES {
            self.0.remove(0);
        }
        self.0.push(pages);
    }

    /// Releases the oldest until that gives so many pages, or there are none. Returns how many.
    pub fn trim(&mut self, wanted: u64) -> u64 {
        let mut pages = 0;
        while pages < wanted && !self.0.is_empty() {
            pages += self.0.remove(0);
        }
        pages
    }

    /// Of all of them.
    pub fn pages(&self) -> u64 {
        self.0.iter().sum()
    }
}
