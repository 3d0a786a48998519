//! The end of `__main__`: a function of the probe that the interpreter calls at exit. It is
//! registered with `atexit` before the program can register anything, so it runs after all that
//! the program itself has requested for its end, and before the interpreter frees what is left.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use memtrace_wire::event::Kind;

use super::find_all;
use crate::connection::process;
use crate::ring::record;

/// Python's `PyMethodDef`.
#[repr(C)]
struct Method {
    name: *const c_char,
    function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
    flags: c_int,
    documentation: *const c_char,
}

// SAFETY: nothing in it changes.
unsafe impl Sync for Method {}

/// METH_NOARGS: called with itself and a null pointer.
const NO_ARGUMENTS: c_int = 4;

static METHOD: Method = Method {
    name: c"memtrace_main_ended".as_ptr(),
    function: called,
    flags: NO_ARGUMENTS,
    documentation: null(),
};

static NEW_FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static IMPORT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CALL_METHOD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static BUILD_VALUE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static DROP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CLEAR_ERROR: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks up what registering takes. Called together with the other look-ups.
pub fn find() {
    find_all(&[
        (&NEW_FUNCTION, b"PyCFunction_NewEx\0"),
        (&IMPORT, b"PyImport_ImportModule\0"),
        (&CALL_METHOD, b"PyObject_CallMethod\0"),
        (&BUILD_VALUE, b"Py_BuildValue\0"),
        (&DROP, b"Py_DecRef\0"),
        (&CLEAR_ERROR, b"PyErr_Clear\0"),
    ]);
}

/// Registers the mark. Call it with the GIL held. Where it cannot be had, the process's own end
/// counts.
pub fn mark_at_exit() {
    // The last one to be looked up: the others are there too.
    if CLEAR_ERROR.load(Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: the C API documents these signatures; `Py_DecRef` ignores a null pointer, and the
    // method lives for ever.
    unsafe {
        let new_function: unsafe extern "C" fn(*const Method, *mut c_void, *mut c_void) -> *mut c_void =
            transmute(NEW_FUNCTION.load(Ordering::Relaxed));
        let import: unsafe extern "C" fn(*const c_char) -> *mut c_void =
            transmute(IMPORT.load(Ordering::Relaxed));
        let call_method: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, ...) -> *mut c_void =
            transmute(CALL_METHOD.load(Ordering::Relaxed));
        let drop: unsafe extern "C" fn(*mut c_void) = transmute(DROP.load(Ordering::Relaxed));
        let clear_error: unsafe extern "C" fn() = transmute(CLEAR_ERROR.load(Ordering::Relaxed));
        let (module, function) =
            (import(c"atexit".as_ptr()), new_function(&raw const METHOD, null_mut(), null_mut()));
        if !module.is_null() && !function.is_null() {
            drop(call_method(module, c"register".as_ptr(), c"O".as_ptr(), function));
        }
        drop(function);
        drop(module);
        clear_error();
    }
}

unsafe extern "C" fn called(_: *mut c_void, _: *mut c_void) -> *mut c_void {
    if process::is_recorded() {
        record::event(Kind::MainEnded, 0, 0, 0);
    }
    // SAFETY: the C API's own function; an empty format makes None.
    unsafe {
        let build_value: unsafe extern "C" fn(*const c_char, ...) -> *mut c_void =
            transmute(BUILD_VALUE.load(Ordering::Relaxed));
        build_value(c"".as_ptr())
    }
}
