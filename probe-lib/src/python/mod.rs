//! Getting into a Python interpreter without variables, files or `sitecustomize`: as soon as
//! `Py_IsInitialized` says so, a pending call is queued; the interpreter runs it in the main
//! thread before it imports `site` (CPython 3.8 to 3.14). What it runs is a text that the
//! tracer put into the segment.

mod code;
mod end;
mod filter;
pub mod frames;
mod layout;

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

use memtrace_wire::event::{Kind, PYTHON_OWN_ALLOCATOR, PYTHON_PYPY};

use crate::connection::process;
use crate::next::look_up;
use crate::ring::{record, room};
use crate::sys;

const NEW: u32 = 0;
const WAITING: u32 = 1;
const QUEUED: u32 = 2;
/// There is no interpreter, or no text for it.
const ABSENT: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NEW);
static IS_INITIALIZED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static ADD_PENDING_CALL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RUN_SIMPLE_STRING: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static TEXT: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// How often the interpreter's start was checked. An interpreter starts within some ten thousand
/// allocations; a program that is only linked with one (gdb, Blender) may never start it.
static POLLS: AtomicU32 = AtomicU32::new(0);
const OFTEN: u32 = 1 << 16;

/// What is known of an interpreter that cannot be started in: one of the `PYTHON_` constants.
static UNREADABLE: AtomicU32 = AtomicU32::new(0);

/// Nothing can be looked up, because the executable defines `malloc` itself.
pub fn cannot_find() {
    UNREADABLE.store(PYTHON_OWN_ALLOCATOR as u32, Ordering::Relaxed);
}

/// Looks up an interpreter among the libraries the program was linked with. Called together with
/// the other look-ups, because a failing `dlsym` allocates.
pub fn find() {
    end::find();
    if !look_up(libc::RTLD_DEFAULT, b"pypy_main_startup\0").is_null() {
        UNREADABLE.store(PYTHON_PYPY as u32, Ordering::Relaxed);
        return;
    }
    find_all(&[
        (&IS_INITIALIZED, b"Py_IsInitialized\0"),
        (&ADD_PENDING_CALL, b"Py_AddPendingCall\0"),
        (&RUN_SIMPLE_STRING, b"PyRun_SimpleString\0"),
    ]);
}

/// Looks up symbols of the interpreter, up to the first that it does not have; true if it has all.
fn find_all(symbols: &[(&AtomicPtr<c_void>, &[u8])]) -> bool {
    symbols.iter().all(|(symbol, name)| {
        let found = look_up(libc::RTLD_DEFAULT, name);
        if !found.is_null() {
            symbol.store(found, Ordering::Relaxed);
        }
        !found.is_null()
    })
}

/// Tells the tracer of an interpreter that cannot be started in.
pub fn tell_unreadable() {
    let reason = UNREADABLE.load(Ordering::Relaxed);
    if reason != 0 {
        record::event(Kind::Python, reason as usize, 0, 0);
    }
}

/// Queues the pending call as soon as the interpreter has started, if there is one and the tracer
/// has a text for it. Only the main thread starts one.
pub fn poll() {
    if STATE.load(Ordering::Relaxed) == NEW {
        begin();
    }
    if STATE.load(Ordering::Relaxed) != WAITING {
        return;
    }
    if POLLS.fetch_add(1, Ordering::Relaxed) + 1 == OFTEN {
        room::run_often(false);
    }
    // SAFETY: the pointers were found under these names; the C API documents these signatures, and
    // that both functions may be called without the GIL.
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
            STATE.store(QUEUED, Ordering::SeqCst);
            room::run_often(false);
        }
    }
}

fn begin() {
    let has_interpreter = !RUN_SIMPLE_STRING.load(Ordering::Relaxed).is_null();
    let text = if has_interpreter { process::text() } else { None };
    if let Some(text) = text {
        TEXT.store(text.cast_mut(), Ordering::Relaxed);
    }
    let next = if text.is_some() { WAITING } else { ABSENT };
    if STATE.compare_exchange(NEW, next, Ordering::Release, Ordering::Relaxed).is_ok() {
        room::run_often(next == WAITING);
        // Another thread may have queued the text meanwhile, and have had it run seldom before that.
        fence(Ordering::SeqCst);
        if STATE.load(Ordering::Relaxed) == QUEUED {
            room::run_often(false);
        }
    }
}

/// The first version that the text is written for.
const OLDEST: u32 = 3 << 8 | 8;

unsafe extern "C" fn run(_: *mut c_void) -> c_int {
    let found = frames::interpreter();
    record::event(Kind::Python, found.reading as usize, found.version as usize, 0);
    if found.version < OLDEST {
        return 0;
    }
    // SAFETY: called by the interpreter with the GIL held; the text is
    // NUL-terminated and stays mapped.
    unsafe {
        end::mark_at_exit();
        let run_simple_string: unsafe extern "C" fn(*const c_char) -> c_int =
            transmute(RUN_SIMPLE_STRING.load(Ordering::Relaxed));
        run_simple_string(TEXT.load(Ordering::Relaxed));
    }
    0
}
