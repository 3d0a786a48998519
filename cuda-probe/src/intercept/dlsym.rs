//! The dynamic linker's look-up, `dlsym`, which answers with the functions of this library in place
//! of the driver's.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

use super::call;
use super::calls::CALLS;
use crate::arch::look_up::look_up_code;
use crate::driver::errno::keeping_errno;
use crate::driver::{self, linker};

/// How a look-up is answered: two registers.
#[repr(C)]
struct Answer {
    /// False: the address is that of the next `dlsym`, which answers.
    is_known: bool,
    address: *mut c_void,
}

impl Answer {
    fn known(address: *mut c_void) -> Answer {
        Answer { is_known: true, address }
    }

    fn of_next() -> Answer {
        Answer { is_known: false, address: linker::find_next() }
    }
}

/// dlsym(3). What it does depends on who calls it (`RTLD_NEXT`), so the next definition is jumped
/// to, with the program's own return address, for all names but the driver's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    look_up_code!(linker::NEXT, answer)
}

/// One of our functions, if the name would lead to the driver's. Another library's function of that
/// name stays what it is.
extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    if name.is_null() {
        return Answer::of_next();
    }
    // SAFETY: a C string, as dlsym(3) demands.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(call) = call::find(CALLS, name) else { return Answer::of_next() };
    keeping_errno(|| {
        // The next definition after the caller: either the caller was loaded before us
        // and finds us by itself, or a function of ours has called it. But it must not
        // find us where there is no driver.
        if handle == libc::RTLD_NEXT {
            let has_driver = !call.function.find().is_null();
            return if has_driver { Answer::of_next() } else { Answer::known(null_mut()) };
        }
        let found = linker::symbol(handle, name);
        if found == call.own {
            // This library is in the global scope (`RTLD_DEFAULT`, `dlopen(NULL)`), with or without
            // a driver behind it.
            if call.function.find().is_null() {
                // Fails, and leaves its error text for the program.
                linker::symbol(libc::RTLD_NEXT, name);
                return Answer::known(null_mut());
            }
            linker::clear_error();
            return Answer::known(call.own);
        }
        if found.is_null() || !driver::contains(found) {
            return Answer::of_next();
        }
        // Another library in front of `dlsym` may answer with a function of its own, or refuse.
        let chosen = linker::next_symbol(handle, name);
        if chosen.is_null() {
            return Answer::known(null_mut());
        }
        // By its own name that function of its own is ours, which it comes after.
        if chosen != call.own {
            call.function.learn(chosen);
        } else if call.function.find().is_null() {
            call.function.learn(found);
        }
        Answer::known(call.own)
    })
}
