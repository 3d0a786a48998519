//! A profile function for CPython 3.8 to 3.11 that passes few calls on to Python code: the
//! recorder's text (`python/memtrace/_recorder/profiler.py`) looks it up by name. Calls and returns
//! of functions whose name is not watched cost a few reads; the rest goes to the recorder's own
//! functions. What a signal handler of the program raises in them goes on in the program.
//! Everything here runs with the GIL held. Offsets: Include/cpython/{code,frameobject}.h of those
//! four versions, which change no more.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::find_all;

const CALL: c_int = 0;
const RETURN: c_int = 3;
/// `PyASCIIObject.state`: the characters follow the header, one byte each.
const COMPACT_ASCII: u32 = 0x60;

/// The recorder's functions: (frame), and (frame, result if there is one).
static ENTERED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RETURNED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static NAMES: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static NAMES_BYTES: AtomicUsize = AtomicUsize::new(0);
/// From a frame (the interpreter's own from 3.11) to the pointer to it; 0: it is that frame.
static INNER_FRAME: AtomicUsize = AtomicUsize::new(0);
static CODE_NAME: AtomicUsize = AtomicUsize::new(0);
/// From the state of a thread to the depth of its stack; 0 where it is not needed.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Calls of Python and of C that the recorder makes inside each other, at most.
const ROOM: c_int = 50;

/// Where a frame holds its code object, in all four versions.
const FRAME_CODE: usize = 32;

/// Functions of CPython's stable interface, and its `RecursionError`.
static CALL_FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static LIMIT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static THREAD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RELEASE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static MATCHES: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static FETCH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RESTORE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static RECURSION_ERROR: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Watches `names` (each ends in NUL) for CPython 3.`minor`: the address of the profile function
/// that calls `entered` and `returned` for them; null for a version whose layout is not known. All
/// that is passed lives for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_python_filter(
    minor: c_int,
    names: *const c_char,
    bytes: usize,
    entered: *mut c_void,
    returned: *mut c_void,
) -> *const c_void {
    let (inner_frame, code_name) = match minor {
        8..=10 => (0, 112),
        11 => (24, 120),
        _ => return null(),
    };
    if names.is_null() || entered.is_null() || returned.is_null() || !find() {
        return null();
    }
    INNER_FRAME.store(inner_frame, Ordering::Relaxed);
    CODE_NAME.store(code_name, Ordering::Relaxed);
    NAMES.store(names.cast_mut().cast(), Ordering::Relaxed);
    NAMES_BYTES.store(bytes, Ordering::Relaxed);
    ENTERED.store(entered, Ordering::Relaxed);
    RETURNED.store(returned, Ordering::Relaxed);
    DEPTH.store(if minor == 8 { 32 } else { 0 }, Ordering::Relaxed);
    profile as *const c_void
}

/// Whether the interpreter has all that is called here.
fn find() -> bool {
    find_all(&[
        (&CALL_FUNCTION, b"PyObject_CallFunctionObjArgs\0"),
        (&LIMIT, b"Py_GetRecursionLimit\0"),
        (&THREAD, b"PyThreadState_Get\0"),
        (&RELEASE, b"Py_DecRef\0"),
        (&MATCHES, b"PyErr_ExceptionMatches\0"),
        (&FETCH, b"PyErr_Fetch\0"),
        (&RESTORE, b"PyErr_Restore\0"),
        (&RECURSION_ERROR, b"PyExc_RecursionError\0"),
    ])
}

unsafe extern "C" fn profile(
    _object: *mut c_void,
    frame: *const u8,
    what: c_int,
    result: *mut c_void,
) -> c_int {
    if what != CALL && what != RETURN {
        return 0;
    }
    // SAFETY: the interpreter passes a live frame; the offsets are those of its version, and the
    // names live for ever.
    unsafe {
        let inner = INNER_FRAME.load(Ordering::Relaxed);
        let frame_of_code = if inner == 0 { frame } else { pointer_at(frame, inner) };
        let name = pointer_at(pointer_at(frame_of_code, FRAME_CODE), CODE_NAME.load(Ordering::Relaxed));
        let names =
            core::slice::from_raw_parts(NAMES.load(Ordering::Relaxed), NAMES_BYTES.load(Ordering::Relaxed));
        if !watched(name, names) {
            return 0;
        }
        let frame = frame.cast_mut().cast();
        if what == CALL { report(&ENTERED, frame, null_mut()) } else { report(&RETURNED, frame, result) }
    }
}

/// Calls a function of the recorder. -1 if the program goes on with an exception.
unsafe fn report(function: &AtomicPtr<c_void>, frame: *mut c_void, result: *mut c_void) -> c_int {
    type Parts = unsafe extern "C" fn(*mut *mut c_void, *mut *mut c_void, *mut *mut c_void);
    // SAFETY: the interpreter's own functions, with the types that its documentation has; the
    // objects are the recorder's, which live for ever, and those that the interpreter passes here.
    unsafe {
        if !has_room() || call(function.load(Ordering::Relaxed), frame, result) {
            return 0;
        }
        let matches: unsafe extern "C" fn(*mut c_void) -> c_int = transmute(MATCHES.load(Ordering::Relaxed));
        let fetch: Parts = transmute(FETCH.load(Ordering::Relaxed));
        let restore: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) =
            transmute(RESTORE.load(Ordering::Relaxed));
        if matches(RECURSION_ERROR.load(Ordering::Relaxed).cast::<*mut c_void>().read()) != 0 {
            restore(null_mut(), null_mut(), null_mut()); // of the recorder, which needs some stack
            return 0;
        }
        let (mut kind, mut value, mut traceback) = (null_mut(), null_mut(), null_mut());
        fetch(&raw mut kind, &raw mut value, &raw mut traceback);
        // The span ends here, if it has begun: what is raised on a call has no return up to 3.10.
        if !call(RETURNED.load(Ordering::Relaxed), frame, null_mut()) {
            restore(null_mut(), null_mut(), null_mut());
        }
        restore(kind, value, traceback);
        -1
    }
}

/// Whether the recorder can run without a RecursionError: 3.8 aborts when a program recurses further
/// after a function has caught one of its limit.
unsafe fn has_room() -> bool {
    let depth = DEPTH.load(Ordering::Relaxed);
    if depth == 0 {
        return true;
    }
    // SAFETY: as in `report`; the offset is of the state of that version's threads.
    unsafe {
        let limit: unsafe extern "C" fn() -> c_int = transmute(LIMIT.load(Ordering::Relaxed));
        let thread: unsafe extern "C" fn() -> *const u8 = transmute(THREAD.load(Ordering::Relaxed));
        thread().add(depth).cast::<c_int>().read().saturating_add(ROOM) < limit()
    }
}

/// Calls a Python function with arguments, up to the first that is null; false if it raises.
unsafe fn call(function: *mut c_void, first: *mut c_void, second: *mut c_void) -> bool {
    // SAFETY: as in `report`; the arguments end with a null pointer.
    unsafe {
        let call: unsafe extern "C" fn(*mut c_void, ...) -> *mut c_void =
            transmute(CALL_FUNCTION.load(Ordering::Relaxed));
        release(call(function, first, second, null_mut::<c_void>()))
    }
}

/// Gives back what the interpreter has returned; false if that is nothing, but an exception.
unsafe fn release(object: *mut c_void) -> bool {
    if !object.is_null() {
        // SAFETY: as in `report`; the reference is the caller's.
        unsafe {
            let release: unsafe extern "C" fn(*mut c_void) = transmute(RELEASE.load(Ordering::Relaxed));
            release(object);
        }
    }
    !object.is_null()
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
