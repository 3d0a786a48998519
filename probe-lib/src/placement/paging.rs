//! Pages of blocks that go to the slow tier and come back, as the plan says: before a block is
//! allocated, its moves are made. None of them changes what a page has in it, so the worst that a wrong
//! one does is to take time.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::placement::moves::{Action, MOST_SLOTS, Move, Moves};
use memtrace_wire::placement::{Done, Placement, Tier};

use super::mapping::Mapping;
use super::nodes::{self, Moved};
use super::{own, retained, swap};
use crate::ring::record;
use crate::sys;

const PAGE: usize = 4096;

/// Where the live block of an object is.
struct Slot {
    /// 0: none is live.
    address: AtomicUsize,
    length: AtomicUsize,
    /// Some of its pages were moved.
    is_moved: AtomicBool,
}

/// Those of all objects; null if nothing is ever moved.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
static SCHEDULE: AtomicPtr<Schedule> = AtomicPtr::new(null_mut());

struct Schedule {
    moves: Moves<'static>,
    between: Between,
}

/// What pages move between.
#[derive(Clone, Copy)]
enum Between {
    /// Memory, and swap.
    Swap,
    /// Two nodes.
    Nodes { slow: u8, fast: u8 },
}

/// Makes these moves from now on; false if there is no memory for that.
pub fn begin(placement: &Placement, moves: Moves<'static>) -> bool {
    let slots = sys::map_memory((MOST_SLOTS as usize + 1) * size_of::<Slot>());
    let (Some(slots), Some(memory)) = (slots, sys::map_memory(size_of::<Schedule>())) else {
        return false;
    };
    let tiers = [placement.slow, placement.fast].map(|code| Tier::from_code(code as u8));
    let between = match tiers {
        [Some(Tier::Node(slow)), Some(Tier::Node(fast))] => Between::Nodes { slow, fast },
        _ => Between::Swap,
    };
    let place = memory.cast::<Schedule>();
    // SAFETY: a new mapping of that many bytes, aligned to a page.
    unsafe { place.write(Schedule { moves, between }) };
    SLOTS.store(slots.cast(), Ordering::Release);
    SCHEDULE.store(place, Ordering::Release);
    true
}

fn schedule() -> Option<&'static Schedule> {
    // SAFETY: null, or what never changes and is never unmapped.
    unsafe { SCHEDULE.load(Ordering::Acquire).as_ref() }
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
    schedule().map_or(0, |schedule| schedule.moves.slot(place))
}

/// A block is in its slot.
pub fn allocated(number: u32, mapping: &Mapping) {
    if let Some(slot) = slot(number) {
        slot.length.store(mapping.length, Ordering::Relaxed);
        slot.is_moved.store(false, Ordering::Relaxed);
        slot.address.store(mapping.start, Ordering::Release);
    }
}

/// A block that begins here is released; true if some of its pages were moved, or that is not known:
/// its memory is no use for the next block, for which whatever they had in them would be brought back.
pub fn released(number: u32, start: usize) -> bool {
    slot(number).is_some_and(|slot| {
        let is_moved = slot.is_moved.load(Ordering::Relaxed);
        // The object's next block may be there already.
        is_moved || slot.address.compare_exchange(start, 0, Ordering::Relaxed, Ordering::Relaxed).is_err()
    })
}

/// Makes the moves that precede a block.
pub fn before(place: usize) {
    let Some(schedule) = schedule() else { return };
    for each in schedule.moves.before(place) {
        match each.action {
            Action::Trim => retained::release(Tier::Dram, each.pages as usize * PAGE),
            Action::Out | Action::In => make(&each, schedule.between),
        }
    }
}

fn make(each: &Move, between: Between) {
    let Some(slot) = slot(each.slot) else { return };
    let (address, length) = (slot.address.load(Ordering::Acquire), slot.length.load(Ordering::Relaxed));
    let first = (each.first as usize * PAGE).min(length);
    let end = length.min(first + each.pages as usize * PAGE);
    if address == 0 || first == end {
        return;
    }
    if matches!(between, Between::Swap) {
        slot.is_moved.store(true, Ordering::Relaxed);
    }
    let begin = sys::monotonic_ns();
    let Some((tier, Moved { start, length, errno })) = moved(each.action, between, address, first, end)
    else {
        return;
    };
    slot.is_moved.store(true, Ordering::Relaxed);
    let micros = u32::try_from((sys::monotonic_ns() - begin) / 1000).unwrap_or(u32::MAX);
    let done = Done { tier: Some(tier), action: Some(each.action), errno, micros };
    record::event(Kind::Placement, start, length, done.encode());
}

/// Moves a range of a block; which pages that were, and where they are now. `None` if none were.
fn moved(
    action: Action,
    between: Between,
    address: usize,
    first: usize,
    end: usize,
) -> Option<(Tier, Moved)> {
    match between {
        Between::Swap => {
            let (start, length) = (address + first, end - first);
            Some((Tier::Dram, Moved { start, length, errno: swap::moved(action, start, length) }))
        }
        Between::Nodes { slow, fast } => {
            let block = own::get(address)?;
            match action {
                Action::Out => Some((Tier::Node(slow), nodes::out(&block, first, end, slow)?)),
                Action::In | Action::Trim => Some((Tier::Node(fast), nodes::back(&block, first, end, fast)?)),
            }
        }
    }
}
