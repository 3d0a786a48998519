//! Room for maps and programs where the kernel counts them as locked memory: before Linux 5.11.

use std::sync::Mutex;

use crate::{Error, release};

/// The limit is the process's, and programs are loaded by several threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Makes a call of bpf(2), and once more with a higher limit if it is refused for lack of room. The
/// limit is as it was when this returns: programs that are started later inherit it.
pub(crate) fn with_room(call: impl Fn() -> i64) -> Result<i64, Error> {
    let result = call();
    if result >= 0 || !was_not_permitted() || release::is_since(5, 11) {
        return Ok(result);
    }
    let _this = ONE_AT_A_TIME.lock();
    let Some(before) = limit() else { return Ok(result) };
    let highest = [libc::RLIM_INFINITY, before.rlim_max];
    let is_raised = highest.into_iter().any(|most| set(&libc::rlimit { rlim_cur: most, rlim_max: most }));
    let again = call();
    let is_short = again < 0 && was_not_permitted();
    if is_raised {
        set(&before);
    }
    if is_short { Err(Error::Locked(before.rlim_max / 1024)) } else { Ok(again) }
}

fn was_not_permitted() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to `limit`, which lives until the call returns.
    (unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0).then_some(limit)
}

fn set(limit: &libc::rlimit) -> bool {
    // SAFETY: the kernel reads `limit`, which lives until the call returns.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, limit) == 0 }
}
