//! Reading environments.

use core::ffi::{CStr, c_char};

use crate::next::Strings;

/// The environment the image was started with. The C library's own `environ` is not set yet when
/// the dynamic linker makes the first allocation; the kernel's copy above the initial stack pointer
/// (argc, argv, NULL, envp, NULL) is.
pub fn initial_environment() -> Option<Strings> {
    unsafe extern "C" {
        static __libc_stack_end: *const usize;
    }
    // SAFETY: glibc's ld.so stores the stack pointer at process entry there,
    // before anything else runs.
    unsafe {
        let stack = __libc_stack_end;
        if stack.is_null() { None } else { Some(stack.add(*stack + 2).cast()) }
    }
}

/// The value of a variable.
pub fn find(envp: Strings, name: &str) -> Option<&'static [u8]> {
    // SAFETY: an entry of an environment, which outlives the call.
    each(envp).find_map(|entry| unsafe { value(entry, name) })
}

/// `NAME=value`, NUL-terminated, as the image was started with it.
pub fn initial(name: &str) -> Option<*const c_char> {
    // SAFETY: an entry of the kernel's copy, which stays where it is.
    each(initial_environment()?).find(|entry| unsafe { value(*entry, name) }.is_some())
}

/// What follows `NAME=`, if that is how the entry begins.
///
/// # Safety
/// `entry` is a C string that outlives the use of its value.
pub unsafe fn value(entry: *const c_char, name: &str) -> Option<&'static [u8]> {
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Its variables.
pub fn each(envp: Strings) -> impl Iterator<Item = *const c_char> {
    let mut at = envp;
    core::iter::from_fn(move || {
        // SAFETY: NULL-terminated, as exec(3) demands; a null environment counts as an empty one,
        // as the kernel does.
        unsafe {
            if at.is_null() || (*at).is_null() {
                return None;
            }
            let entry = *at;
            at = at.add(1);
            Some(entry)
        }
    })
}
