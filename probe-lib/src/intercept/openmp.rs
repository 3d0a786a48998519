//! OpenMP: the threads of a parallel region work for the span that begins it.
//!
//! `GOMP_parallel` is what compilers call for `#pragma omp parallel`, and for loops in it that are
//! divided up beforehand (GCC's runtime; LLVM's has it too). Loops with another schedule have entry
//! points of their own, which are not intercepted: their threads are in no span unless the loop
//! itself starts them. The runtime is often a library that a Python package brings along with local
//! scope, so it is looked up where the region's code would find it.

use core::ffi::{c_uint, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::spans;
use super::start::Start;
use crate::arch::jump::jump_after;
use crate::next::{self, look_up};
use crate::tls;

type Body = unsafe extern "C" fn(*mut c_void);
type Parallel = unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint, c_uint);

/// A parallel region as its threads see it.
#[repr(C)]
struct Region {
    body: *mut c_void,
    data: *mut c_void,
    /// The thread that began it: its thread-local block, which is also the token for its span.
    master: usize,
}

/// Runs `body(data)` on a team of threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel(body: *mut c_void, data: *mut c_void, threads: c_uint, flags: c_uint) {
    let Some(next) = definition(body as usize) else {
        // SAFETY: the program's function and its argument; a team may have one thread.
        return unsafe { transmute::<*mut c_void, Body>(body)(data) };
    };
    let master = tls::thread() as usize;
    if !spans::export_as(master as u64) {
        // SAFETY: the program's call, passed on.
        return unsafe { next(body, data, threads, flags) };
    }
    let region = Region { body, data, master };
    let place = core::ptr::from_ref(&region).cast_mut().cast();
    // SAFETY: it returns when all threads have left the region; until then `region` stays.
    unsafe { next(enter as *mut c_void, place, threads, flags) }
}

// Where each thread of the team begins: it adopts the span and jumps on to the region's code.
jump_after!(enter, adopt);

extern "C" fn adopt(region: &Region) -> Start {
    if tls::thread() as usize != region.master {
        spans::adopt(region.master as u64, false);
    }
    Start { function: region.body, argument: region.data }
}

/// The next definition for code at this address.
fn definition(code: usize) -> Option<Parallel> {
    let mut found = FOR_ALL.load(Ordering::Relaxed);
    if found.is_null() {
        found = known(code);
    }
    if found.is_null() {
        found = look_up(libc::RTLD_NEXT, NAME);
        FOR_ALL.store(found, Ordering::Relaxed);
    }
    if found.is_null() {
        found = of_module(code);
        remember(code, found);
    }
    // SAFETY: the definition of that name has this signature.
    (!found.is_null()).then(|| unsafe { transmute::<*mut c_void, Parallel>(found) })
}

/// What all modules find, if there is one in the global scope.
static FOR_ALL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
const NAME: &[u8] = b"GOMP_parallel\0";

/// The definition that the module with this code would be bound to without the probe: that of a
/// library it was linked with.
fn of_module(code: usize) -> *mut c_void {
    // SAFETY: all zeroes is a valid `Dl_info`, which dladdr(3) fills in.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr(3) only compares the address; the path it gives stays as long as the module,
    // whose code runs.
    let library = unsafe {
        if libc::dladdr(code as *const c_void, &mut info) == 0 {
            return null_mut();
        }
        libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    };
    if library.is_null() {
        return null_mut();
    }
    let found = look_up(library, NAME);
    // SAFETY: drops the reference taken above; the module stays loaded because its code runs.
    unsafe { next::dlclose(library) };
    found
}

/// Regions whose definition was looked up, by their code: an entry is written once.
static KNOWN: [(AtomicUsize, AtomicPtr<c_void>); 256] =
    [const { (AtomicUsize::new(0), AtomicPtr::new(null_mut())) }; 256];
/// Stands in an entry that is being written.
const WRITING: usize = 1;

/// Entries that the region with this code may have.
fn entries(code: usize) -> impl Iterator<Item = &'static (AtomicUsize, AtomicPtr<c_void>)> {
    const TRIED: usize = 8;
    (0..TRIED).filter_map(move |next| KNOWN.get(((code >> 4) + next) % KNOWN.len()))
}

/// A library is about to be closed: other code may come to lie where its was.
pub fn forget() {
    FOR_ALL.store(null_mut(), Ordering::Relaxed);
    KNOWN.iter().for_each(|(key, _)| key.store(0, Ordering::Relaxed));
}

fn known(code: usize) -> *mut c_void {
    let is_it = |key: &AtomicUsize| key.load(Ordering::Acquire) == code;
    for (key, found) in entries(code) {
        if is_it(key) {
            let found = found.load(Ordering::Acquire);
            // Still: else it was forgotten and written anew meanwhile.
            return if is_it(key) { found } else { null_mut() };
        }
    }
    null_mut()
}

fn remember(code: usize, found: *mut c_void) {
    if found.is_null() {
        return;
    }
    let claim =
        |key: &AtomicUsize| key.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if let Some((key, place)) = entries(code).find(|(key, _)| claim(key)) {
        place.store(found, Ordering::Relaxed);
        key.store(code, Ordering::Release);
    }
}
