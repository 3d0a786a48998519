//! Which tier the next block gets.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::placement::{Follower, LEAST_BYTES, Placement, Table, Tier};

use crate::ring::record;
use crate::sys;

struct Plan {
    /// Without a table: where all blocks go.
    all: Option<Tier>,
    follower: Follower<'static>,
}

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
        plan.write(Plan { all, follower: Follower::new(table, come) });
    }
    PLAN.store(plan, Ordering::Release);
    true
}

/// The tier of a block that is about to be allocated; `None` if it is left alone.
pub fn next(bytes: usize) -> Option<Tier> {
    if bytes < LEAST_BYTES as usize {
        return None;
    }
    // SAFETY: null, or the plan, which is never unmapped and made of atomics and what never changes.
    let plan = unsafe { PLAN.load(Ordering::Acquire).as_ref() }?;
    if plan.all.is_some() {
        return plan.all;
    }
    let tier = plan.follower.next(bytes as u64);
    if plan.follower.has_departed() && !DEPARTED.swap(true, Ordering::Relaxed) {
        record::event(Kind::Placement, 0, 0, 0);
    }
    tier
}
