//! The mapping functions the program calls. glibc's own mappings (arenas, large blocks, thread stacks)
//! never come here; those of another allocator do, and are told apart by who calls.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};

use memtrace_wire::event::{ARENA, BREAK, FAILED, Kind};

use crate::record::event;
use crate::{allocator, next, stack, touched};

/// mmap(2). Passes its own return address on: stable Rust cannot ask for it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap() -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push qword ptr [rsp]",
        ".cfi_adjust_cfa_offset 8",
        "call {map}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        map = sym map,
    )
}

/// mmap64, the same function where `off_t` has 64 bits.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64() -> *mut c_void {
    naked_asm!("jmp {mmap}", mmap = sym mmap)
}

unsafe extern "C" fn map(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
    caller: usize,
) -> *mut c_void {
    // MAP_FIXED replaces what was there: a release of it, which begins before the call.
    let replaces = flags & libc::MAP_FIXED != 0;
    if replaces {
        touched::report(address as usize, length);
        event(Kind::MapBegin, address as usize, length, 0);
    }
    // SAFETY: the program's call, passed on.
    let mapped = unsafe { next::mmap(address, length, protection, flags, descriptor, offset) };
    let extra = map_extra(protection, flags, caller);
    if mapped != libc::MAP_FAILED {
        touched::mapped(if flags & libc::MAP_ANONYMOUS != 0 { length } else { 0 });
        stack::of(mapped as usize, length);
        event(Kind::MapEnd, mapped as usize, length, extra);
    } else if replaces {
        event(Kind::MapEnd, address as usize, FAILED as usize, extra);
    }
    mapped
}

fn map_extra(protection: c_int, flags: c_int, caller: usize) -> u64 {
    let arena = if allocator::owns(caller) { ARENA } else { 0 };
    arena | (protection as u32 as u64) << 32 | flags as u32 as u64
}

/// munmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    release(address as usize, length, || {
        // SAFETY: the program's call, passed on.
        let result = unsafe { next::munmap(address, length) };
        (result, result == 0)
    })
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
    touched::report(address as usize, length);
    // MREMAP_FIXED unmaps what lies at the new address; should the call fail, it may be gone all the same.
    let replaces = flags & libc::MREMAP_FIXED != 0;
    if replaces {
        touched::report(new_address as usize, new_length);
    }
    event(Kind::RemapBegin, address as usize, length, new_length as u64);
    // SAFETY: the program's call, passed on.
    let moved = unsafe { next::mremap(address, length, new_length, flags, new_address) };
    let outcome = if moved == libc::MAP_FAILED { FAILED as usize } else { new_length };
    if moved != libc::MAP_FAILED {
        touched::mapped(new_length);
        stack::of(moved as usize, new_length);
    }
    event(Kind::RemapEnd, moved as usize, outcome, flags as u32 as u64);
    moved
}

/// madvise(2). What it takes away was in memory until now: resident bytes change, live bytes do not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    const MADV_DONTNEED_LOCKED: c_int = 24;
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE | MADV_DONTNEED_LOCKED) {
        touched::report(address as usize, length);
    }
    // SAFETY: the program's call, passed on.
    unsafe { next::madvise(address, length, advice) }
}

/// sbrk(2). glibc's own `malloc` moves the break by an internal name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk() -> *mut c_void {
    naked_asm!("mov rsi, qword ptr [rsp]", "jmp {moved}", moved = sym break_moved_by)
}

unsafe extern "C" fn break_moved_by(increment: isize, caller: usize) -> *mut c_void {
    if increment >= 0 {
        // SAFETY: the program's call, passed on.
        let start = unsafe { next::sbrk(increment) };
        if increment > 0 && start != libc::MAP_FAILED {
            break_grew(start as usize, increment as usize, caller);
        }
        return start;
    }
    // SAFETY: asks where the break is.
    let end = unsafe { next::sbrk(0) } as usize;
    let length = increment.unsigned_abs();
    release(end.wrapping_sub(length), length, || {
        // SAFETY: the program's call, passed on.
        let old = unsafe { next::sbrk(increment) };
        (old, old != libc::MAP_FAILED)
    })
}

/// brk(2).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk() -> c_int {
    naked_asm!("mov rsi, qword ptr [rsp]", "jmp {moved}", moved = sym break_moved_to)
}

unsafe extern "C" fn break_moved_to(address: *mut c_void, caller: usize) -> c_int {
    // SAFETY: asks where the break is.
    let before = unsafe { next::sbrk(0) } as usize;
    let after = address as usize;
    if after >= before {
        // SAFETY: the program's call, passed on.
        let result = unsafe { next::brk(address) };
        if result == 0 && after > before {
            break_grew(before, after - before, caller);
        }
        return result;
    }
    release(after, before - after, || {
        // SAFETY: the program's call, passed on.
        let result = unsafe { next::brk(address) };
        (result, result == 0)
    })
}

fn break_grew(start: usize, length: usize, caller: usize) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    touched::mapped(length);
    stack::of(start, length);
    event(Kind::MapEnd, start, length, BREAK | map_extra(protection, flags, caller));
}

/// shmat(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    const SHM_REMAP: c_int = 0o40000;
    // SAFETY: all zeroes is a valid shmid_ds; on failure it stays so.
    let length = unsafe {
        let mut about: libc::shmid_ds = core::mem::zeroed();
        let errno = *libc::__errno_location();
        libc::shmctl(id, libc::IPC_STAT, &mut about);
        *libc::__errno_location() = errno;
        about.shm_segsz
    };
    let replaces = flags & SHM_REMAP != 0;
    if replaces {
        event(Kind::MapBegin, address as usize, length, 0);
    }
    // SAFETY: the program's call, passed on.
    let attached = unsafe { next::shmat(id, address, flags) };
    let fixed = if replaces { libc::MAP_FIXED } else { 0 };
    let extra = (libc::PROT_READ as u64) << 32 | (libc::MAP_SHARED | libc::MAP_ANONYMOUS | fixed) as u64;
    if attached != libc::MAP_FAILED {
        touched::mapped(length);
        stack::of(attached as usize, length);
        event(Kind::MapEnd, attached as usize, length, extra);
    } else if replaces {
        event(Kind::MapEnd, address as usize, FAILED as usize, extra);
    }
    attached
}

/// shmdt(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    event(Kind::UnmapBegin, address as usize, 0, 0);
    // SAFETY: the program's call, passed on.
    let result = unsafe { next::shmdt(address) };
    event(Kind::UnmapEnd, address as usize, if result == 0 { 0 } else { FAILED as usize }, 0);
    result
}

/// Records what `call` releases, from before it to after it.
fn release<R>(start: usize, length: usize, call: impl FnOnce() -> (R, bool)) -> R {
    touched::report(start, length);
    event(Kind::UnmapBegin, start, length, 0);
    let (result, done) = call();
    event(Kind::UnmapEnd, start, if done { length } else { FAILED as usize }, 0);
    result
}
