//! Tells the tracer which executables and libraries are mapped, before a stack that may lead through them:
//! at its leisure it could read /proc, but a process may have ended by then.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::stack::words;

use crate::process;
use crate::record::push_inside;
use crate::tls::Thread;

/// Loads and unloads the dynamic linker had made when its list was last announced.
static ANNOUNCED: AtomicU64 = AtomicU64::new(0);

/// Announces all modules if the dynamic linker's list has changed. Call it with the guard held. Does not allocate; takes the linker's
/// list lock, which is held for moments only and never over a call of the program's.
///
/// Not in a forked child: another thread of the parent may have held that lock at the fork, and nobody would ever
/// release it. The child has what its parent had; what it opens itself, the tracer looks for in /proc.
pub fn announce(thread: &mut Thread) {
    if process::is_forked_copy() {
        return;
    }
    let mut changes = 0u64;
    // SAFETY: the callback has the signature dl_iterate_phdr(3) demands; `changes` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut changes).cast()) };
    if changes != ANNOUNCED.load(Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::dl_iterate_phdr(Some(write), (&raw mut *thread).cast()) };
        ANNOUNCED.store(changes, Ordering::Release);
    }
}

unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _: usize, changes: *mut c_void) -> c_int {
    // SAFETY: `info` is valid during the callback, `changes` is the caller's.
    unsafe { *changes.cast::<u64>() = (*info).dlpi_adds + (*info).dlpi_subs };
    // The counts are the same for every module: one is enough.
    1
}

unsafe extern "C" fn write(info: *mut libc::dl_phdr_info, _: usize, thread: *mut c_void) -> c_int {
    /// Paths beyond this are cut (PATH_MAX).
    const PATH_MAX: usize = 4096;
    // SAFETY: `info`, its headers and its name are valid during the callback; the thread is the caller's own.
    unsafe {
        let name = (*info).dlpi_name;
        // The executable has no name here; the tracer knows it since the handshake.
        if name.is_null() || *name == 0 {
            return 0;
        }
        let (mut start, mut end) = (u64::MAX, 0);
        for index in 0..usize::from((*info).dlpi_phnum) {
            let header = &*(*info).dlpi_phdr.add(index);
            if header.p_type == libc::PT_LOAD {
                start = start.min(header.p_vaddr);
                end = end.max(header.p_vaddr + header.p_memsz);
            }
        }
        let bias = (*info).dlpi_addr;
        let path = CStr::from_ptr(name).to_bytes();
        let path = path.get(..PATH_MAX).unwrap_or(path);
        let text = [bias, bias.wrapping_add(start), bias.wrapping_add(end)];
        let bytes = size_of_val(&text) + path.len();
        let text = text.into_iter().chain(words(path));
        push_inside(&mut *thread.cast::<Thread>(), Kind::Module, 0, bytes, text);
    }
    0
}
