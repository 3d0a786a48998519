//! Requests a garbage collection of a thread that waits in its slot for such a request.

use std::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::layout::{COLLECT_REQUESTED, COLLECT_WAITING};

use super::futex;

/// Requests one of the thread that waits on this word; false if it does not wait.
pub fn request(word: &AtomicU32) -> bool {
    let waits =
        word.compare_exchange(COLLECT_WAITING, COLLECT_REQUESTED, Ordering::AcqRel, Ordering::Relaxed);
    if waits.is_ok() {
        futex::wake(word);
    }
    waits.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_waits_is_requested_to_collect() {
        let word = AtomicU32::new(COLLECT_WAITING);
        assert!(request(&word));
        assert_eq!(word.load(Ordering::Relaxed), COLLECT_REQUESTED);
        assert!(!request(&word));
    }
}
