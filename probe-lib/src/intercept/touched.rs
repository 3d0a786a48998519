//! How much of a large mapping is in memory, reported before a call that unmaps it: afterwards it
//! cannot be measured.
//!
//! The tracer samples mappings now and then (/proc/PID/pagemap); this is
//! for what happens in between.

use core::sync::atomic::{AtomicUsize, Ordering};

use memtrace_wire::event::Kind;

use crate::connection::process;
use crate::ring::record::event;
use crate::{sandbox, sys};

/// The tracer counts mappings up to this size as touched as a whole, so they are not measured.
const SMALL: usize = 1 << 20;
/// Larger ones are reservations of address space; walking them would stall the program.
const LARGEST: usize = 16 << 30;
const PAGES_AT_ONCE: usize = 4096;

/// Bytes of large mappings the process ever made.
static LARGE_MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Notes a new mapping.
pub fn mapped(length: usize) {
    if length > SMALL {
        LARGE_MAPPED.fetch_add(length, Ordering::Relaxed);
    }
}

/// A forked child has mapped nothing yet.
pub fn forked() {
    LARGE_MAPPED.store(0, Ordering::Relaxed);
}

/// True if the process may have mappings whose touched part only a sample can say.
pub fn is_unknown() -> bool {
    LARGE_MAPPED.load(Ordering::Relaxed) > 0
}

/// Records how much of the range is in memory, if it is large and mapped throughout.
pub fn report(start: usize, length: usize) {
    let measurable = length > SMALL && length <= LARGEST && start.is_multiple_of(sys::page());
    if !measurable || !process::is_recorded() || sandbox::is_filtered() {
        return;
    }
    if let Some(bytes) = measure(start, length.next_multiple_of(sys::page())) {
        event(Kind::Touched, start, length, bytes as u64);
    }
}

/// mincore(2): one byte per page, its lowest bit set for pages in memory; fails
/// where something is unmapped.
fn measure(start: usize, length: usize) -> Option<usize> {
    let mut pages = [0u8; PAGES_AT_ONCE];
    let mut present = 0;
    let mut at = 0;
    while at < length {
        let part = (length - at).min(PAGES_AT_ONCE * sys::page());
        let mut tries = 3;
        loop {
            let arguments = [start + at, part, pages.as_mut_ptr() as usize, 0, 0, 0];
            // SAFETY: queries addresses, mapped or not; `pages` has a byte for each page of the part.
            let result = unsafe { sys::syscall(libc::SYS_mincore, arguments) };
            if result == 0 {
                break;
            }
            tries -= 1;
            // The kernel may be out of memory for the moment.
            if result != -(libc::EAGAIN as isize) || tries == 0 {
                return None;
            }
        }
        present += pages.iter().take(part / sys::page()).filter(|page| **page & 1 != 0).count();
        at += part;
    }
    Some(present * sys::page())
}
