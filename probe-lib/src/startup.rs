//! The wiring of the probe: what is looked up at the program's first call, and which functions the
//! connection calls.

use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::jump::jump;
use crate::connection::hooks::{self, Hooks};
use crate::intercept::{operators, touched};
use crate::next::Definitions;
use crate::ring::record;
use crate::stack::modules;
use crate::{allocator, next, placement, python, stack};

static HOOKS: Hooks = Hooks {
    placed: placement::begin,
    recorded: python::poll,
    forked: touched::forked,
    forget_stacks: stack::forget,
};

static STARTED: AtomicBool = AtomicBool::new(false);

// The symbol by which `next`, below everything else, calls `first_call`; it is not exported.
global_asm!(
    ".pushsection .text.memtrace_startup,\"ax\",@progbits",
    ".hidden memtrace_startup",
    ".globl memtrace_startup",
    ".type memtrace_startup,@function",
    "memtrace_startup:",
    ".cfi_startproc",
    jump!(),
    ".cfi_endproc",
    ".size memtrace_startup, . - memtrace_startup",
    ".popsection",
    sym first_call,
);

/// The program calls a function of the probe for the first time: finds the next definitions. False
/// inside that look-up.
///
/// First all look-ups, then all pointers: whatever `dlsym` allocates meanwhile comes from the pool
/// of [`next`], and its release, at any later time, is ignored. It allocates when a name is not
/// found (for the text of its error); from an allocator in the program itself, which may be what
/// called us, under its lock. So in such a program nothing is looked up that may not be there.
extern "C" fn first_call() -> bool {
    if STARTED.swap(true, Ordering::AcqRel) {
        return false;
    }
    let careful = next::has_own_allocator();
    let definitions = Definitions::find(careful);
    if careful {
        python::cannot_find();
    } else {
        python::find();
        operators::find();
        python::frames::find();
        modules::find_linker();
    }
    // Before any wrapper is live: what `allocator::find` allocates may connect.
    hooks::set(&HOOKS);
    definitions.install();
    if allocator::find() {
        operators::decide();
    }
    true
}

/// Connects before the program begins, so that one that never allocates is known too.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        // Connecting needs to know whether there is an interpreter, which
        // is among what is looked up.
        next::find_now();
        record::begin();
        python::tell_unreadable();
    }
    at_start
};
