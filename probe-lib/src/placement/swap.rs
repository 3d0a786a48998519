//! Pages that go to swap and come back.

use memtrace_wire::placement::moves::Action;

use crate::sys::syscall;

/// Moves a range of a block. Returns the errno of a refusal, or 0.
pub fn moved(action: Action, start: usize, length: usize) -> i32 {
    match action {
        Action::Out => send(start, length),
        Action::In | Action::Trim => bring_back(start, length),
    }
}

/// Sends a range to swap. Returns the errno of a refusal, or 0.
pub fn send(start: usize, length: usize) -> i32 {
    advise(start, length, libc::MADV_PAGEOUT)
}

/// Reads ahead into the swap cache first: pages that come from there need not be written again if they
/// are only read until they go the next time. To the kernel, pages that were brought back count as
/// used, all of them: where these are most, it finds none to take, and ends the program for want of
/// memory. So they are set back (MADV_COLD).
fn bring_back(start: usize, length: usize) -> i32 {
    let all = [libc::MADV_WILLNEED, libc::MADV_POPULATE_READ, libc::MADV_COLD];
    all.into_iter().map(|advice| advise(start, length, advice)).find(|errno| *errno != 0).unwrap_or(0)
}

/// Returns the errno of a refusal, or 0.
fn advise(start: usize, length: usize, advice: i32) -> i32 {
    // SAFETY: advice that leaves what pages have in them as it is.
    let result = unsafe { syscall(libc::SYS_madvise, [start, length, advice as usize, 0, 0, 0]) };
    if result < 0 { -result as i32 } else { 0 }
}
