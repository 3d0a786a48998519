//! The mapping functions the program calls. glibc's own mappings (arenas, large blocks, thread
//! stacks) never come here; those of another allocator do, and are recognised by their caller.

use core::ffi::{c_int, c_void};

use memtrace_wire::event::{ARENA, BREAK, FAILED, Kind};

use super::{protect, shared, touched};
use crate::arch::entry::{Entry, entered};
use crate::ring::record::{acquire, event};
use crate::ring::refused;
use crate::ring::sampling::is_exact;
use crate::{allocator, next};

entered! {
    /// mmap(2)
    #[unsafe(no_mangle)]
    mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64
    ) -> *mut c_void => map;
    /// mmap64, the same function where `off_t` has 64 bits.
    #[unsafe(no_mangle)]
    mmap64(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64
    ) -> *mut c_void => map;
    /// mremap(2). Variadic in C; an argument that was not passed is just a register with anything in
    /// it, which the kernel reads under MREMAP_FIXED and MREMAP_DONTUNMAP only.
    #[unsafe(no_mangle)]
    mremap(
        address: *mut c_void,
        length: usize,
        new_length: usize,
        flags: c_int,
        new_address: *mut c_void
    ) -> *mut c_void => remap;
}

entered! {
    /// sbrk(2). glibc's own `malloc` moves the break by an internal name.
    #[unsafe(no_mangle)]
    sbrk(increment: isize) -> *mut c_void => break_moved_by;
    /// brk(2)
    #[unsafe(no_mangle)]
    brk(address: *mut c_void) -> c_int => break_moved_to;
    /// shmat(2)
    #[unsafe(no_mangle)]
    shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void => attach;
}

unsafe extern "C" fn map(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
    entry: Entry,
) -> *mut c_void {
    // MAP_FIXED replaces what was there: a release, which begins before the call.
    let replaces = flags & libc::MAP_FIXED != 0;
    if replaces {
        touched::report(address as usize, length);
        event(Kind::MapBegin, address as usize, length, 0);
    }
    // SAFETY: the program's call, passed on.
    let mapped = unsafe { next::mmap(address, length, protection, flags, descriptor, offset) };
    let extra = map_extra(protection, flags, entry);
    if mapped != libc::MAP_FAILED {
        if protection == libc::PROT_NONE {
            protect::reserved(mapped as usize, length);
        }
        let is_own = flags & libc::MAP_ANONYMOUS != 0
            || writes_to_copies(protection, flags)
            || flags & libc::MAP_SHARED != 0 && shared::file(descriptor, offset);
        touched::mapped(if is_own { length } else { 0 });
        acquired(Kind::MapEnd, mapped, length, extra, entry);
        return mapped;
    }
    if replaces {
        event(Kind::MapEnd, address as usize, FAILED as usize, extra);
    }
    refused::report(length, entry);
    mapped
}

/// True where a mapping of a file has pages of its own as soon as they are written to.
fn writes_to_copies(protection: c_int, flags: c_int) -> bool {
    flags & libc::MAP_TYPE == libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0
}

/// Records a mapping; large ones with their call stack.
fn acquired(kind: Kind, start: *mut c_void, length: usize, extra: u64, entry: Entry) {
    acquire(kind, start as usize, length, extra, is_exact(length).then_some(entry));
}

fn map_extra(protection: c_int, flags: c_int, entry: Entry) -> u64 {
    let arena = if allocator::owns(entry.address()) { ARENA } else { 0 };
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

unsafe extern "C" fn remap(
    address: *mut c_void,
    length: usize,
    new_length: usize,
    flags: c_int,
    new_address: *mut c_void,
    entry: Entry,
) -> *mut c_void {
    touched::report(address as usize, length);
    // MREMAP_FIXED unmaps what lies at the new address; should the call fail,
    // it may be gone all the same.
    let replaces = flags & libc::MREMAP_FIXED != 0;
    if replaces {
        touched::report(new_address as usize, new_length);
    }
    event(Kind::RemapBegin, address as usize, length, new_length as u64);
    // SAFETY: the program's call, passed on.
    let moved = unsafe { next::mremap(address, length, new_length, flags, new_address) };
    let extra = flags as u32 as u64;
    if moved == libc::MAP_FAILED {
        event(Kind::RemapEnd, moved as usize, FAILED as usize, extra);
        // In place it also fails where the next addresses are taken: that is no lack of memory.
        if flags & libc::MREMAP_MAYMOVE != 0 {
            refused::report(new_length, entry);
        }
    } else {
        protect::moved(address as usize, moved as usize, new_length);
        touched::mapped(new_length);
        acquired(Kind::RemapEnd, moved, new_length, extra, entry);
    }
    moved
}

/// madvise(2). What it drops was in memory until now: resident bytes change, live bytes do not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    const MADV_DONTNEED_LOCKED: c_int = 24;
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE | MADV_DONTNEED_LOCKED) {
        touched::report(address as usize, length);
    }
    // SAFETY: the program's call, passed on.
    unsafe { next::madvise(address, length, advice) }
}

unsafe extern "C" fn break_moved_by(increment: isize, entry: Entry) -> *mut c_void {
    if increment >= 0 {
        // SAFETY: the program's call, passed on.
        let start = unsafe { next::sbrk(increment) };
        if start == libc::MAP_FAILED {
            refused::report(increment as usize, entry);
        } else if increment > 0 {
            break_grew(start, increment as usize, entry);
        }
        return start;
    }
    // SAFETY: only reads where the break is.
    let end = unsafe { next::sbrk(0) } as usize;
    let length = increment.unsigned_abs();
    release(end.wrapping_sub(length), length, || {
        // SAFETY: the program's call, passed on.
        let old = unsafe { next::sbrk(increment) };
        (old, old != libc::MAP_FAILED)
    })
}

unsafe extern "C" fn break_moved_to(address: *mut c_void, entry: Entry) -> c_int {
    // SAFETY: only reads where the break is.
    let before = unsafe { next::sbrk(0) } as usize;
    let after = address as usize;
    if after >= before {
        // SAFETY: the program's call, passed on.
        let result = unsafe { next::brk(address) };
        if result == 0 && after > before {
            break_grew(before as *mut c_void, after - before, entry);
        }
        return result;
    }
    release(after, before - after, || {
        // SAFETY: the program's call, passed on.
        let result = unsafe { next::brk(address) };
        (result, result == 0)
    })
}

fn break_grew(start: *mut c_void, length: usize, entry: Entry) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    touched::mapped(length);
    acquired(Kind::MapEnd, start, length, BREAK | map_extra(protection, flags, entry), entry);
}

unsafe extern "C" fn attach(id: c_int, address: *const c_void, flags: c_int, entry: Entry) -> *mut c_void {
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
        shared::segment(id);
        acquired(Kind::MapEnd, attached, length, extra, entry);
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
