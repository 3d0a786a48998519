//! mprotect(2) on address space that the program has reserved without access: what becomes writable
//! is memory from then on, until all access is taken away again.
//!
//! What lies elsewhere costs two comparisons: code that engines write and execute by turns, pages
//! that guard others. The tracer knows which parts are reservations.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use memtrace_wire::event::Kind;

use super::touched;
use crate::arch::entry::{Entry, entered};
use crate::next;
use crate::ring::record::acquire;
use crate::ring::sampling::is_exact;

/// Where the first reservation that there ever was begins, and where the last one ends.
static FIRST: AtomicUsize = AtomicUsize::new(usize::MAX);
static END: AtomicUsize = AtomicUsize::new(0);

entered! {
    /// mprotect(2)
    #[unsafe(no_mangle)]
    mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int => protect;
    /// pkey_mprotect(2)
    #[unsafe(no_mangle)]
    pkey_mprotect(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        key: c_int
    ) -> c_int => protect_by_key;
}

/// Notes a new mapping without access.
pub fn reserved(start: usize, length: usize) {
    FIRST.fetch_min(start, Ordering::Relaxed);
    END.fetch_max(start.saturating_add(length), Ordering::Relaxed);
}

/// Notes that mremap(2) has moved what may be a reservation.
pub fn moved(from: usize, to: usize, length: usize) {
    if is_near(from, 1) {
        reserved(to, length);
    }
}

/// True if a range may be of a reservation.
fn is_near(start: usize, length: usize) -> bool {
    start < END.load(Ordering::Relaxed) && start.saturating_add(length) > FIRST.load(Ordering::Relaxed)
}

unsafe extern "C" fn protect(address: *mut c_void, length: usize, protection: c_int, entry: Entry) -> c_int {
    change(address, length, protection, entry, || {
        // SAFETY: the program's call, passed on.
        unsafe { next::mprotect(address, length, protection) }
    })
}

unsafe extern "C" fn protect_by_key(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    key: c_int,
    entry: Entry,
) -> c_int {
    change(address, length, protection, entry, || {
        // SAFETY: the program's call, passed on.
        unsafe { next::pkey_mprotect(address, length, protection, key) }
    })
}

/// Records what `call` changes, if it may be of a reservation.
fn change(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    entry: Entry,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let (start, closes) = (address as usize, protection == libc::PROT_NONE);
    if !is_near(start, length) || !closes && protection & libc::PROT_WRITE == 0 {
        return call();
    }
    if closes {
        touched::report(start, length);
    }
    let result = call();
    if result == 0 {
        let stack = is_exact(length).then_some(entry);
        acquire(Kind::Protect, start, length, protection as u32 as u64, stack);
    }
    result
}
