//! Whether a program will load the probe, and whether it may.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;

use memtrace_wire::preloading::{Preloading, is_sanitizer, other_c_library};

use super::environment::find;
use crate::next::Strings;
use crate::sandbox;
use crate::sys::{self, syscall};

unsafe extern "C" {
    static environ: Strings;
}

/// Program headers that are read; real programs have a dozen.
const HEADERS: usize = 32;
/// Entries of a dynamic section that are read, and libraries that are looked at: a sanitizer's
/// comes first, or nearly so.
const ENTRIES: usize = 64;
const LIBRARIES: usize = 8;
/// Bytes that are read of a dynamic linker's path: another C library's is short.
const LINKER: usize = 64;

/// Of the program in this file, or of this name, looked up as execvp(3) does.
pub fn preloading(path: *const c_char) -> Preloading {
    if path.is_null() || sandbox::is_filtered() {
        return Preloading::Works;
    }
    // SAFETY: a C string, as exec(3) demands.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return of_file(path).unwrap_or(Preloading::Works);
    }
    // SAFETY: the C library's own.
    let folders = find(unsafe { environ }, "PATH").unwrap_or(b"/bin:/usr/bin");
    let found =
        folders.split(|byte| *byte == b':').find_map(|folder| of_file(join(folder, name)?.as_ptr().cast()));
    found.unwrap_or(Preloading::Works)
}

/// The path of a file in a folder, NUL-terminated; `None` if it is too long.
fn join(folder: &[u8], name: &[u8]) -> Option<[u8; libc::PATH_MAX as usize]> {
    let mut path = [0; libc::PATH_MAX as usize];
    let folder = if folder.is_empty() { b"." } else { folder };
    let (_, room) = path.split_last_mut()?;
    let bytes = folder.iter().chain(b"/").chain(name);
    if folder.len() + 1 + name.len() > room.len() {
        return None;
    }
    room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Some(path)
}

/// `None` if it cannot be opened.
fn of_file(path: *const c_char) -> Option<Preloading> {
    // SAFETY: a C string. All zeroes is a valid stat, which the kernel fills in.
    unsafe {
        sys::with_file(path, |file| {
            let mut about: libc::stat = core::mem::zeroed();
            syscall(libc::SYS_fstat, [file, (&raw mut about) as usize, 0, 0, 0, 0]);
            if about.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
                return Preloading::IsIgnored;
            }
            of_open_file(file)
        })
    }
}

/// An ELF file's beginning: its header, and what mostly follows it.
#[repr(C)]
struct Beginning {
    header: libc::Elf64_Ehdr,
    headers: [libc::Elf64_Phdr; HEADERS],
}

/// An entry of the dynamic section (elf(5)).
#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

fn of_open_file(file: usize) -> Preloading {
    let Beginning { header, headers } = read_at(file, 0);
    match header.e_ident {
        [0x7f, b'E', b'L', b'F', 1, ..] => return Preloading::DoesHarm,
        [0x7f, b'E', b'L', b'F', 2, 1, ..] if header.e_phoff as usize == size_of::<libc::Elf64_Ehdr>() => {}
        _ => return Preloading::Works,
    }
    let headers = headers.get(..usize::from(header.e_phnum)).unwrap_or(&headers);
    let Some(linker) = headers.iter().find(|segment| segment.p_type == libc::PT_INTERP) else {
        return Preloading::IsIgnored;
    };
    let path: [u8; LINKER] = read_at(file, linker.p_offset);
    let is_harmed = other_c_library(&path).is_some() || needs_sanitizer(file, headers).unwrap_or(false);
    if is_harmed { Preloading::DoesHarm } else { Preloading::Works }
}

/// True if one of the libraries that it needs is the runtime of a sanitizer.
fn needs_sanitizer(file: usize, headers: &[libc::Elf64_Phdr]) -> Option<bool> {
    const NEEDED: u64 = 1;
    const STRINGS: u64 = 5;
    let dynamic = headers.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC)?;
    let entries: [Dynamic; ENTRIES] = read_at(file, dynamic.p_offset);
    let strings = entries.iter().find(|entry| entry.tag == STRINGS)?.value;
    let holds = |segment: &&libc::Elf64_Phdr| {
        segment.p_type == libc::PT_LOAD && strings.wrapping_sub(segment.p_vaddr) < segment.p_filesz
    };
    let segment = headers.iter().find(holds)?;
    let strings = (strings - segment.p_vaddr).checked_add(segment.p_offset)?;
    let needed = entries.iter().take_while(|entry| entry.tag != 0).filter(|entry| entry.tag == NEEDED);
    Some(needed.take(LIBRARIES).any(|entry| {
        let name: [u8; 16] = read_at(file, strings.wrapping_add(entry.value));
        is_sanitizer(&name)
    }))
}

/// What lies at a place of a file, or zeroes. `T` consists of integers.
fn read_at<T>(file: usize, place: u64) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: writes into the value only, which is valid whatever its bytes are.
    unsafe {
        let arguments = [file, value.as_mut_ptr() as usize, size_of::<T>(), place as usize, 0, 0];
        syscall(libc::SYS_pread64, arguments);
        value.assume_init()
    }
}
