//! The environment that a program passes to the next one: the preload variable stays in it, also
//! when the program made the environment by hand, and names no file that cannot be reached (after
//! chroot(2)), because the dynamic linker would complain on the program's stderr. Those files are
//! the probe and, where it was preloaded too, the CUDA probe. It names neither where that would do
//! the program harm.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null;

use memtrace_wire::handshake::{SOCKET_VARIABLE, TOKEN_VARIABLE};
use memtrace_wire::preloading::Preloading;

use super::environment::{each, find, initial, value};
use super::process;
use crate::arch::symbols::weak;
use crate::next::Strings;
use crate::sys;

const PRELOAD: &str = "LD_PRELOAD";
/// Most bytes of the preload variable.
const PRELOAD_BYTES: usize = 8 * 1024;
/// Entries that may be added, and the NULL.
const ADDED: usize = 4;

/// How a program passes its environment on.
pub struct Passing {
    /// What has to change, if anything.
    change: Option<Change>,
    loads_the_probe: bool,
}

impl Passing {
    /// How this environment is passed on to a program.
    pub fn of(envp: Strings, preloading: Preloading) -> Passing {
        let harmless = preloading != Preloading::DoesHarm;
        let wanted = |library: Library| Library { loadable: library.loadable && harmless, ..library };
        let Some(probe) = Library::at(rewrite as *const c_void).map(wanted) else {
            return Passing { change: None, loads_the_probe: false };
        };
        let cuda = Some(cuda_probe()).filter(|address| !address.is_null()).and_then(Library::at).map(wanted);
        let loads_the_probe = probe.loadable && preloading == Preloading::Works;
        Passing { change: Change::needed(envp, probe, cuda), loads_the_probe }
    }

    /// True if the program will load the probe.
    pub fn loads_the_probe(&self) -> bool {
        self.loads_the_probe
    }

    /// Calls `call` with the environment as the next program is to see it.
    pub fn with<R>(self, envp: Strings, call: impl FnOnce(Strings) -> R) -> R {
        match self.change {
            Some(change) => with(envp, change, call),
            None => call(envp),
        }
    }
}

fn with<R>(envp: Strings, change: Change, call: impl FnOnce(Strings) -> R) -> R {
    if process::is_borrowed() {
        // What a vforked child maps stays mapped in its parent. Its stack is its parent's, which
        // has just called vfork.
        return on_the_stack(envp, &change, call);
    }
    // A thread's stack, or a signal handler's, may have a few kilobytes only.
    let room = (each(envp).count() + ADDED) * size_of::<*const c_char>();
    let Some(memory) = sys::map_memory(room + PRELOAD_BYTES) else { return call(envp) };
    // SAFETY: just mapped, zeroed, aligned, and large enough for both.
    let (entries, preload) = unsafe {
        (
            core::slice::from_raw_parts_mut(memory.cast(), room / size_of::<*const c_char>()),
            core::slice::from_raw_parts_mut(memory.add(room), PRELOAD_BYTES),
        )
    };
    let result = call(rewritten(envp, &change, entries, preload));
    sys::unmap_memory(memory, room + PRELOAD_BYTES);
    result
}

#[inline(never)]
fn on_the_stack<R>(envp: Strings, change: &Change, call: impl FnOnce(Strings) -> R) -> R {
    const ENTRIES: usize = 1024;
    let mut entries = [null::<c_char>(); ENTRIES];
    let mut preload = [0u8; PRELOAD_BYTES];
    call(rewritten(envp, change, &mut entries, &mut preload))
}

/// The changed copy, or the environment as it is if that does not fit.
fn rewritten(envp: Strings, change: &Change, entries: &mut [*const c_char], preload: &mut [u8]) -> Strings {
    if rewrite(envp, change, entries, preload).is_some() { entries.as_ptr() } else { envp }
}

/// A library of ours.
#[derive(Clone, Copy)]
struct Library {
    /// Its file, as the preload variable said it.
    path: &'static CStr,
    /// The file is there to be loaded, and does the program no harm.
    loadable: bool,
}

impl Library {
    /// The one that an address lies in; the name lives as long as the module.
    fn at(address: *const c_void) -> Option<Library> {
        // SAFETY: dladdr(3) takes any address; all zeroes is a valid Dl_info.
        let path = unsafe {
            let mut info: libc::Dl_info = core::mem::zeroed();
            if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            CStr::from_ptr(info.dli_fname)
        };
        Some(Library { path, loadable: sys::is_readable(path) })
    }

    fn is(&self, part: &[u8]) -> bool {
        part == self.path.to_bytes()
    }
}

/// A function of the CUDA probe; null if it was not preloaded.
fn cuda_probe() -> *const c_void {
    weak!("memtrace_cuda_probe")
}

/// What has to change.
struct Change {
    probe: Library,
    cuda: Option<Library>,
    /// The variables that lead to the tracer are there.
    complete: bool,
}

impl Change {
    fn needed(envp: Strings, probe: Library, cuda: Option<Library>) -> Option<Change> {
        let complete = find(envp, SOCKET_VARIABLE).is_some();
        let change = Change { probe, cuda, complete };
        let before = find(envp, PRELOAD).unwrap_or(&[]);
        let preloaded =
            change.libraries().all(|library| parts(before).any(|part| library.is(part)) == library.loadable);
        let as_it_should_be = preloaded && (complete || !probe.loadable);
        (!as_it_should_be).then_some(change)
    }

    fn libraries(&self) -> impl Iterator<Item = Library> {
        core::iter::once(self.probe).chain(self.cuda)
    }
}

/// Fills in a changed copy; `None` if it does not fit.
fn rewrite(envp: Strings, change: &Change, entries: &mut [*const c_char], preload: &mut [u8]) -> Option<()> {
    let before = find(envp, PRELOAD).unwrap_or(&[]);
    let mut count = 0;
    let mut add = |entry: *const c_char| {
        // The last one stays null.
        let (_, room) = entries.split_last_mut()?;
        *room.get_mut(count)? = entry;
        count += 1;
        Some(())
    };
    for variable in each(envp) {
        // SAFETY: an entry of an environment.
        if unsafe { value(variable, PRELOAD) }.is_none() {
            add(variable)?;
        }
    }
    let ours = change.libraries().filter(|library| library.loadable).map(|library| library.path.to_bytes());
    let others = parts(before).filter(|part| !change.libraries().any(|library| library.is(part)));
    if join(preload, ours.chain(others))? {
        add(preload.as_ptr().cast())?;
    }
    if change.probe.loadable && !change.complete {
        add(initial(SOCKET_VARIABLE)?)?;
        add(initial(TOKEN_VARIABLE)?)?;
    }
    Some(())
}

/// Writes `LD_PRELOAD=a:b:c`, NUL-terminated; false if there is nothing to preload.
fn join<'a>(buffer: &mut [u8], paths: impl Iterator<Item = &'a [u8]>) -> Option<bool> {
    let mut used = 0;
    let mut put = |bytes: &[u8]| {
        let room = buffer.get_mut(used..used + bytes.len())?;
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        used += bytes.len();
        Some(())
    };
    put(PRELOAD.as_bytes())?;
    put(b"=")?;
    let mut any = false;
    for path in paths {
        if any {
            put(b":")?;
        }
        put(path)?;
        any = true;
    }
    put(b"\0")?;
    Some(any)
}

/// The parts of the variable: colons and spaces separate (ld.so(8)).
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b':' | b' ')).filter(|part| !part.is_empty())
}
