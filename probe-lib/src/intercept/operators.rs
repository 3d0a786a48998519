//! C++ `operator new` and `operator delete`, in all their forms.
//!
//! libstdc++'s call `malloc` and `free`, where they are recorded: ours only jump on to them. A
//! program that loads libstdc++ late and with local scope (a Python extension) also comes here, so
//! it is looked up again. jemalloc, mimalloc and tcmalloc bring operators of their own that never
//! call an exported `malloc`; those are recorded here. `operator delete` is recorded first and then
//! called, so that a `free` in it is not recorded again.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use memtrace_wire::event::Kind;

use super::heap;
use crate::allocator;
use crate::arch::entry::{Entry, entered};
use crate::arch::operators::{delete_code, new_code};
use crate::next::{self, look_up};
use crate::ring::hot;
use crate::ring::hot::acquired;

macro_rules! operators {
    (new [$($new:ident $made:ident $substitute:ident,)*] delete [$($delete:ident,)*]) => {
        /// The next definitions.
        #[allow(non_upper_case_globals)]
        mod pointers {
            use super::*;
            $(pub static $new: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());)*
            $(pub static $delete: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());)*
        }

        /// 1 for those that belong to the allocator behind `malloc`.
        #[allow(non_upper_case_globals)]
        mod recorded {
            use super::*;
            $(pub static $new: AtomicU8 = AtomicU8::new(0);)*
            $(pub static $delete: AtomicU8 = AtomicU8::new(0);)*
        }

        $(
            /// Calls the next definition and records what it returns, or jumps to it.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $new() {
                new_code!(pointers::$new, recorded::$new, find_again, $made)
            }
        )*

        $(
            /// Records the release and calls the next definition, or jumps to it.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $delete() {
                delete_code!(pointers::$delete, recorded::$delete, release, released)
            }
        )*

        /// Finds the next definitions among the libraries the program was started with.
        pub fn find() {
            find_in(libc::RTLD_NEXT);
        }

        fn find_in(library: *mut c_void) {
            $(find_one(library, &pointers::$new, concat!(stringify!($new), "\0").as_bytes());)*
            $(find_one(library, &pointers::$delete, concat!(stringify!($delete), "\0").as_bytes());)*
        }

        /// Notes, once the allocator is known, which operators are its own.
        pub fn decide() {
            $(recorded::$new.store(u8::from(is_allocators(&pointers::$new)), Ordering::Relaxed);)*
            $(recorded::$delete.store(u8::from(is_allocators(&pointers::$delete)), Ordering::Relaxed);)*
        }

        fn substitute() {
            $(substitute_one(&pointers::$new, $substitute as *mut c_void);)*
            $(substitute_one(&pointers::$delete, crate::intercept::heap::free as *mut c_void);)*
        }
    };
}

operators! {
    new [
    _Znwm made_plain new_or_abort,
    _Znam made_plain new_or_abort,
    _ZnwmRKSt9nothrow_t made_plain new_or_null,
    _ZnamRKSt9nothrow_t made_plain new_or_null,
    _ZnwmSt11align_val_t made_aligned aligned_or_abort,
    _ZnamSt11align_val_t made_aligned aligned_or_abort,
    _ZnwmSt11align_val_tRKSt9nothrow_t made_aligned aligned_or_null,
    _ZnamSt11align_val_tRKSt9nothrow_t made_aligned aligned_or_null,
    ] delete [
    _ZdlPv,
    _ZdaPv,
    _ZdlPvm,
    _ZdaPvm,
    _ZdlPvRKSt9nothrow_t,
    _ZdaPvRKSt9nothrow_t,
    _ZdlPvSt11align_val_t,
    _ZdaPvSt11align_val_t,
    _ZdlPvmSt11align_val_t,
    _ZdaPvmSt11align_val_t,
    _ZdlPvSt11align_val_tRKSt9nothrow_t,
    _ZdaPvSt11align_val_tRKSt9nothrow_t,
    ]
}

fn find_one(library: *mut c_void, pointer: &AtomicPtr<c_void>, name: &[u8]) {
    if pointer.load(Ordering::Relaxed).is_null() {
        pointer.store(look_up(library, name), Ordering::Relaxed);
    }
}

fn is_allocators(pointer: &AtomicPtr<c_void>) -> bool {
    allocator::owns(pointer.load(Ordering::Relaxed) as usize)
}

fn substitute_one(pointer: &AtomicPtr<c_void>, function: *mut c_void) {
    if pointer.load(Ordering::Relaxed).is_null() {
        pointer.store(function, Ordering::Relaxed);
    }
}

/// An operator was called whose next definition is not known: the program allocates for the first
/// time, or it has loaded a C++ library since. Where none is visible (a library that contains
/// libstdc++), operators of our own do what the standard demands by default.
extern "C" fn find_again() {
    next::find_now();
    find();
    for library in [c"libstdc++.so.6", c"libc++abi.so.1", c"libc++.so.1"] {
        // SAFETY: only finds a library that is loaded already; it stays loaded from now on.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            find_in(handle);
        }
    }
    substitute();
}

entered! {
    new_or_null(bytes: usize) -> *mut c_void => new_or_null_from;
    new_or_abort(bytes: usize) -> *mut c_void => new_or_abort_from;
    aligned_or_null(bytes: usize, alignment: usize) -> *mut c_void => aligned_or_null_from;
    aligned_or_abort(bytes: usize, alignment: usize) -> *mut c_void => aligned_or_abort_from;
}

extern "C" fn new_or_null_from(bytes: usize, entry: Entry) -> *mut c_void {
    // SAFETY: malloc(3), recorded.
    unsafe { heap::malloc_from(bytes.max(1), entry) }
}

extern "C" fn new_or_abort_from(bytes: usize, entry: Entry) -> *mut c_void {
    or_abort(new_or_null_from(bytes, entry))
}

extern "C" fn aligned_or_null_from(bytes: usize, alignment: usize, entry: Entry) -> *mut c_void {
    // SAFETY: memalign(3), recorded.
    unsafe { heap::memalign_from(alignment, bytes.max(1), entry) }
}

extern "C" fn aligned_or_abort_from(bytes: usize, alignment: usize, entry: Entry) -> *mut c_void {
    or_abort(aligned_or_null_from(bytes, alignment, entry))
}

/// Without a C++ library there is no exception to throw; an uncaught one would abort as well.
fn or_abort(block: *mut c_void) -> *mut c_void {
    if block.is_null() {
        // SAFETY: does not return.
        unsafe { libc::abort() }
    }
    block
}

extern "C" fn made_plain(block: *mut c_void, bytes: usize, entry: Entry) -> *mut c_void {
    acquired(Kind::Malloc, block, bytes, entry)
}

extern "C" fn made_aligned(block: *mut c_void, bytes: usize, entry: Entry) -> *mut c_void {
    acquired(Kind::Aligned, block, bytes, entry)
}

extern "C" fn release(block: *mut c_void, next: &AtomicPtr<c_void>) {
    if next.load(Ordering::Relaxed).is_null() {
        find_again();
    }
    if !block.is_null() && is_allocators(next) {
        hot::releases(block as usize);
        heap::set_releasing(block);
    }
}

extern "C" fn released() {
    heap::set_releasing(core::ptr::null_mut());
}
