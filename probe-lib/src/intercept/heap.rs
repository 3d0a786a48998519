//! The heap functions the program calls. A release is recorded before the real call and an
//! acquire after it, so that a block's recorded life lies inside its real one and two blocks at
//! one address never overlap.

use core::ffi::{c_int, c_void};

use memtrace_wire::event::{FAILED, Kind};

use crate::arch::entry::{Entry, entered};
use crate::ring::hot::{self, acquired};
use crate::ring::record::{acquire, event};
use crate::ring::{refused, sampling};
use crate::{allocator, next, tls};

entered! {
    /// malloc(3)
    #[unsafe(no_mangle)]
    malloc(bytes: usize) -> *mut c_void => malloc_from;
    /// calloc(3)
    #[unsafe(no_mangle)]
    calloc(count: usize, bytes: usize) -> *mut c_void => calloc_from;
    /// realloc(3)
    #[unsafe(no_mangle)]
    realloc(block: *mut c_void, bytes: usize) -> *mut c_void => realloc_from;
    /// reallocarray(3)
    #[unsafe(no_mangle)]
    reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void => reallocarray_from;
    /// memalign(3)
    #[unsafe(no_mangle)]
    memalign(alignment: usize, bytes: usize) -> *mut c_void => memalign_from;
    /// aligned_alloc(3)
    #[unsafe(no_mangle)]
    aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void => aligned_alloc_from;
    /// posix_memalign(3)
    #[unsafe(no_mangle)]
    posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int => posix_memalign_from;
    /// valloc(3)
    #[unsafe(no_mangle)]
    valloc(bytes: usize) -> *mut c_void => valloc_from;
    /// pvalloc(3)
    #[unsafe(no_mangle)]
    pvalloc(bytes: usize) -> *mut c_void => pvalloc_from;
}

pub unsafe extern "C" fn malloc_from(bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Malloc, unsafe { next::malloc(bytes) }, bytes, entry)
}

unsafe extern "C" fn calloc_from(count: usize, bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    let block = unsafe { next::calloc(count, bytes) };
    // Where it succeeded, the product did not overflow.
    let all = if block.is_null() { count.saturating_mul(bytes) } else { count.wrapping_mul(bytes) };
    acquired(Kind::Calloc, block, all, entry)
}

/// free(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { next::free(block) }
    }
}

/// free_sized(3), C23; `free` where the C library does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize) {
    if releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { next::free_sized(block, bytes) }
    }
}

/// free_aligned_sized(3), C23; `free` where the C library does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, alignment: usize, bytes: usize) {
    if releases(block) {
        // SAFETY: the program's call, passed on.
        unsafe { next::free_aligned_sized(block, alignment, bytes) }
    }
}

/// malloc_usable_size(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the program's call, passed on.
    next::pool_bytes(block).unwrap_or_else(|| unsafe { next::malloc_usable_size(block) })
}

unsafe extern "C" fn realloc_from(block: *mut c_void, bytes: usize, entry: Entry) -> *mut c_void {
    if block.is_null() {
        // SAFETY: the program's call, passed on.
        return acquired(Kind::ReallocNew, unsafe { next::realloc(block, bytes) }, bytes, entry);
    }
    if let Some(old) = next::pool_bytes(block) {
        // SAFETY: the pool block has `old` bytes, the new one `bytes`.
        unsafe {
            let moved = malloc_from(bytes, entry);
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), old.min(bytes));
            }
            return moved;
        }
    }
    event(Kind::ReallocBegin, block as usize, 0, 0);
    // SAFETY: the program's call, passed on.
    let moved = unsafe { next::realloc(block, bytes) };
    if moved.is_null() {
        // glibc's realloc(p, 0) frees and returns NULL; any other NULL is a failure
        // that leaves the block live.
        event(Kind::ReallocEnd, 0, if bytes > 0 { FAILED as usize } else { 0 }, 0);
        if bytes > 0 {
            refused::report(bytes, entry);
        }
    } else {
        // SAFETY: the thread's own state.
        let wants = unsafe { sampling::wants(&mut *tls::thread(), bytes) };
        acquire(Kind::ReallocEnd, moved as usize, bytes, 0, wants.then_some(entry));
    }
    moved
}

unsafe extern "C" fn reallocarray_from(
    block: *mut c_void,
    count: usize,
    bytes: usize,
    entry: Entry,
) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return core::ptr::null_mut();
    };
    // SAFETY: the program's call, passed on.
    unsafe { realloc_from(block, total, entry) }
}

pub unsafe extern "C" fn memalign_from(alignment: usize, bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::memalign(alignment, bytes) }, bytes, entry)
}

unsafe extern "C" fn aligned_alloc_from(alignment: usize, bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    let block = unsafe { next::aligned_alloc(alignment, bytes) };
    // jemalloc's own `operator new` with an alignment comes here, and what that
    // returns is recorded there.
    if allocator::owns(entry.address()) { block } else { acquired(Kind::Aligned, block, bytes, entry) }
}

unsafe extern "C" fn posix_memalign_from(
    out: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
    entry: Entry,
) -> c_int {
    // SAFETY: the program's call, passed on; on success it has stored the block.
    unsafe {
        let result = next::posix_memalign(out, alignment, bytes);
        match result {
            0 => _ = acquired(Kind::Aligned, *out, bytes, entry),
            errno => refused::report_by(errno, bytes, entry),
        }
        result
    }
}

unsafe extern "C" fn valloc_from(bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::valloc(bytes) }, bytes, entry)
}

unsafe extern "C" fn pvalloc_from(bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::pvalloc(bytes) }, bytes, entry)
}

/// Records a release, unless `operator delete` has done so. False for what is not to be released:
/// nothing, and blocks of the pool.
#[inline(always)]
fn releases(block: *mut c_void) -> bool {
    if block.is_null() || next::is_of_pool(block) {
        return false;
    }
    if !is_releasing(block) {
        hot::releases(block as usize);
    }
    true
}

/// Notes the block that an `operator delete` of the allocator is releasing, recorded already; null:
/// it has done so.
pub fn set_releasing(block: *mut c_void) {
    // SAFETY: the thread's own state; one word.
    unsafe { (*tls::thread()).releasing = block as usize };
}

/// True if an `operator delete` is releasing this block: jemalloc's call `free`.
#[inline(always)]
fn is_releasing(block: *mut c_void) -> bool {
    // SAFETY: as above.
    unsafe { (*tls::thread()).releasing == block as usize }
}
