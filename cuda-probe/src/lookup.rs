//! The look-ups by which programs come to the driver's functions: `dlsym`, and the driver's own `cuGetProcAddress`. Both
//! answer with the functions of this library.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use core::ptr::null_mut;

use crate::door::aside;
use crate::driver::{self, SUCCESS, Status};
use crate::{linker, names};

/// What is to be done about a look-up: two registers.
#[repr(C)]
struct Answer {
    /// False: the address is that of the next `dlsym`, which is to say it.
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

/// dlsym(3). What it does depends on who calls it (`RTLD_NEXT`), so the next definition is jumped to, with the program's own
/// return address, for all names but the driver's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "test rsi, rsi",
        "jz 2f",
        "cmp byte ptr [rsi], 'c'",
        "jne 2f",
        "cmp byte ptr [rsi + 1], 'u'",
        "je 3f",
        "2: mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        // Perhaps one of the driver's, or the next definition is not known yet.
        "3: push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {answer}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test al, al",
        "jnz 4f",
        "jmp rdx",
        "4: mov rax, rdx",
        "ret",
        ".cfi_endproc",
        next = sym linker::NEXT,
        answer = sym answer,
    )
}

/// One of our functions, if the name would lead to the driver's. Another library's function of that name is left alone.
extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    if name.is_null() {
        return Answer::of_next();
    }
    // SAFETY: a C string, as dlsym(3) demands.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(call) = names::find(name) else { return Answer::of_next() };
    aside(|| {
        // What comes after the caller is not ours to say: either the caller was loaded before us, and finds us by itself, or
        // it was asked by a function of ours. But it is not to find us where there is no driver.
        if handle == libc::RTLD_NEXT {
            let has_driver = !call.function.find().is_null();
            return if has_driver { Answer::of_next() } else { Answer::known(null_mut()) };
        }
        let found = linker::symbol(handle, name);
        if found == call.own {
            // All may see this library (`RTLD_DEFAULT`, `dlopen(NULL)`), with a driver behind it or not.
            if call.function.find().is_null() {
                // Fails, and leaves the text of its error to the program.
                linker::symbol(libc::RTLD_NEXT, name);
                return Answer::known(null_mut());
            }
            linker::forget_error();
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

/// `cuGetProcAddress`
pub unsafe fn get_address(
    call: impl FnOnce() -> Status,
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
) -> Status {
    let status = call();
    if status == SUCCESS && !symbol.is_null() && !out.is_null() {
        // SAFETY: the caller's string, and the place for the answer.
        unsafe { *out = instead(CStr::from_ptr(symbol), *out, version, flags) };
    }
    status
}

/// The same with one more answer, which stays as it is.
pub unsafe fn get_address_and_why(
    call: impl FnOnce() -> Status,
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
    _why: *mut c_int,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { get_address(call, symbol, out, version, flags) }
}

/// Our function in place of the driver's, which was chosen by name, version and the kind of default stream.
fn instead(symbol: &CStr, theirs: *mut c_void, version: c_int, flags: c_ulonglong) -> *mut c_void {
    /// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    const PER_THREAD: c_ulonglong = 2;
    /// The newest version whose functions are known. One that is asked for by a later one may have other arguments.
    const NEWEST: c_int = 13_999;
    let chosen = names::of_version(symbol, version, flags & PER_THREAD != 0);
    let Some(call) = chosen.filter(|_| !theirs.is_null()) else { return theirs };
    aside(|| {
        if theirs == call.own || version > NEWEST && theirs != call.function.find() {
            return theirs;
        }
        call.function.learn(theirs);
        call.own
    })
}
