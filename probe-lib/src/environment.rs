//! The environment a program hands to the next one: the preload variable stays in it, also when the program
//! made the environment by hand, and is left out where the probe's file cannot be reached (after chroot(2)),
//! because the dynamic linker would complain on the program's stderr.

use core::ffi::{CStr, c_char};
use core::ptr::null;

use memtrace_wire::handshake::{SOCKET_VARIABLE, TOKEN_VARIABLE};

use crate::next::Strings;
use crate::{connect, process, sys};

const PRELOAD: &str = "LD_PRELOAD";
/// Most bytes of the preload variable.
const PRELOAD_BYTES: usize = 8 * 1024;
/// Entries that may be added, and the NULL.
const ADDED: usize = 4;

/// Calls `call` with the environment as the next program is to see it.
pub fn with<R>(envp: Strings, call: impl FnOnce(Strings) -> R) -> R {
    let Some(change) = Change::needed(envp) else { return call(envp) };
    if process::is_borrowed() {
        // Whatever a vforked child maps, its parent keeps. Its stack is its parent's, who has just called vfork.
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

/// What has to change.
struct Change {
    probe: &'static CStr,
    /// The probe's file is there to be loaded.
    reachable: bool,
    /// The variables that lead to the tracer are there.
    complete: bool,
}

impl Change {
    fn needed(envp: Strings) -> Option<Change> {
        let probe = own_path()?;
        let before = find(envp, PRELOAD).unwrap_or(&[]);
        let present = parts(before).any(|part| part == probe.to_bytes());
        let complete = find(envp, SOCKET_VARIABLE).is_some();
        let reachable = sys::is_readable(probe);
        let as_it_should_be = present == reachable && (complete || !reachable);
        (!as_it_should_be).then_some(Change { probe, reachable, complete })
    }
}

/// Fills in a changed copy; `None` if it does not fit.
fn rewrite(envp: Strings, change: &Change, entries: &mut [*const c_char], preload: &mut [u8]) -> Option<()> {
    let Change { probe, reachable, complete } = *change;
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
    let ours = if reachable { probe.to_bytes() } else { &[] };
    let others = parts(before).filter(|part| *part != probe.to_bytes());
    if join(preload, core::iter::once(ours).chain(others))? {
        add(preload.as_ptr().cast())?;
    }
    if reachable && !complete {
        add(initial(SOCKET_VARIABLE)?)?;
        add(initial(TOKEN_VARIABLE)?)?;
    }
    Some(())
}

/// Where the probe itself was loaded from, as the preload variable said it.
fn own_path() -> Option<&'static CStr> {
    // SAFETY: dladdr(3) with an address of ours; the name lives as long as the module.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(own_path as *const _, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname))
    }
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
    for path in paths.filter(|path| !path.is_empty()) {
        if any {
            put(b":")?;
        }
        put(path)?;
        any = true;
    }
    put(b"\0")?;
    Some(any)
}

/// What the dynamic linker takes apart: colons and spaces separate (ld.so(8)).
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b':' | b' ')).filter(|part| !part.is_empty())
}

/// The value of a variable.
pub fn find(envp: Strings, name: &str) -> Option<&'static [u8]> {
    // SAFETY: an entry of an environment, which outlives the call.
    each(envp).find_map(|entry| unsafe { value(entry, name) })
}

/// `NAME=value`, NUL-terminated, as the image was started with it.
fn initial(name: &str) -> Option<*const c_char> {
    // SAFETY: an entry of the kernel's copy, which stays where it is.
    each(connect::initial_environment()?).find(|entry| unsafe { value(*entry, name) }.is_some())
}

/// What follows `NAME=`, if that is how the entry begins.
///
/// # Safety
/// `entry` is a C string that outlives the use of its value.
unsafe fn value(entry: *const c_char, name: &str) -> Option<&'static [u8]> {
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

fn each(envp: Strings) -> impl Iterator<Item = *const c_char> {
    let mut at = envp;
    core::iter::from_fn(move || {
        // SAFETY: NULL-terminated, as exec(3) demands; a null environment is taken for an empty one, as the
        // kernel does.
        unsafe {
            if at.is_null() || (*at).is_null() {
                return None;
            }
            let entry = *at;
            at = at.add(1);
            Some(entry)
        }
    })
}
