//! Functions in front of the next definitions: large blocks that the plan names get a mapping of
//! their own, all other calls are passed on.

use core::ffi::{c_int, c_void};
use core::ptr::{copy_nonoverlapping, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::placement::{Done, Tier};

use super::mapping::{self, Mapping};
use super::{budget, own, paging, plan, retained, tier, watch};
use crate::connection::process;
use crate::next::pointers;
use crate::ring::record;
use crate::{sandbox, sys};

macro_rules! fronted {
    ($($name:ident: fn($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// Puts them there, those that release before those that allocate.
        pub fn put_before() {
            $(
                behind::$name.store(pointers::$name.load(Ordering::Relaxed), Ordering::Relaxed);
                pointers::$name.store($name as *mut c_void, Ordering::Release);
            )*
        }

        /// What was there.
        #[allow(non_upper_case_globals)]
        mod behind {
            use super::*;
            $(pub static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());)*
        }

        mod passed_on {
            use super::*;
            $(
                #[inline(always)]
                pub unsafe fn $name($($argument: $type),*) -> $result {
                    // SAFETY: the next definition, which has this signature; the caller's call.
                    unsafe {
                        let function: unsafe extern "C" fn($($type),*) -> $result =
                            core::mem::transmute(behind::$name.load(Ordering::Relaxed));
                        function($($argument),*)
                    }
                }
            )*
        }
    };
}

fronted! {
    free: fn(block: *mut c_void) -> ();
    free_sized: fn(block: *mut c_void, bytes: usize) -> ();
    free_aligned_sized: fn(block: *mut c_void, alignment: usize, bytes: usize) -> ();
    realloc: fn(block: *mut c_void, bytes: usize) -> *mut c_void;
    malloc_usable_size: fn(block: *mut c_void) -> usize;
    madvise: fn(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    malloc: fn(bytes: usize) -> *mut c_void;
    calloc: fn(count: usize, bytes: usize) -> *mut c_void;
    memalign: fn(alignment: usize, bytes: usize) -> *mut c_void;
    aligned_alloc: fn(alignment: usize, bytes: usize) -> *mut c_void;
    posix_memalign: fn(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int;
}

/// A block for the program, where the plan has a tier for it; whether it is all zeroes. What is
/// refused before the plan is asked was refused when the program was learned, too.
fn placed(alignment: usize, bytes: usize) -> Option<(*mut c_void, bool)> {
    let is_possible = alignment.is_power_of_two() && alignment <= tier::HUGE_PAGE;
    // A filter might end the program for a system call.
    if !is_possible || own::is_full() || sandbox::is_filtered() || process::is_forked_copy() {
        return None;
    }
    if !plan::concerns(bytes) {
        return None;
    }
    watch::look();
    let planned = plan::next(bytes)?;
    paging::before(planned.place);
    let wanted = planned.tier?;
    let mark = if planned.place == plan::NO_PLACE { watch::looks() } else { paging::slot_of(planned.place) };
    let of = |tier| memory(tier, alignment, bytes);
    let (mapping, errno, is_zero) = of(wanted).or_else(|| plan::slower_than(wanted).find_map(of))?;
    let inserted = errno == 0 && own::insert(&mapping, mark);
    if inserted || errno != 0 {
        let done = Done { tier: Some(mapping.tier), action: None, errno, micros: 0 };
        record::event(Kind::Placement, mapping.start, bytes, done.encode());
    }
    if !inserted {
        mapping.release();
        return None;
    }
    paging::allocated(mark, &mapping);
    watch::allocated(mark);
    Some((mapping.start as *mut c_void, is_zero))
}

/// Memory of a tier for a block, the errno of what the kernel refused, or 0, and whether it is all
/// zeroes.
fn memory(tier: Tier, alignment: usize, bytes: usize) -> Option<(Mapping, i32, bool)> {
    let alignment = tier::alignment(tier, bytes)?.max(alignment);
    let length = mapping::length(bytes)?;
    if let Some(mapping) = retained::take(length, tier, alignment) {
        return Some((mapping, 0, false));
    }
    let (mapping, errno) = fresh(length, tier, alignment)?;
    Some((mapping, errno, true))
}

/// A new mapping, as long as its tier has bytes for it.
fn fresh(length: usize, tier: Tier, alignment: usize) -> Option<(Mapping, i32)> {
    let share = budget::share(tier, length);
    if !retained::make_room(tier, share) {
        return None;
    }
    let created = Mapping::create(length, tier, alignment);
    if created.is_none() {
        budget::give_back(tier, share);
    }
    created
}

/// Releases a block that has a mapping of its own; false for any other.
fn releases(block: *mut c_void) -> bool {
    let Some(mark) = own::mark(block as usize) else { return false };
    watch::look_before_release(mark, block as usize);
    let Some(mapping) = own::take(block as usize) else { return false };
    if paging::released(mark, mapping.start) {
        mapping.release();
    } else {
        retained::put(mapping);
    }
    true
}

unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match placed(1, bytes) {
        Some((block, _)) => block,
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::malloc(bytes) },
    }
}

unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let all = count.checked_mul(bytes);
    match all.and_then(|all| placed(1, all)) {
        Some((block, is_zero)) => {
            if !is_zero {
                // SAFETY: the block has that many bytes.
                unsafe { block.cast::<u8>().write_bytes(0, all.unwrap_or(0)) };
            }
            block
        }
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::calloc(count, bytes) },
    }
}

unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    match placed(alignment, bytes) {
        Some((block, _)) => block,
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::memalign(alignment, bytes) },
    }
}

unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    match placed(alignment, bytes) {
        Some((block, _)) => block,
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::aligned_alloc(alignment, bytes) },
    }
}

unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    let is_valid = alignment.is_power_of_two() && alignment.is_multiple_of(size_of::<usize>());
    match is_valid.then(|| placed(alignment, bytes)).flatten() {
        Some((block, _)) => {
            // SAFETY: as posix_memalign(3) demands of the caller.
            unsafe { out.write(block) };
            0
        }
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::posix_memalign(out, alignment, bytes) },
    }
}

/// What `realloc` makes is left alone.
unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(mapping) = own::get(block as usize) else {
        // SAFETY: the program's call, passed on.
        return unsafe { passed_on::realloc(block, bytes) };
    };
    if bytes == 0 {
        releases(block);
        return null_mut();
    }
    // SAFETY: a block of the C library's; on failure the old one stays.
    unsafe {
        let moved = passed_on::malloc(bytes);
        if !moved.is_null() {
            copy_nonoverlapping(block.cast::<u8>(), moved.cast(), mapping.length.min(bytes));
            releases(block);
        }
        moved
    }
}

unsafe extern "C" fn free(block: *mut c_void) {
    if !releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { passed_on::free(block) }
    }
}

unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize) {
    if !releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { passed_on::free_sized(block, bytes) }
    }
}

unsafe extern "C" fn free_aligned_sized(block: *mut c_void, alignment: usize, bytes: usize) {
    if !releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { passed_on::free_aligned_sized(block, alignment, bytes) }
    }
}

unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    match own::get(block as usize) {
        Some(mapping) => mapping.length,
        // SAFETY: the program's call, passed on.
        None => unsafe { passed_on::malloc_usable_size(block) },
    }
}

/// The plan decides on huge pages of the blocks that it names. NumPy requests them for large arrays,
/// from the first whole page behind a block's beginning on.
unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    let of_pages = matches!(advice, libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE);
    let begins = address as usize;
    let is_decided = |at| own::get(at).is_some_and(|mapping| mapping.tier != Tier::Dram);
    if of_pages && (is_decided(begins) || is_decided(begins.wrapping_sub(sys::page()))) {
        return 0;
    }
    // SAFETY: the program's call, passed on.
    unsafe { passed_on::madvise(address, length, advice) }
}
