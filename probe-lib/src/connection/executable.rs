//! Whether a program will load the probe.

use core::ffi::c_char;

use crate::sys::{self, syscall};

/// Program headers that are read; real programs have a dozen.
const HEADERS: usize = 32;

/// False for what surely will not: a statically linked program has no interpreter (PT_INTERP,
/// elf(5)), and the dynamic linker ignores the preload variable for set-user-ID ones (ld.so(8)).
/// True for all else, scripts and files that are not there included.
pub fn loads_the_probe(path: *const c_char) -> bool {
    const BYTES: usize = size_of::<libc::Elf64_Ehdr>() + HEADERS * size_of::<libc::Elf64_Phdr>();
    #[repr(C, align(8))]
    struct Buffer([u8; BYTES]);
    let mut buffer = Buffer([0; BYTES]);
    // SAFETY: all zeroes is a valid stat, which the kernel fills in; the
    // path is a C string or null.
    let read = unsafe {
        sys::with_file(path, |file| {
            let mut about: libc::stat = core::mem::zeroed();
            syscall(libc::SYS_fstat, [file, (&raw mut about) as usize, 0, 0, 0, 0]);
            (sys::read(file, &mut buffer.0), about.st_mode)
        })
    };
    let Some((read, mode)) = read else { return true };
    if mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
        return false;
    }
    if read < size_of::<libc::Elf64_Ehdr>() || !buffer.0.starts_with(b"\x7fELF\x02\x01") {
        return true;
    }
    // SAFETY: the buffer is aligned and holds a whole ELF header.
    let header = unsafe { &*buffer.0.as_ptr().cast::<libc::Elf64_Ehdr>() };
    if header.e_phoff as usize != size_of::<libc::Elf64_Ehdr>() {
        return true;
    }
    // SAFETY: right behind the header, as just checked, and as many as there is room for; all
    // zeroes is valid.
    let headers = unsafe {
        let first = buffer.0.as_ptr().add(size_of::<libc::Elf64_Ehdr>()).cast::<libc::Elf64_Phdr>();
        core::slice::from_raw_parts(first, usize::from(header.e_phnum).min(HEADERS))
    };
    headers.iter().any(|segment| segment.p_type == libc::PT_INTERP)
}
