//! The next definitions of the functions the probe stands in front of: glibc's, or those of an
//! allocator that the user preloads or links.
//!
//! They are looked up by `dlsym(RTLD_NEXT)` when the first of them is needed. `dlsym` itself
//! may allocate (its error text), and then enters the probe again: those few calls are
//! served from a static pool.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

macro_rules! next_definitions {
    ($($name:ident: fn($($argument:ident: $type:ty),*) -> $result:ty, first $first:expr;)*) => {
        $(
            /// Calls the next definition.
            ///
            /// # Safety
            /// As the C function demands.
            #[inline(always)]
            pub unsafe fn $name($($argument: $type),*) -> $result {
                // SAFETY: the pointer is either `first` below or a definition with this signature.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> $result =
                        core::mem::transmute(pointers::$name.load(Ordering::Relaxed));
                    function($($argument),*)
                }
            }
        )*

        #[allow(non_upper_case_globals)]
        pub mod pointers {
            //! Where the next definitions are; [`placement`](crate::placement) puts functions of its
            //! own in front of some.
            use super::*;
            $(
                pub static $name: AtomicPtr<c_void> = AtomicPtr::new({
                    // Stands in until the definitions are known: finds them and calls again.
                    unsafe extern "C" fn first($($argument: $type),*) -> $result {
                        // SAFETY: startup replaces every pointer unless it is already running.
                        unsafe {
                            if memtrace_startup() { super::$name($($argument),*) } else { $first }
                        }
                    }
                    first as *mut c_void
                });
            )*
        }

        /// The next definitions; null for what is not there.
        pub struct Definitions {
            $($name: *mut c_void,)*
        }

        impl Definitions {
            /// Looks them up; if the caller has to be careful, none that may not be there.
            pub fn find(careful: bool) -> Definitions {
                Definitions {
                    $($name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        let is_there = !careful || !NEWER.contains(&stringify!($name));
                        if is_there { look_up(libc::RTLD_NEXT, name) } else { core::ptr::null_mut() }
                    },)*
                }
            }

            /// Calls go there from now on.
            pub fn install(&self) {
                $(
                    if !self.$name.is_null() {
                        pointers::$name.store(self.$name, Ordering::Relaxed);
                    }
                )*
            }
        }
    };
}

unsafe extern "C" {
    /// [`startup`](crate::startup), which finds every definition. False if that is under way
    /// already. It has a symbol because what it does reaches up into rooms that know this module.
    safe fn memtrace_startup() -> bool;
}

/// What not every C library has that memtrace runs with.
const NEWER: [&str; 2] = ["free_sized", "free_aligned_sized"];

/// True if the program brings an allocator of its own: its symbols come before all libraries', ours
/// included, so that even here `malloc` is its. What is private is ours, and no further away than
/// this library is long. An executable that is not position-independent and takes the address of
/// `malloc` has a symbol of that name too, for its jump to ours: it defines nothing.
pub fn has_own_allocator() -> bool {
    const LIBRARY_BYTES: usize = 1 << 20;
    let first = look_up(libc::RTLD_DEFAULT, b"malloc\0");
    let here = has_own_allocator as fn() -> bool as usize;
    (first as usize).abs_diff(here) > LIBRARY_BYTES && is_defined(first)
}

/// True unless the symbol at this address belongs to no section (SHN_UNDEF, elf(5)).
fn is_defined(address: *const c_void) -> bool {
    const UNDEFINED: u16 = 0;
    const RTLD_DL_SYMENT: c_int = 1;
    let mut symbol: *mut c_void = core::ptr::null_mut();
    // SAFETY: dladdr1(3) takes any address, allocates nothing, and stores the symbol's entry in the
    // dynamic symbol table, which stays mapped; all zeroes is a valid Dl_info.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = libc::dladdr1(address, &mut info, &mut symbol, RTLD_DL_SYMENT);
        let symbol = symbol.cast_const().cast::<libc::Elf64_Sym>();
        found == 0 || symbol.is_null() || (*symbol).st_shndx != UNDEFINED
    }
}

next_definitions! {
    malloc: fn(bytes: usize) -> *mut c_void, first pool_allocate(bytes, 16);
    calloc: fn(count: usize, bytes: usize) -> *mut c_void, first pool_allocate(count.saturating_mul(bytes), 16);
    realloc: fn(block: *mut c_void, bytes: usize) -> *mut c_void, first { let _ = block; pool_allocate(bytes, 16) };
    free: fn(block: *mut c_void) -> (), first { let _ = block; };
    memalign: fn(alignment: usize, bytes: usize) -> *mut c_void, first pool_allocate(bytes, alignment);
    aligned_alloc: fn(alignment: usize, bytes: usize) -> *mut c_void, first pool_allocate(bytes, alignment);
    posix_memalign: fn(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int,
        first { let _ = (out, alignment, bytes); libc::ENOMEM };
    valloc: fn(bytes: usize) -> *mut c_void, first { let _ = bytes; core::ptr::null_mut() };
    pvalloc: fn(bytes: usize) -> *mut c_void, first { let _ = bytes; core::ptr::null_mut() };
    malloc_usable_size: fn(block: *mut c_void) -> usize, first { let _ = block; 0 };
    free_sized: fn(block: *mut c_void, bytes: usize) -> (), first { let _ = bytes; super::free(block) };
    free_aligned_sized: fn(block: *mut c_void, alignment: usize, bytes: usize) -> (),
        first { let _ = (alignment, bytes); super::free(block) };
    mmap: fn(address: *mut c_void, length: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> *mut c_void,
        first raw::mmap(address, length, protection, flags, descriptor, offset);
    munmap: fn(address: *mut c_void, length: usize) -> c_int, first raw::munmap(address, length);
    mremap: fn(address: *mut c_void, length: usize, new_length: usize, flags: c_int, new_address: *mut c_void) -> *mut c_void,
        first raw::mremap(address, length, new_length, flags, new_address);
    brk: fn(address: *mut c_void) -> c_int, first { let _ = address; raw::fail(libc::ENOMEM) as c_int };
    sbrk: fn(increment: isize) -> *mut c_void, first { let _ = increment; raw::fail(libc::ENOMEM) as *mut c_void };
    madvise: fn(address: *mut c_void, length: usize, advice: c_int) -> c_int, first raw::madvise(address, length, advice);
    mprotect: fn(address: *mut c_void, length: usize, protection: c_int) -> c_int,
        first raw::mprotect(address, length, protection);
    pkey_mprotect: fn(address: *mut c_void, length: usize, protection: c_int, key: c_int) -> c_int,
        first { let _ = (address, length, protection, key); raw::fail(libc::ENOMEM) as c_int };
    shmat: fn(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void,
        first { let _ = (id, address, flags); raw::fail(libc::ENOMEM) as *mut c_void };
    shmdt: fn(address: *const c_void) -> c_int, first { let _ = address; raw::fail(libc::EINVAL) as c_int };
    execve: fn(path: *const c_char, argv: Strings, envp: Strings) -> c_int,
        first { let _ = (path, argv, envp); raw::fail(libc::EAGAIN) as c_int };
    execvpe: fn(file: *const c_char, argv: Strings, envp: Strings) -> c_int,
        first { let _ = (file, argv, envp); raw::fail(libc::EAGAIN) as c_int };
    fexecve: fn(descriptor: c_int, argv: Strings, envp: Strings) -> c_int,
        first { let _ = (descriptor, argv, envp); raw::fail(libc::EAGAIN) as c_int };
    execveat: fn(directory: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int,
        first { let _ = (directory, path, argv, envp, flags); raw::fail(libc::ENOSYS) as c_int };
    posix_spawn: fn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int,
        first { let _ = (pid, path, actions, attributes, argv, envp); libc::EAGAIN };
    posix_spawnp: fn(pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, argv: Strings, envp: Strings) -> c_int,
        first { let _ = (pid, file, actions, attributes, argv, envp); libc::EAGAIN };
    prctl: fn(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int,
        first { let _ = (option, a, b, c, d); raw::fail(libc::EINVAL) as c_int };
    dlclose: fn(library: *mut c_void) -> c_int, first { let _ = library; -1 };
    _exit: fn(status: c_int) -> (), first raw::exit(status);
    quick_exit: fn(status: c_int) -> (), first raw::exit(status);
    exit: fn(status: c_int) -> (), first raw::exit(status);
    __libc_start_main: fn(main: *const c_void, argc: c_int, argv: Strings, init: *const c_void, fini: *const c_void, at_exit: *const c_void, stack_end: *const c_void) -> c_int,
        first { let _ = (main, argc, argv, init, fini, at_exit, stack_end); raw::exit(127) };
}

/// Finds the next definitions now, if no call has done so yet.
pub fn find_now() {
    // SAFETY: free(3) ignores a null pointer.
    unsafe { free(core::ptr::null_mut()) }
}

/// A NULL-terminated array of C strings, as `argv` and `envp` are.
pub type Strings = *const *const c_char;

/// Where the next definition of `malloc` is.
pub fn malloc_address() -> usize {
    pointers::malloc.load(Ordering::Relaxed) as usize
}

/// `dlsym`, with a NUL-terminated name.
pub fn look_up(handle: *mut c_void, name: &[u8]) -> *mut c_void {
    match CStr::from_bytes_with_nul(name) {
        // SAFETY: a valid handle and a NUL-terminated name.
        Ok(name) => unsafe { libc::dlsym(handle, name.as_ptr()) },
        Err(_) => core::ptr::null_mut(),
    }
}

mod raw {
    //! Mapping calls made while the look-up is under way go straight to the kernel.
    use core::ffi::{c_int, c_void};

    use crate::sys;

    fn finish(result: isize) -> *mut c_void {
        if (-4095..0).contains(&result) {
            // SAFETY: the calling thread's errno.
            unsafe { *libc::__errno_location() = -result as c_int };
            return libc::MAP_FAILED;
        }
        result as *mut c_void
    }

    pub unsafe fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void {
        let arguments = [
            address as usize,
            length,
            protection as usize,
            flags as usize,
            descriptor as usize,
            offset as usize,
        ];
        // SAFETY: the caller's call, passed on.
        finish(unsafe { sys::syscall(libc::SYS_mmap, arguments) })
    }

    /// Sets errno; -1, which is also MAP_FAILED.
    pub fn fail(errno: c_int) -> isize {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = errno };
        -1
    }

    pub fn exit(status: c_int) -> ! {
        loop {
            // SAFETY: does not return.
            unsafe { sys::syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
        }
    }

    pub unsafe fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
        // SAFETY: the caller's call, passed on.
        finish(unsafe {
            sys::syscall(libc::SYS_madvise, [address as usize, length, advice as usize, 0, 0, 0])
        }) as isize as c_int
    }

    pub unsafe fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
        // SAFETY: the caller's call, passed on.
        finish(unsafe {
            sys::syscall(libc::SYS_mprotect, [address as usize, length, protection as usize, 0, 0, 0])
        }) as isize as c_int
    }

    pub unsafe fn munmap(address: *mut c_void, length: usize) -> c_int {
        // SAFETY: the caller's call, passed on.
        finish(unsafe { sys::syscall(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) }) as isize
            as c_int
    }

    pub unsafe fn mremap(
        address: *mut c_void,
        length: usize,
        new_length: usize,
        flags: c_int,
        new_address: *mut c_void,
    ) -> *mut c_void {
        let arguments = [address as usize, length, new_length, flags as usize, new_address as usize, 0];
        // SAFETY: the caller's call, passed on.
        finish(unsafe { sys::syscall(libc::SYS_mremap, arguments) })
    }
}

const POOL_BYTES: usize = 64 * 1024;

#[repr(C, align(4096))]
struct Pool(core::cell::UnsafeCell<[u8; POOL_BYTES]>);

// SAFETY: every byte belongs to one block, by an atomic counter.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(core::cell::UnsafeCell::new([0; POOL_BYTES]));
static POOL_USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block of the pool, preceded by its size; null when the pool is used up.
fn pool_allocate(bytes: usize, alignment: usize) -> *mut c_void {
    let alignment = alignment.max(16);
    if bytes > POOL_BYTES || alignment > 4096 || !alignment.is_power_of_two() {
        return core::ptr::null_mut();
    }
    let start = POOL_USED.fetch_add(bytes + alignment + 32, Ordering::Relaxed);
    let block = (start + 16).next_multiple_of(alignment);
    if block + bytes > POOL_BYTES {
        return core::ptr::null_mut();
    }
    let base = POOL.0.get().cast::<u8>();
    // SAFETY: [block - 16, block + bytes) lies in the pool and belongs only to this call.
    unsafe {
        base.add(block - 16).cast::<usize>().write(bytes);
        base.add(block).cast()
    }
}

/// True for a block of the pool.
#[inline(always)]
pub fn is_of_pool(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(POOL.0.get() as usize) < POOL_BYTES
}

/// The size of a block of the pool; `None` if it is not one.
#[inline(always)]
pub fn pool_bytes(block: *mut c_void) -> Option<usize> {
    if !is_of_pool(block) {
        return None;
    }
    // SAFETY: a pointer into the pool comes from `pool_allocate`, which wrote the size before it.
    Some(unsafe { block.cast::<u8>().sub(16).cast::<usize>().read() })
}
