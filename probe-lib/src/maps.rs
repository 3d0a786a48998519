//! The mapping functions the program calls. glibc's own mappings (arenas, large blocks, thread stacks)
//! never come here.

use core::ffi::{c_int, c_void};

use memtrace_wire::event::{FAILED, Kind};

use crate::next;
use crate::record::event;
use crate::stack;

/// mmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    // MAP_FIXED replaces what was there: a release of it, which begins before the call.
    let replaces = flags & libc::MAP_FIXED != 0;
    if replaces {
        event(Kind::MapBegin, address as usize, length, 0);
    }
    // SAFETY: the program's call, passed on.
    let mapped = unsafe { next::mmap(address, length, protection, flags, descriptor, offset) };
    let extra = (protection as u32 as u64) << 32 | flags as u32 as u64;
    if mapped != libc::MAP_FAILED {
        stack::of(mapped as usize, length);
        event(Kind::MapEnd, mapped as usize, length, extra);
    } else if replaces {
        event(Kind::MapEnd, address as usize, FAILED as usize, extra);
    }
    mapped
}

/// mmap64, the same function where `off_t` has 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the program's call, passed on.
    unsafe { mmap(address, length, protection, flags, descriptor, offset) }
}

/// munmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    event(Kind::UnmapBegin, address as usize, length, 0);
    // SAFETY: the program's call, passed on.
    let result = unsafe { next::munmap(address, length) };
    event(Kind::UnmapEnd, address as usize, if result == 0 { length } else { FAILED as usize }, 0);
    result
}

/// mremap(2). Variadic in C; on x86-64 an argument that was not passed is just a register with anything in
/// it, which the kernel looks at under MREMAP_FIXED and MREMAP_DONTUNMAP only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    length: usize,
    new_length: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    event(Kind::RemapBegin, address as usize, length, new_length as u64);
    // SAFETY: the program's call, passed on.
    let moved = unsafe { next::mremap(address, length, new_length, flags, new_address) };
    let outcome = if moved == libc::MAP_FAILED { FAILED as usize } else { new_length };
    if moved != libc::MAP_FAILED {
        stack::of(moved as usize, new_length);
    }
    event(Kind::RemapEnd, moved as usize, outcome, flags as u32 as u64);
    moved
}
