//! The allocator behind `malloc`, if that is not the C library's: whether a
//! mapping call comes from it.
//!
//! jemalloc, mimalloc and tcmalloc, preloaded or linked, map their arenas through the same
//! `mmap` as the program. Their blocks are recorded by themselves, so their arenas must not
//! count as live memory again.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::next;

static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static FOUND_NONE: AtomicBool = AtomicBool::new(false);

/// Notes where its module lies. False if there is none.
pub fn find() -> bool {
    // tcmalloc has an `mmap` of its own; no allocator replaces this function
    // (gnu_get_libc_version(3)).
    let library = base(next::look_up(libc::RTLD_NEXT, b"gnu_get_libc_version\0") as usize);
    let allocator = base(next::malloc_address());
    if allocator == 0 || allocator == library {
        FOUND_NONE.store(allocator != 0, Ordering::Relaxed);
        return false;
    }
    // SAFETY: the base of a loaded module.
    END.store(allocator + unsafe { length(allocator) }, Ordering::Relaxed);
    START.store(allocator, Ordering::Relaxed);
    true
}

/// True if it was looked for and is none: `malloc` is the C library's.
pub fn is_the_c_library() -> bool {
    FOUND_NONE.load(Ordering::Relaxed)
}

/// True if this address lies in the allocator's module.
pub fn owns(caller: usize) -> bool {
    (START.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&caller)
}

/// Base of the module that contains the address, 0 if none does.
fn base(address: usize) -> usize {
    // SAFETY: dladdr(3) takes any address; all zeroes is a valid Dl_info.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const _, &mut info) == 0 { 0 } else { info.dli_fbase as usize }
    }
}

/// Bytes from the base to the end of the last loaded segment (elf(5)).
unsafe fn length(base: usize) -> usize {
    // SAFETY: the caller passes a loaded module, which begins with its ELF header.
    unsafe {
        let header = &*(base as *const libc::Elf64_Ehdr);
        let table = (base + header.e_phoff as usize) as *const libc::Elf64_Phdr;
        let mut length = 0;
        for index in 0..usize::from(header.e_phnum) {
            let segment = &*table.add(index);
            if segment.p_type == libc::PT_LOAD {
                length = length.max((segment.p_vaddr + segment.p_memsz) as usize);
            }
        }
        length
    }
}
