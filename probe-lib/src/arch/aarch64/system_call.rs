//! System calls without the C library.

use core::arch::asm;

/// A system call; negative results are `-errno`.
///
/// # Safety
/// As the system call demands.
pub unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the system call convention of 64-bit Arm; the caller answers for the call itself.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] as isize => result,
            in("x1") arguments[1], in("x2") arguments[2], in("x3") arguments[3],
            in("x4") arguments[4], in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}
