//! A profile function for CPython 3.8 to 3.11 that passes few calls on to Python code: the
//! recorder's text (`python/memtrace/_recorder/profiler.py`) looks it up by name. Calls and returns
//! of functions whose name is not watched cost a few reads; the rest goes to the recorder's own
//! function. Everything here runs with the GIL held. Offsets: Include/cpython/{code,frameobject}.h
//! of those four versions, which change no more.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// CPython's `Py_tracefunc`: profile object, frame, what happened, its argument.
type TraceFunction = unsafe extern "C" fn(*mut c_void, *const u8, c_int, *mut c_void) -> c_int;

const CALL: c_int = 0;
const RETURN: c_int = 3;
/// `PyASCIIObject.state`: the characters follow the header, one byte each.
const COMPACT_ASCII: u32 = 0x60;

static ON_MATCH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static NAMES: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static NAMES_BYTES: AtomicUsize = AtomicUsize::new(0);
/// From a frame (the interpreter's own from 3.11) to the pointer to it; 0: it is that frame.
static INNER_FRAME: AtomicUsize = AtomicUsize::new(0);
static CODE_NAME: AtomicUsize = AtomicUsize::new(0);

/// Where a frame holds its code object, in all four versions.
const FRAME_CODE: usize = 32;

/// Watches `names` (each ends in NUL; they stay where they are) for CPython 3.`minor`; the
/// address of the profile function that calls `on_match` for them, null for a version
/// whose layout is not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_python_filter(
    minor: c_int,
    names: *const c_char,
    bytes: usize,
    on_match: *mut c_void,
) -> *const c_void {
    let (inner_frame, code_name) = match minor {
        8..=10 => (0, 112),
        11 => (24, 120),
        _ => return null(),
    };
    if names.is_null() || on_match.is_null() {
        return null();
    }
    INNER_FRAME.store(inner_frame, Ordering::Relaxed);
    CODE_NAME.store(code_name, Ordering::Relaxed);
    NAMES.store(names.cast_mut().cast(), Ordering::Relaxed);
    NAMES_BYTES.store(bytes, Ordering::Relaxed);
    ON_MATCH.store(on_match, Ordering::Relaxed);
    profile as *const c_void
}

unsafe extern "C" fn profile(
    object: *mut c_void,
    frame: *const u8,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    if what != CALL && what != RETURN {
        return 0;
    }
    // SAFETY: the interpreter passes a live frame; the offsets are those of its version. `ON_MATCH`
    // is the recorder's Py_tracefunc, which lives for ever, and so do the names.
    unsafe {
        let inner = INNER_FRAME.load(Ordering::Relaxed);
        let frame_of_code = if inner == 0 { frame } else { pointer_at(frame, inner) };
        let name = pointer_at(pointer_at(frame_of_code, FRAME_CODE), CODE_NAME.load(Ordering::Relaxed));
        let names =
            core::slice::from_raw_parts(NAMES.load(Ordering::Relaxed), NAMES_BYTES.load(Ordering::Relaxed));
        if !watched(name, names) {
            return 0;
        }
        let on_match: TraceFunction = transmute(ON_MATCH.load(Ordering::Relaxed));
        // It leaves no exception behind: one of a signal handler that gets out of it before it can
        // be caught is printed, and what it returns then is not set (CPython's
        // Modules/_ctypes/callbacks.c).
        on_match(object, frame, what, argument);
    }
    0
}

unsafe fn pointer_at(base: *const u8, offset: usize) -> *const u8 {
    // SAFETY: the caller knows that a pointer lies there.
    unsafe { base.add(offset).cast::<*const u8>().read() }
}

/// Whether a Python string is one of `names`; true, for Python to decide,
/// where it is not plain ASCII.
unsafe fn watched(name: *const u8, names: &[u8]) -> bool {
    // SAFETY: a `PyUnicodeObject`: length at 16, state at 32, and for compact
    // ASCII the characters at 48.
    let name = unsafe {
        if name.add(32).cast::<u32>().read() & COMPACT_ASCII != COMPACT_ASCII {
            return true;
        }
        core::slice::from_raw_parts(name.add(48), name.add(16).cast::<usize>().read())
    };
    names.split(|byte| *byte == 0).any(|watched| watched == name && !name.is_empty())
}
