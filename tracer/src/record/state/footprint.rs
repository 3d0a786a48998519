//! What a process occupied at one moment; of interest when its resident memory was highest.

use super::process::Process;

/// In bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Live.
    pub live: u64,
    /// Of them, those of large heap blocks that were never touched.
    pub untouched: u64,
    /// Mapped by the program itself.
    pub mapped: u64,
}

impl Footprint {
    /// That of a process now.
    pub fn of(process: &Process) -> Footprint {
        Footprint {
            live: process.live(),
            untouched: process.large.untouched_bytes(),
            mapped: process.mappings.mapped_bytes(),
        }
    }

    /// The one in which more was live; of two with as much, the one in which more was touched.
    pub fn max(self, other: Footprint) -> Footprint {
        let size = |each: &Footprint| (each.live, std::cmp::Reverse(each.untouched));
        std::cmp::max_by_key(self, other, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_with_as_many_live_bytes_the_more_touched_one_is_larger() {
        let of = |live, untouched| Footprint { live, untouched, mapped: 0 };
        assert_eq!(of(5, 2).max(of(4, 0)), of(5, 2));
        assert_eq!(of(5, 2).max(of(5, 1)), of(5, 1));
    }
}
