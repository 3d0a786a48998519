//! Pages of blocks that go to swap and come back, as the plan says: before a block is allocated, its
//! moves are made. None of them changes what a page has in it, so the worst that a wrong one does is
//! to take time.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::placement::moves::{Action, MOST_SLOTS, Move, Moves};
use memtrace_wire::placement::{Done, Tier};

use super::mapping::Mapping;
use super::retained;
use crate::ring::record;
use crate::sys::{self, syscall};

const PAGE: usize = 4096;

/// Where the live block of an object is.
struct Slot {
    /// 0: none is live.
    address: AtomicUsize,
    length: AtomicUsize,
    /// Some of its pages were moved to swap.
    is_moved: AtomicBool,
}

/// Those of all objects; null if nothing is ever moved.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
static MOVES: AtomicPtr<Moves<'static>> = AtomicPtr::new(null_mut());

/// Makes these moves from now on; false if there is no memory for that.
pub fn begin(moves: Moves<'static>) -> bool {
    let slots = sys::map_memory((MOST_SLOTS as usize + 1) * size_of::<Slot>());
    let (Some(slots), Some(memory)) = (slots, sys::map_memory(size_of::<Moves>())) else { return false };
    let place = memory.cast::<Moves<'static>>();
    // SAFETY: a new mapping of that many bytes, aligned to a page.
    unsafe { place.write(moves) };
    SLOTS.store(slots.cast(), Ordering::Release);
    MOVES.store(place, Ordering::Release);
    true
}

fn moves() -> Option<&'static Moves<'static>> {
    // SAFETY: null, or what never changes and is never unmapped.
    unsafe { MOVES.load(Ordering::Acquire).as_ref() }
}

fn slot(number: u32) -> Option<&'static Slot> {
    let slots = SLOTS.load(Ordering::Acquire);
    if slots.is_null() || number == 0 || number > MOST_SLOTS {
        return None;
    }
    // SAFETY: there are that many, made of atomics, of which all zeroes are free ones.
    Some(unsafe { &*slots.add(number as usize) })
}

/// The slot of a block, by its place among all; 0 if it is never moved.
pub fn slot_of(place: usize) -> u32 {
    moves().map_or(0, |moves| moves.slot(place))
}

/// A block is in its slot.
pub fn allocated(number: u32, mapping: &Mapping) {
    if let Some(slot) = slot(number) {
        slot.length.store(mapping.length, Ordering::Relaxed);
        slot.is_moved.store(false, Ordering::Relaxed);
        slot.address.store(mapping.start, Ordering::Release);
    }
}

/// A block that begins here is released; true if some of its pages were moved to swap, or that is not
/// known: whatever they had in them would be brought back for the next block.
pub fn released(number: u32, start: usize) -> bool {
    slot(number).is_some_and(|slot| {
        let is_moved = slot.is_moved.load(Ordering::Relaxed);
        // The object's next block may be there already.
        is_moved || slot.address.compare_exchange(start, 0, Ordering::Relaxed, Ordering::Relaxed).is_err()
    })
}

/// Makes the moves that precede a block.
pub fn before(place: usize) {
    for each in moves().into_iter().flat_map(|moves| moves.before(place)) {
        match each.action {
            Action::Trim => retained::release(Tier::Dram, each.pages as usize * PAGE),
            Action::Out | Action::In => moved(&each),
        }
    }
}

fn moved(each: &Move) {
    let Some(slot) = slot(each.slot) else { return };
    let (address, length) = (slot.address.load(Ordering::Acquire), slot.length.load(Ordering::Relaxed));
    let first = (each.first as usize * PAGE).min(length);
    let bytes = (each.pages as usize * PAGE).min(length - first);
    if address == 0 || bytes == 0 {
        return;
    }
    let begin = sys::monotonic_ns();
    let errno = match each.action {
        Action::Out => {
            slot.is_moved.store(true, Ordering::Relaxed);
            advise(address + first, bytes, libc::MADV_PAGEOUT)
        }
        Action::In | Action::Trim => bring_back(address + first, bytes),
    };
    let micros = u32::try_from((sys::monotonic_ns() - begin) / 1000).unwrap_or(u32::MAX);
    let done = Done { tier: Some(Tier::Dram), action: Some(each.action), errno, micros };
    record::event(Kind::Placement, address + first, bytes, done.encode());
}

/// Reads ahead into the swap cache first: pages that come from there need not be written again if they
/// are only read until they go the next time. To the kernel, pages that were brought back count as
/// used, all of them: where these are most, it finds none to take, and ends the program for want of
/// memory. So they are set back (MADV_COLD).
fn bring_back(start: usize, length: usize) -> i32 {
    let all = [libc::MADV_WILLNEED, libc::MADV_POPULATE_READ, libc::MADV_COLD];
    all.into_iter().map(|advice| advise(start, length, advice)).find(|errno| *errno != 0).unwrap_or(0)
}

/// Returns the errno of a refusal, or 0.
fn advise(start: usize, length: usize, advice: i32) -> i32 {
    // SAFETY: advice that leaves what pages have in them as it is.
    let result = unsafe { syscall(libc::SYS_madvise, [start, length, advice as usize, 0, 0, 0]) };
    if result < 0 { -result as i32 } else { 0 }
}
