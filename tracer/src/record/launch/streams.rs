//! What memtrace itself was started with, which the command is to get too: an ignored SIGPIPE and
//! closed standard streams. The Rust runtime changes both before `main` is entered.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::signals::is_ignored;

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// One bit for each of stdin, stdout and stderr that memtrace was started without.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// What the command inherits.
#[derive(Debug, Clone, Copy)]
pub struct Inherited {
    /// SIGPIPE is ignored.
    pub ignores_sigpipe: bool,
    closed: u32,
}

impl Inherited {
    /// Descriptors of the standard streams that are closed.
    pub fn closed_streams(self) -> impl Iterator<Item = i32> {
        (0..3).filter(move |stream| self.closed & (1 << stream) != 0)
    }
}

/// What memtrace was started with.
pub fn inherited() -> Inherited {
    Inherited {
        ignores_sigpipe: SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed),
        closed: CLOSED.load(Ordering::Relaxed),
    }
}

/// Runs before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_BEGINNING: extern "C" fn() = {
    extern "C" fn note() {
        SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
        for stream in 0..3 {
            // SAFETY: F_GETFD changes nothing.
            let failed = unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0;
            if failed && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
                CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
            }
        }
    }
    note
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_a_closed_stream() {
        let inherited = Inherited { ignores_sigpipe: false, closed: 0b101 };
        assert_eq!(inherited.closed_streams().collect::<Vec<_>>(), [0, 2]);
    }
}
