//! Code objects: telling one from another that lies in its place later, and describing them to the
//! tracer.

use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use memtrace_wire::event::Kind;
use memtrace_wire::stack::{CodeHead, TextForm, words};

use super::frames::NotedReads;
use super::layout::Layout;
use crate::connection::process;
use crate::ring::record::push_inside;
use crate::tls::Thread;

/// `PyCode_Type`; found with the rest of the interpreter.
pub static TYPE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// `PyObject_Hash`.
pub static OBJECT_HASH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// `PyTypeObject`: to `tp_dealloc`, in all versions.
const DEALLOCATE: usize = 48;
/// What releases the interpreter's code objects; null as long as they are not counted.
static INTERPRETERS_OWN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// How many code objects were released, each counted at a place its address gives.
static RELEASED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Ids of code objects that were described, each at a place its value gives; another in its place
/// means that it may be described again.
static DESCRIBED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// Has code objects counted that are released from now on. Call it before frames are read.
pub fn count_released() {
    let of_type = TYPE.load(Ordering::Relaxed).wrapping_byte_add(DEALLOCATE).cast::<AtomicPtr<c_void>>();
    // SAFETY: the interpreter's own type, which it defines as a variable; it reads this pointer
    // whenever it releases a code object.
    let of_type = unsafe { &*of_type };
    let ours = release as *mut c_void;
    let own = of_type.load(Ordering::SeqCst);
    if own != ours {
        // Another thread may have come first, with the same.
        let _ = INTERPRETERS_OWN.compare_exchange(null_mut(), own, Ordering::SeqCst, Ordering::SeqCst);
        of_type.store(ours, Ordering::SeqCst);
    }
}

unsafe extern "C" fn release(code: *mut c_void) {
    released(code as usize).fetch_add(1, Ordering::Relaxed);
    // What led here was stored after what is called.
    fence(Ordering::Acquire);
    // SAFETY: what the type had before, with the argument that the interpreter passes.
    unsafe {
        let own: unsafe extern "C" fn(*mut c_void) = transmute(INTERPRETERS_OWN.load(Ordering::Relaxed));
        own(code);
    }
}

/// How many code objects were released at this address, and at others that share its place.
fn released(code: usize) -> &'static AtomicU64 {
    // SAFETY: the hash has as many bits as there are places.
    unsafe { RELEASED.get_unchecked(code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - 10)) }
}

/// Notes what changes when the code object of a frame is released.
pub fn note_life(code: usize, reads: &mut impl NotedReads) {
    // SAFETY: a static. As long as the thread has the frame, its code object is not released; that
    // others at the same place are counted meanwhile changes the word at once or not yet.
    unsafe { reads.live(core::ptr::from_ref(released(code)) as usize) };
}

/// True for code objects: frames may have others (3.13).
pub unsafe fn is_code(object: usize, reads: &mut impl NotedReads) -> bool {
    let code_type = TYPE.load(Ordering::Relaxed) as usize;
    // SAFETY: a live object; its type is at 8. A frame's code object stays
    // one, so only others are noted.
    unsafe {
        read::<usize>(object as *const u8, 8) == code_type || reads.live(object + 8) as usize == code_type
    }
}

/// Names a code object by what it says. Its address is not enough, nor are those of its parts:
/// others may lie there later, at just the same places.
pub unsafe fn id(layout: &Layout, code: *const u8) -> u64 {
    // SAFETY: a live code object with this layout, and so are its parts.
    let parts = unsafe {
        [
            process::image(),
            u64::from(read::<u32>(code, layout.first_line)),
            hash(read(code, layout.file)),
            hash(read(code, layout.name)),
            hash(read(code, layout.lines)),
        ]
    };
    parts
        .into_iter()
        .fold(0, |hash: u64, part| (hash.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Where text and bytes objects keep the hash of what they contain.
const HASH: usize = 24;

/// The hash of a text or bytes object. They compute it at the first request and store it; new ones
/// have none, so it distinguishes an object from another one that lay in its place.
unsafe fn hash(object: usize) -> u64 {
    const NONE: u64 = u64::MAX;
    // SAFETY: a live object of one of these types; the C API's own function reads nothing else.
    unsafe {
        if read::<u64>(object as *const u8, HASH) == NONE {
            let hash: unsafe extern "C" fn(usize) -> isize = transmute(OBJECT_HASH.load(Ordering::Relaxed));
            hash(object);
        }
        read(object as *const u8, HASH)
    }
}

pub unsafe fn describe(layout: &Layout, code: *const u8, id: u64, thread: &mut Thread) {
    const FILE_MAX: usize = 4096;
    const NAME_MAX: usize = 2048;
    const LINES_MAX: usize = 40 * 1024;
    // SAFETY: a live code object with this layout.
    unsafe {
        let Some(place) = DESCRIBED.get((id >> 52) as usize) else { return };
        if place.load(Ordering::Acquire) == id {
            return;
        }
        let (file, file_form) = text(layout, read(code, layout.file), FILE_MAX);
        let (name, name_form) = text(layout, read(code, layout.name), NAME_MAX);
        let lines = bytes(read(code, layout.lines), LINES_MAX);
        let head = CodeHead {
            id,
            minor: layout.minor,
            first_line: read(code, layout.first_line),
            file: file_form,
            name: name_form,
            table_bytes: lines.len() as u32,
        };
        let parts = words(file).chain(words(name)).chain(words(lines));
        let length =
            CodeHead::WORDS + file.len().div_ceil(8) + name.len().div_ceil(8) + lines.len().div_ceil(8);
        if push_inside(thread, Kind::PythonCode, 0, length * 8, head.words().into_iter().chain(parts)) {
            place.store(id, Ordering::Release);
        }
    }
}

/// The characters of a Python text as they lie in memory (PEP 393), at most `most` bytes.
unsafe fn text<'a>(layout: &Layout, text: *const u8, most: usize) -> (&'a [u8], TextForm) {
    const COMPACT: u32 = 1 << 5;
    const ASCII: u32 = 1 << 6;
    // SAFETY: a `PyUnicodeObject`: length at 16, state at 32, characters behind its header.
    unsafe {
        let state: u32 = read(text, 32);
        let width = state >> 2 & 7;
        if state & COMPACT == 0 || !matches!(width, 1 | 2 | 4) {
            return (&[], TextForm { bytes: 0, width: 1 });
        }
        let [ascii, other] = layout.text;
        let header = if state & ASCII != 0 { ascii } else { other };
        let bytes = read::<usize>(text, 16).saturating_mul(width as usize).min(most);
        (core::slice::from_raw_parts(text.add(header), bytes), TextForm { bytes: bytes as u32, width })
    }
}

/// The content of a Python bytes object: length at 16, bytes from 32 on.
unsafe fn bytes<'a>(object: *const u8, most: usize) -> &'a [u8] {
    // SAFETY: a live bytes object.
    unsafe { core::slice::from_raw_parts(object.add(32), read::<usize>(object, 16).min(most)) }
}

/// What lies at an offset.
pub unsafe fn read<T: Copy>(base: *const u8, offset: usize) -> T {
    // SAFETY: the caller knows that a `T` lies there.
    unsafe { base.add(offset).cast::<T>().read() }
}
