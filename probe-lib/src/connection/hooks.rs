//! What the rooms above have to do when something happens to the process:
//! [`startup`](crate::startup) says so at the program's first call.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use memtrace_wire::placement::Placement;

use crate::tls::Thread;

/// One function for each.
pub struct Hooks {
    /// The image is recorded, and large blocks of it are to be placed; with the table's words.
    pub placed: fn(&Placement, &'static [u64]),
    /// The slow path runs in a process that is recorded.
    pub recorded: fn(),
    /// The process has noticed that it is a forked child.
    pub forked: fn(),
    /// The call stacks that the thread has described are not valid any more.
    pub forget_stacks: fn(&mut Thread),
}

static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(null_mut());

/// Sets them.
pub fn set(hooks: &'static Hooks) {
    HOOKS.store(core::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

fn hooks() -> Option<&'static Hooks> {
    // SAFETY: null, or what was set.
    unsafe { HOOKS.load(Ordering::Acquire).as_ref() }
}

/// See [`Hooks::placed`].
pub fn placed(placement: &Placement, table: &'static [u64]) {
    if let Some(hooks) = hooks() {
        (hooks.placed)(placement, table);
    }
}

/// See [`Hooks::recorded`].
pub fn recorded() {
    if let Some(hooks) = hooks() {
        (hooks.recorded)();
    }
}

/// See [`Hooks::forked`].
pub fn forked() {
    if let Some(hooks) = hooks() {
        (hooks.forked)();
    }
}

/// See [`Hooks::forget_stacks`].
pub fn forget_stacks(thread: &mut Thread) {
    if let Some(hooks) = hooks() {
        (hooks.forget_stacks)(thread);
    }
}
