//! Threads work for the span in which they are started: `pthread_create` passes it to them.
//!
//! Nothing is wrapped unless a span runs. What the new thread needs waits for it in a fixed pool;
//! it adopts the span and jumps on to its function, so no frame of ours lies on its stack.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::spans;
use super::start::Start;
use crate::arch::jump::jump_after;
use crate::next::look_up;

type Create = unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *mut c_void) -> c_int;

static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// pthread_create(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next() else { return libc::EAGAIN };
    let token = spans::export();
    if token == 0 {
        // SAFETY: the program's call, passed on.
        return unsafe { next(thread, attributes, start, argument) };
    }
    let Some(waiting) = POOL.iter().find(|waiting| !waiting.used.swap(true, Ordering::Acquire)) else {
        // SAFETY: as above. The thread is in no span.
        return unsafe { next(thread, attributes, start, argument) };
    };
    waiting.start.store(start, Ordering::Relaxed);
    waiting.argument.store(argument, Ordering::Relaxed);
    waiting.token.store(token, Ordering::Relaxed);
    let place = core::ptr::from_ref(waiting).cast_mut().cast();
    // SAFETY: `begun` gets the program's function and argument from the pool and goes on with them.
    let result = unsafe { next(thread, attributes, begun as *mut c_void, place) };
    if result != 0 {
        waiting.used.store(false, Ordering::Release);
    }
    result
}

/// The next definition; with a C library before glibc 2.34 it is in a library of
/// its own, which may come late.
fn next() -> Option<Create> {
    let mut found = NEXT.load(Ordering::Relaxed);
    if found.is_null() {
        found = look_up(libc::RTLD_NEXT, b"pthread_create\0");
        if found.is_null() {
            // SAFETY: only finds a library that is loaded already; it stays loaded from now on.
            let library =
                unsafe { libc::dlopen(c"libpthread.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if library.is_null() {
                return None;
            }
            found = look_up(library, b"pthread_create\0");
        }
        NEXT.store(found, Ordering::Relaxed);
    }
    // SAFETY: the definition of that name has this signature (function pointers
    // are passed on as they are).
    (!found.is_null()).then(|| unsafe { transmute::<*mut c_void, Create>(found) })
}

/// What a thread that is being created will run.
struct Waiting {
    used: AtomicBool,
    start: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
    token: AtomicU64,
}

/// Threads that are being created at one time; more of them are in no span.
static POOL: [Waiting; 64] = [const {
    Waiting {
        used: AtomicBool::new(false),
        start: AtomicPtr::new(null_mut()),
        argument: AtomicPtr::new(null_mut()),
        token: AtomicU64::new(0),
    }
}; 64];

// Where a new thread begins: adopts the span that waits for it and jumps on.
jump_after!(begun, adopt);

extern "C" fn adopt(waiting: &Waiting) -> Start {
    let start = Start {
        function: waiting.start.load(Ordering::Relaxed),
        argument: waiting.argument.load(Ordering::Relaxed),
    };
    let token = waiting.token.load(Ordering::Relaxed);
    waiting.used.store(false, Ordering::Release);
    spans::adopt(token, true);
    start
}
