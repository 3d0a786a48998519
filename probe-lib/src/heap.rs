//! The heap functions the program calls. A release is recorded before the real call and an acquire after
//! it, so that a block's recorded life lies inside its real one and two blocks at one address never overlap.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};

use memtrace_wire::event::{FAILED, Kind};

use crate::hot::{self, acquired};
use crate::record::event;
use crate::{allocator, next, operators, stack};

/// malloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Malloc, unsafe { next::malloc(bytes) }, bytes)
}

/// calloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    let block = unsafe { next::calloc(count, bytes) };
    // It succeeded, so the product did not overflow.
    acquired(Kind::Calloc, block, count.wrapping_mul(bytes))
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

/// realloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: the program's call, passed on.
        return acquired(Kind::ReallocNew, unsafe { next::realloc(block, bytes) }, bytes);
    }
    if let Some(old) = next::pool_bytes(block) {
        // SAFETY: the pool block has `old` bytes, the new one `bytes`.
        unsafe {
            let moved = malloc(bytes);
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), old.min(bytes));
            }
            return moved;
        }
    }
    event(Kind::ReallocBegin, block as usize, 0, 0);
    // SAFETY: the program's call, passed on.
    let moved = unsafe { next::realloc(block, bytes) };
    // glibc's realloc(p, 0) frees and returns NULL; any other NULL is a failure that leaves the block live.
    let outcome = if moved.is_null() && bytes > 0 { FAILED as usize } else { bytes };
    if !moved.is_null() {
        stack::of(moved as usize, bytes);
    }
    event(Kind::ReallocEnd, moved as usize, outcome, 0);
    moved
}

/// reallocarray(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return core::ptr::null_mut();
    };
    // SAFETY: the program's call, passed on.
    unsafe { realloc(block, total) }
}

/// memalign(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::memalign(alignment, bytes) }, bytes)
}

/// aligned_alloc(3). Passes its own return address on: stable Rust cannot ask for it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc() -> *mut c_void {
    naked_asm!("mov rdx, qword ptr [rsp]", "jmp {aligned}", aligned = sym aligned_alloc_for)
}

unsafe extern "C" fn aligned_alloc_for(alignment: usize, bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    let block = unsafe { next::aligned_alloc(alignment, bytes) };
    // jemalloc's own `operator new` with an alignment comes here, and what that returns is recorded there.
    if allocator::owns(caller) { block } else { acquired(Kind::Aligned, block, bytes) }
}

/// posix_memalign(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    // SAFETY: the program's call, passed on; on success it has stored the block.
    unsafe {
        let result = next::posix_memalign(out, alignment, bytes);
        if result == 0 {
            acquired(Kind::Aligned, *out, bytes);
        }
        result
    }
}

/// valloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::valloc(bytes) }, bytes)
}

/// pvalloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    acquired(Kind::Aligned, unsafe { next::pvalloc(bytes) }, bytes)
}

/// Records a release, unless `operator delete` has done so. False for what is not to be released: nothing, and
/// blocks of the pool.
#[inline(always)]
fn releases(block: *mut c_void) -> bool {
    if block.is_null() || next::is_of_pool(block) {
        return false;
    }
    if !operators::is_releasing(block) {
        hot::releases(block as usize);
    }
    true
}
