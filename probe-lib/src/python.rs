//! Getting into a Python interpreter without variables, files or `sitecustomize`: once `Py_IsInitialized`
//! says so, a pending call is queued; the interpreter runs it in the main thread before it imports `site`
//! (CPython 3.8 to 3.13). What it runs is a text that the tracer put into the segment.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::next::look_up;
use crate::process::{Attached, text};
use crate::sys;

const ABSENT: u32 = 0;
const WAITING: u32 = 1;
const QUEUED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);
static IS_INITIALIZED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static ADD_PENDING_CALL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RUN_SIMPLE_STRING: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static TEXT: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Looks for a start so far. An interpreter starts within some ten thousand allocations; a program that is only
/// linked with one (gdb, Blender) may never start it.
static LOOKS: AtomicU32 = AtomicU32::new(0);
const LOOKS_OFTEN: u32 = 1 << 16;

fn waiting() -> bool {
    STATE.load(Ordering::Relaxed) == WAITING
}

/// True while an interpreter may start at any moment: the slow path should run often.
pub fn is_near() -> bool {
    waiting() && LOOKS.load(Ordering::Relaxed) < LOOKS_OFTEN
}

/// Looks for an interpreter among the libraries the program was linked with. Called together with the other
/// look-ups, because a failing `dlsym` allocates.
pub fn find() {
    let functions: [(&AtomicPtr<c_void>, &[u8]); 3] = [
        (&IS_INITIALIZED, b"Py_IsInitialized\0"),
        (&ADD_PENDING_CALL, b"Py_AddPendingCall\0"),
        (&RUN_SIMPLE_STRING, b"PyRun_SimpleString\0"),
    ];
    for (function, name) in functions {
        let found = look_up(libc::RTLD_DEFAULT, name);
        if found.is_null() {
            return;
        }
        function.store(found, Ordering::Relaxed);
    }
}

/// Waits for the interpreter to start, if there is one and the tracer has a text for it.
pub fn wait(attached: &Attached) {
    let wanted = attached.header().text_present.load(Ordering::Relaxed) != 0;
    if wanted && !RUN_SIMPLE_STRING.load(Ordering::Relaxed).is_null() {
        TEXT.store(text(attached).cast_mut().cast(), Ordering::Relaxed);
        STATE.store(WAITING, Ordering::Relaxed);
    }
}

/// Queues the pending call as soon as the interpreter has started. Only the main thread starts one.
pub fn poll() {
    if !waiting() {
        return;
    }
    LOOKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the pointers were found under these names; the C API documents these signatures, and that
    // both functions may be called without the GIL.
    unsafe {
        let is_initialized: unsafe extern "C" fn() -> c_int =
            transmute(IS_INITIALIZED.load(Ordering::Relaxed));
        if is_initialized() == 0 || sys::gettid() != sys::getpid() {
            return;
        }
        type Pending = unsafe extern "C" fn(*mut c_void) -> c_int;
        let add_pending_call: unsafe extern "C" fn(Pending, *mut c_void) -> c_int =
            transmute(ADD_PENDING_CALL.load(Ordering::Relaxed));
        if add_pending_call(run, null_mut()) == 0 {
            STATE.store(QUEUED, Ordering::Relaxed);
        }
    }
}

unsafe extern "C" fn run(_: *mut c_void) -> c_int {
    // SAFETY: called by the interpreter with the GIL held; the text is NUL-terminated and stays mapped.
    unsafe {
        let run_simple_string: unsafe extern "C" fn(*const c_char) -> c_int =
            transmute(RUN_SIMPLE_STRING.load(Ordering::Relaxed));
        run_simple_string(TEXT.load(Ordering::Relaxed));
    }
    0
}
