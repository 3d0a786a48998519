//! Which tier the next block gets.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::placement::{Follower, LEAST_BYTES, Placement, Planned, Table, Tier};

use super::paging;
use crate::ring::record;
use crate::sys;

struct Plan {
    /// Without a table: where all blocks go.
    all: Option<Tier>,
    /// Where blocks go that have no room in their tier, the faster of the two first.
    slower: [Option<Tier>; 2],
    follower: Follower<'static>,
}

/// Place of each block where there is no table.
pub const NO_PLACE: usize = usize::MAX;

/// Null before there is one.
static PLAN: AtomicPtr<Plan> = AtomicPtr::new(null_mut());
static DEPARTED: AtomicBool = AtomicBool::new(false);

/// Follows it from now on; false if there is no memory for that.
pub fn begin(placement: &Placement, words: &'static [u64]) -> bool {
    let table = Table::new(words);
    let bytes = size_of::<Plan>() + table.sizes() * size_of::<AtomicU32>();
    let Some(memory) = sys::map_memory(bytes) else { return false };
    let plan = memory.cast::<Plan>();
    // SAFETY: a new mapping of that many bytes, aligned to a page, all zeroes, which is never
    // unmapped: first a plan, behind it a counter for each size.
    unsafe {
        let come = core::slice::from_raw_parts(plan.add(1).cast::<AtomicU32>(), table.sizes());
        let all = Tier::from_code(placement.all as u8);
        let slower = [placement.middle, placement.slow].map(|code| Tier::from_code(code as u8));
        plan.write(Plan { all, slower, follower: Follower::new(table, come) });
    }
    if !table.moves().is_empty() && !paging::begin(placement, table.moves()) {
        return false;
    }
    PLAN.store(plan, Ordering::Release);
    true
}

/// True if blocks of this size are any matter of the plan's.
pub fn concerns(bytes: usize) -> bool {
    bytes >= LEAST_BYTES as usize
}

fn plan() -> Option<&'static Plan> {
    // SAFETY: null, or the plan, which is never unmapped and made of atomics and what never changes.
    unsafe { PLAN.load(Ordering::Acquire).as_ref() }
}

/// The tiers that are slower than one, for blocks that have no room there, in the order in which they are
/// asked. If there are none, or no room in any, a block is left alone.
pub fn slower_than(tier: Tier) -> impl Iterator<Item = Tier> {
    let slower = plan().map_or([None; 2], |plan| plan.slower);
    let after = slower.iter().position(|slower| *slower == Some(tier)).map_or(0, |position| position + 1);
    slower.into_iter().skip(after).flatten()
}

/// What the plan has of a block that is about to be allocated.
pub fn next(bytes: usize) -> Option<Planned> {
    let plan = plan()?;
    if plan.all.is_some() {
        return Some(Planned { place: NO_PLACE, tier: plan.all });
    }
    let planned = plan.follower.next(bytes as u64);
    if plan.follower.has_departed() && !DEPARTED.swap(true, Ordering::Relaxed) {
        record::event(Kind::Placement, 0, 0, 0);
    }
    planned
}
