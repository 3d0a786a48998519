//! Flushing what processors know of the process's page tables: the kernel does so for the whole process
//! where the access to more than 33 pages that are present is taken away (x86:
//! `tlb_single_page_flush_ceiling`).

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::sys::{self, syscall};

const PAGES: usize = 64;

static MEMORY: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Makes room for it; false if there is none.
pub fn begin() -> bool {
    let memory = sys::map_memory(PAGES * sys::page());
    if let Some(memory) = memory {
        MEMORY.store(memory, Ordering::Release);
        touch(memory);
    }
    memory.is_some()
}

/// Flushes them.
pub fn translations() {
    let memory = MEMORY.load(Ordering::Acquire);
    if !memory.is_null()
        && protect(memory, libc::PROT_READ)
        && protect(memory, libc::PROT_READ | libc::PROT_WRITE)
    {
        touch(memory);
    }
}

/// Makes all pages present, and to be written.
fn touch(memory: *mut u8) {
    for page in 0..PAGES {
        // SAFETY: within the mapping, which can be written.
        unsafe { memory.add(page * sys::page()).write_volatile(1) };
    }
}

fn protect(memory: *mut u8, protection: i32) -> bool {
    // SAFETY: of a mapping of our own.
    unsafe {
        syscall(libc::SYS_mprotect, [memory as usize, PAGES * sys::page(), protection as usize, 0, 0, 0]) == 0
    }
}
