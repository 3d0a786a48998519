//! Signals that reach memtrace while the command runs.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::signals::{handle, is_ignored};

/// The command's pid; [`UNKNOWN`] while it is being started, [`GONE`] once it was waited for.
static CHILD: AtomicI32 = AtomicI32::new(UNKNOWN);
const UNKNOWN: i32 = 0;
const GONE: i32 = -1;

/// The word that the drain sleeps on.
static SLEEPING: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Signals that are sent to memtrace only and are meant for the command.
const PASSED_ON: [Signal; 4] = [Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2];

/// Which of them came before the child's pid was known: the child may be running already.
static EARLY: [AtomicBool; PASSED_ON.len()] = [const { AtomicBool::new(false) }; PASSED_ON.len()];

/// The last signal that requested the end of the command, and so of memtrace; 0 if none did.
static REQUESTED_END: AtomicI32 = AtomicI32::new(0);

/// The signal that requested an end, if one did since memtrace was started.
pub fn interrupted() -> Option<i32> {
    Some(REQUESTED_END.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// A terminal sends SIGINT and SIGQUIT to the command as well; what is sent to memtrace only is
/// passed on to it. memtrace itself goes on until the command has ended; a file size limit
/// (SIGXFSZ) is an error of writing. A signal that memtrace was started to ignore stays ignored,
/// for the command too (nohup(1)).
pub fn install_handlers(sleeping: &'static AtomicU32) {
    CHILD.store(UNKNOWN, Ordering::SeqCst);
    SLEEPING.store((&raw const *sleeping).cast_mut(), Ordering::Relaxed);
    let handled = [libc::SIGINT, libc::SIGQUIT, libc::SIGCHLD, libc::SIGXFSZ];
    for signal in handled.into_iter().chain(PASSED_ON.map(Signal::as_raw)) {
        if signal == libc::SIGCHLD || !is_ignored(signal) {
            // SAFETY: the handler only makes async-signal-safe calls and touches atomics.
            unsafe { handle(signal, on_signal) };
        }
    }
}

/// The command runs under this pid: it gets its signals, those that came early first.
pub fn forward_to(pid: i32) {
    CHILD.store(pid, Ordering::SeqCst);
    for (signal, early) in PASSED_ON.iter().zip(&EARLY) {
        if early.swap(false, Ordering::SeqCst) {
            send(pid, *signal);
        }
    }
}

/// Sends a signal to the command, which has not been waited for. Only a system call (kill(2)), so a
/// handler may call it.
fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The command has ended and was waited for: its pid may become another process's.
pub fn forward_to_none() {
    CHILD.store(GONE, Ordering::SeqCst);
}

extern "C" fn on_signal(signal: libc::c_int) {
    if [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP].contains(&signal) {
        REQUESTED_END.store(signal, Ordering::SeqCst);
    }
    if let Some(index) = PASSED_ON.iter().position(|passed_on| passed_on.as_raw() == signal) {
        let child = CHILD.load(Ordering::SeqCst);
        if child == UNKNOWN {
            EARLY[index].store(true, Ordering::SeqCst);
        } else if child != GONE {
            send(child, PASSED_ON[index]);
        }
    }
    // Keeps the drain from going to sleep after it has checked for the child's end.
    // SAFETY: the word lives as long as the recording, which is as long as the handlers are
    // installed.
    if let Some(sleeping) = unsafe { SLEEPING.load(Ordering::Relaxed).as_ref() } {
        sleeping.store(0, Ordering::Relaxed);
    }
}
