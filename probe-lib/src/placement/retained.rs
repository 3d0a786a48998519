//! Mappings of blocks that were released, for the next blocks of their length and tier: a program
//! that allocates the same temporaries again and again would take a page fault for each page of
//! them each time. The C library's heap retains such blocks too.

use memtrace_wire::placement::Tier;

use super::budget;
use super::lock::Lock;
use super::mapping::Mapping;

const PLACES: usize = 16;
/// Of all tiers: twice the largest block that the C library's heap retains
/// (DEFAULT_MMAP_THRESHOLD_MAX, mallopt(3)).
const MOST_BYTES: usize = 64 << 20;
/// Larger blocks are unmapped at once, as the C library does.
const LARGEST: usize = 32 << 20;

/// The oldest first.
struct Retained([Option<Mapping>; PLACES]);

static RETAINED: Lock<Retained> = Lock::new(Retained([None; PLACES]));

/// One of this length and tier that is aligned as wanted.
pub fn take(length: usize, tier: Tier, alignment: usize) -> Option<Mapping> {
    let is_wanted = |mapping: &Mapping| {
        mapping.length == length && mapping.tier == tier && mapping.start & (alignment - 1) == 0
    };
    RETAINED.with(|retained| retained.remove(is_wanted)).flatten()
}

/// Retains one, for which others may have to go; or unmaps it.
pub fn put(mapping: Mapping) {
    if mapping.length > LARGEST {
        return mapping.release();
    }
    // One more round than there are places.
    for _ in 0..=PLACES {
        match RETAINED.with(|retained| retained.put(mapping)) {
            Some(Ok(())) => return,
            Some(Err(Some(oldest))) => oldest.release(),
            Some(Err(None)) | None => break,
        }
    }
    mapping.release();
}

/// Unmaps the oldest of a tier until that gives so many bytes, or there are none: they are wanted for
/// another block.
pub fn release(tier: Tier, bytes: usize) {
    let mut released = 0;
    while released < bytes
        && let Some(mapping) =
            RETAINED.with(|retained| retained.remove(|mapping| mapping.tier == tier)).flatten()
    {
        released += mapping.length;
        mapping.release();
    }
}

/// Takes bytes of a tier, for which what is retained there has to go if need be; false if there are not
/// so many.
pub fn make_room(tier: Tier, bytes: usize) -> bool {
    budget::take(tier, bytes) || {
        release(tier, usize::MAX);
        budget::take(tier, bytes)
    }
}

impl Retained {
    fn remove(&mut self, is_wanted: impl Fn(&Mapping) -> bool) -> Option<Mapping> {
        let place = self.0.iter().position(|place| place.as_ref().is_some_and(&is_wanted))?;
        let rest = self.0.get_mut(place..)?;
        rest.rotate_left(1);
        rest.last_mut()?.take()
    }

    /// Retains it, or returns the one that has to go first.
    fn put(&mut self, mapping: Mapping) -> Result<(), Option<Mapping>> {
        let bytes = self.0.iter().flatten().map(|other| other.length).sum::<usize>();
        let free = self.0.iter_mut().find(|place| place.is_none());
        match free {
            Some(free) if bytes + mapping.length <= MOST_BYTES => {
                *free = Some(mapping);
                Ok(())
            }
            _ => Err(self.remove(|_| true)),
        }
    }
}
