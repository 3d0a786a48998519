//! The limit on open files (RLIMIT_NOFILE, setrlimit(2)): memtrace holds a descriptor for each
//! recorded process that runs, and the command has the limit that memtrace was started with.

/// The limit that memtrace was started with.
#[derive(Clone, Copy)]
pub struct Limit(libc::rlimit);

impl Limit {
    /// Raises memtrace's own as far as it may.
    pub fn raise() -> Limit {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both are valid.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) == 0 {
                let raised = libc::rlimit { rlim_cur: before.rlim_max, ..before };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raised);
            }
        }
        Limit(before)
    }

    /// In the child: restores it. Async-signal-safe.
    pub fn restore(self) {
        if self.0.rlim_max > 0 {
            // SAFETY: a valid limit.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.0) };
        }
    }
}
