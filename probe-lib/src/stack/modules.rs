//! The executables and libraries that are mapped: how they are unwound, and which files they are.
//! Each is announced to the tracer before a stack that leads through it: the process may have ended
//! before the tracer could read /proc.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::stack::words;

use crate::connection::process;
use crate::next::look_up;
use crate::ring::record::push_inside;
use crate::tls::Thread;

/// Changes before and after modules are unloaded: then an address may mean another function.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Of the modules that are loaded now.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Call it before and after modules are unloaded.
pub fn change() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// A module that is mapped.
#[derive(Clone, Copy)]
pub struct Module {
    /// Where its `.eh_frame_hdr` is; 0: it has none.
    pub index: usize,
    start: usize,
    end: usize,
    bias: usize,
    path: *const c_char,
}

/// Modules that were announced, each in a place that its address gives; another one in its place
/// means that it may be announced again.
#[repr(C)]
pub struct Announced([usize; 64]);

impl Announced {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Announces the modules of these frames that were not announced yet.
    /// Call it with the guard held.
    pub fn announce(&mut self, thread: &mut Thread, frames: &[u64]) {
        for frame in frames {
            let Some(module) = find((*frame as usize).wrapping_sub(1)) else { continue };
            let place = (module.start >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
            let Some(known) = self.0.get_mut(place) else { continue };
            if *known != module.start && module.announce(thread) {
                *known = module.start;
            }
        }
    }
}

impl Module {
    /// False if there was no room for the event.
    fn announce(&self, thread: &mut Thread) -> bool {
        /// Paths beyond this are cut (PATH_MAX).
        const PATH_MAX: usize = 4096;
        if self.path.is_null() {
            return true;
        }
        // SAFETY: the dynamic linker's name of a module that is mapped.
        let path = unsafe { CStr::from_ptr(self.path) }.to_bytes();
        // The executable has no name here; the tracer knows it since the handshake.
        if path.is_empty() {
            return true;
        }
        let path = path.get(..PATH_MAX).unwrap_or(path);
        let text = [self.bias as u64, self.start as u64, self.end as u64];
        let bytes = size_of_val(&text) + path.len();
        push_inside(thread, Kind::Module, 0, bytes, text.into_iter().chain(words(path)))
    }
}

/// `_dl_find_object` (glibc from 2.35): takes no lock, and may be called from signal handlers.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks up the C library's function that finds modules.
pub fn find_linker() {
    FIND_OBJECT.store(look_up(libc::RTLD_DEFAULT, b"_dl_find_object\0"), Ordering::Relaxed);
}

/// glibc's `struct dl_find_object` on x86-64.
#[repr(C)]
struct Object {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    eh_frame_hdr: usize,
    reserved: [u64; 7],
}

/// The beginning of `struct link_map` (link.h).
#[repr(C)]
struct LinkMap {
    bias: usize,
    path: *const c_char,
}

/// The module that an address lies in.
pub fn find(address: usize) -> Option<Module> {
    let function = FIND_OBJECT.load(Ordering::Relaxed);
    if function.is_null() {
        return find_in_list(address);
    }
    let mut object = MaybeUninit::<Object>::uninit();
    // SAFETY: the C library's function, which fills the object in if it
    // returns 0; the module is mapped.
    unsafe {
        let find_object: unsafe extern "C" fn(usize, *mut Object) -> c_int = transmute(function);
        if find_object(address, object.as_mut_ptr()) != 0 {
            return None;
        }
        let object = object.assume_init();
        let LinkMap { bias, path } = object.link_map.read();
        let (start, end) = (object.map_start, object.map_end);
        Some(Module { index: object.eh_frame_hdr, start, end, bias, path })
    }
}

/// An address to look up, and the module that it lies in.
struct Query {
    address: usize,
    found: Option<Module>,
}

/// The same without that function, by a list that is locked for moments. Not in a forked child:
/// another thread of its parent may have held the lock at the fork, and it would never be released.
#[cold]
fn find_in_list(address: usize) -> Option<Module> {
    let mut query = Query { address, found: None };
    if !process::is_forked_copy() {
        // SAFETY: the callback has the signature dl_iterate_phdr(3) demands;
        // the query outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(check), (&raw mut query).cast()) };
    }
    query.found
}

unsafe extern "C" fn check(module: *mut libc::dl_phdr_info, _: usize, query: *mut c_void) -> c_int {
    // SAFETY: the module and its headers are valid during the callback, the query is the caller's.
    unsafe {
        let query = &mut *query.cast::<Query>();
        let bias = (*module).dlpi_addr as usize;
        let mut found = Module { index: 0, start: usize::MAX, end: 0, bias, path: (*module).dlpi_name };
        for number in 0..usize::from((*module).dlpi_phnum) {
            let header = &*(*module).dlpi_phdr.add(number);
            let start = bias + header.p_vaddr as usize;
            match header.p_type {
                libc::PT_LOAD => {
                    found.start = found.start.min(start);
                    found.end = found.end.max(start + header.p_memsz as usize);
                }
                libc::PT_GNU_EH_FRAME => found.index = start,
                _ => {}
            }
        }
        let inside = found.start <= query.address && query.address < found.end;
        if inside {
            query.found = Some(found);
        }
        c_int::from(inside)
    }
}
