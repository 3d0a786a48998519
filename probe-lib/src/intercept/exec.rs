//! The functions that start another program. Each is reported before and after the call, because
//! the next image may not load the probe, and gets an environment that does ([`Passing`]). `system`
//! and `popen` pass the process's own environment, which has the variables.

use core::ffi::{CStr, c_char, c_int, c_void};

use memtrace_wire::event::{ENDING_EXEC, Kind};

use super::exit;
use crate::arch::variadic::variadic;
use crate::connection::executable::preloading;
use crate::connection::preload::Passing;
use crate::connection::process;
use crate::next::{self, Strings};
use crate::ring::record::{event, event_with_text};
use crate::sys;

/// Most bytes of a program's name in an event.
const NAME_MAX: usize = 4096;

unsafe extern "C" {
    static environ: Strings;
}

/// execve(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the program's call, passed on.
    execute(path, envp, |envp| unsafe { next::execve(path, argv, envp) })
}

/// execv(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: as the C library does it.
    unsafe { execve(path, argv, environ) }
}

/// execvpe(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the program's call, passed on.
    execute(file, envp, |envp| unsafe { next::execvpe(file, argv, envp) })
}

/// execvp(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: as the C library does it.
    unsafe { execvpe(file, argv, environ) }
}

/// fexecve(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(descriptor: c_int, argv: Strings, envp: Strings) -> c_int {
    if envp.is_null() {
        // SAFETY: the program's call, passed on; the C library refuses it.
        return unsafe { next::fexecve(descriptor, argv, envp) };
    }
    // SAFETY: the program's call, passed on.
    execute(c"".as_ptr(), envp, |envp| unsafe { next::fexecve(descriptor, argv, envp) })
}

/// execveat(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: Strings,
    envp: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's call, passed on.
    execute(path, envp, |envp| unsafe { next::execveat(directory, path, argv, envp, flags) })
}

/// posix_spawn(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    spawn(pid, path, envp, |pid, envp| {
        // SAFETY: the program's call, passed on.
        unsafe { next::posix_spawn(pid, path, actions, attributes, argv, envp) }
    })
}

/// posix_spawnp(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    spawn(pid, file, envp, |pid, envp| {
        // SAFETY: the program's call, passed on.
        unsafe { next::posix_spawnp(pid, file, actions, attributes, argv, envp) }
    })
}

variadic! {
    /// execl(3)
    execl => execv;
    /// execlp(3)
    execlp => execvp;
    /// execle(3)
    execle => execle_array;
}

/// execle(3) has the environment after the arguments' NULL.
unsafe extern "C" fn execle_array(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller passes arguments, a NULL and an environment.
    unsafe {
        let mut end = argv;
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, argv, end.add(1).cast::<Strings>().read())
    }
}

fn execute(path: *const c_char, envp: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    if !process::is_recorded() {
        return call(envp);
    }
    let passing = Passing::of(envp, preloading(path));
    // A child that was forked only to execute a program needs no ring and no row, unless the
    // program will not report itself.
    if process::forked() && passing.loads_the_probe() {
        return passing.with(envp, call);
    }
    let pid = sys::getpid();
    event_with_text(Kind::Exec, u64::from(pid), name(path));
    exit::report(ENDING_EXEC);
    let result = passing.with(envp, call);
    event(Kind::ExecFailed, pid as usize, 0, 0);
    result
}

fn spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    envp: Strings,
    call: impl FnOnce(*mut libc::pid_t, Strings) -> c_int,
) -> c_int {
    if !process::is_recorded() {
        return call(pid, envp);
    }
    let mut child = 0;
    let place = if pid.is_null() { &raw mut child } else { pid };
    let result = Passing::of(envp, preloading(path)).with(envp, |envp| call(place, envp));
    if result == 0 {
        // SAFETY: ours, or the caller's, who was promised a pid there.
        event_with_text(Kind::Spawned, unsafe { *place } as u64, name(path));
    }
    result
}

fn name<'a>(path: *const c_char) -> &'a [u8] {
    if path.is_null() {
        return &[];
    }
    // SAFETY: a C string, as exec(3) demands.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    bytes.get(..NAME_MAX).unwrap_or(bytes)
}
