//! The blocks that have a mapping of their own, by their address.
//!
//! A block's place is one of a few that follow each other, as its address says: where all of them
//! are taken, the next block is left alone. So nothing is ever moved, and each change is one store.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use memtrace_wire::placement::Tier;

use super::mapping::Mapping;
use crate::sys;

const PAGE_BITS: u32 = 12;
const PLACES: usize = 1 << 14;
/// Blocks at a time: each takes two of the mappings that a process may have (vm.max_map_count, 65,530).
const MOST: usize = 8_000;
/// Places in which a block may be.
const NEARBY: usize = 32;

/// A block's place: its address, and its length with its tier's code in the lower bits; address 0:
/// free, 1: being filled in. And its mark: its slot, if there is a table, or else how often it was looked
/// before ([`watch`](super::watch)).
struct Place {
    address: AtomicUsize,
    length: AtomicUsize,
    /// As [`Mapping::fast`]; [`GONE`] when the block is released.
    fast: AtomicUsize,
    mark: AtomicU32,
}

const FREE: usize = 0;
const FILLING: usize = 1;
const GONE: usize = usize::MAX;

static TABLE: AtomicPtr<Place> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// True if there is no room for another one.
pub fn is_full() -> bool {
    COUNT.load(Ordering::Relaxed) >= MOST
}

/// Makes room for them; false if there is none.
pub fn begin() -> bool {
    let base = sys::map_memory((PLACES + NEARBY) * size_of::<Place>());
    if let Some(base) = base {
        TABLE.store(base as *mut Place, Ordering::Release);
    }
    base.is_some()
}

/// The places in which a block at an address may be.
fn nearby(address: usize) -> &'static [Place] {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return &[];
    }
    // Neighbours of 64 KiB and more: the multiplier spreads them (Fibonacci hashing).
    let hash = (address >> PAGE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - 14);
    // SAFETY: the table has `PLACES + NEARBY` places, is never unmapped, and is made of atomics; all
    // zeroes are free places.
    unsafe { core::slice::from_raw_parts(table.add(hash % PLACES), NEARBY) }
}

/// Notes a block and its mark; false if there is no room for it.
pub fn insert(mapping: &Mapping, mark: u32) -> bool {
    let place = nearby(mapping.start).iter().find(|place| {
        place.address.compare_exchange(FREE, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let Some(place) = place else { return false };
    place.length.store(mapping.length | usize::from(mapping.tier.code()), Ordering::Relaxed);
    place.fast.store(mapping.fast, Ordering::Relaxed);
    place.mark.store(mark, Ordering::Relaxed);
    place.address.store(mapping.start, Ordering::Release);
    COUNT.fetch_add(1, Ordering::Relaxed);
    true
}

fn find(address: usize) -> Option<(&'static Place, Mapping)> {
    if !address.is_multiple_of(1 << PAGE_BITS) || address == FREE {
        return None;
    }
    let place = nearby(address).iter().find(|place| place.address.load(Ordering::Acquire) == address)?;
    let length = place.length.load(Ordering::Relaxed);
    let tier = Tier::from_code(length as u8)?;
    let fast = place.fast.load(Ordering::Relaxed);
    Some((place, Mapping { start: address, length: length >> PAGE_BITS << PAGE_BITS, tier, fast }))
}

/// The block at this address, if it has a mapping of its own.
pub fn get(address: usize) -> Option<Mapping> {
    find(address).map(|(_, mapping)| mapping)
}

/// Its mark.
pub fn mark(address: usize) -> Option<u32> {
    find(address).map(|(place, _)| place.mark.load(Ordering::Relaxed))
}

/// Notes that so many bytes of a block are in the fast tier now; false if they are not as many as they
/// were, or it was released: who takes it has to give back what is there.
pub fn change_fast(block: &Mapping, fast: usize) -> bool {
    find(block.start).is_some_and(|(place, _)| {
        place.fast.compare_exchange(block.fast, fast, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    })
}

/// The same block, which is forgotten.
pub fn take(address: usize) -> Option<Mapping> {
    let (place, mapping) = find(address)?;
    let fast = place.fast.swap(GONE, Ordering::Relaxed);
    place.address.store(FREE, Ordering::Release);
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(Mapping { fast, ..mapping })
}
