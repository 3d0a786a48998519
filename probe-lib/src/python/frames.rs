//! The Python frames of the calling thread, read from its thread state: no hook, no GIL. Only the
//! thread itself changes its chain of frames, and every frame in it references its code object.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use memtrace_wire::event::{Kind, PYTHON_DEBUG, PYTHON_FREE_THREADED, PYTHON_READ, PYTHON_VERSION};
use memtrace_wire::stack::{CodeHead, PYTHON_FRAMES_MAX, PythonFrame, TextForm, words};

use super::find_all;
use super::layout::{self, Instruction, Layout};
use crate::connection::process;
use crate::ring::record::push_inside;
use crate::tls::Thread;

static IS_INITIALIZED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GET_VERSION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// `PyGILState_GetThisThreadState`: the thread's own state. (`_PyThreadState_UncheckedGet` would
/// give that of whichever thread holds the GIL.)
static THIS_THREAD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static OBJECT_HASH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CODE_TYPE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Only exported by debug builds, whose layouts are not known.
static DEBUG_BUILD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Minor version of the interpreter; 0: not determined yet.
static MINOR: AtomicU32 = AtomicU32::new(0);
/// An interpreter whose layout is not known.
const UNKNOWN: u32 = u32::MAX;

/// Ids of code objects that were described, each at a place its value gives; another in its place
/// means that it may be described again.
static DESCRIBED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// Frames whose owner is the C stack (FRAME_OWNED_BY_CSTACK, from 3.12; from 3.14 called
/// FRAME_OWNED_BY_INTERPRETER): evaluation was entered above them.
const OWNER_C: u8 = 3;
/// FRAME_OWNED_BY_GENERATOR.
const OWNER_GENERATOR: u8 = 1;

/// Looks up an interpreter among the libraries the program was linked with. Called together with
/// the other look-ups, because a failing `dlsym` allocates.
pub fn find() {
    find_all(&[
        (&IS_INITIALIZED, b"Py_IsInitialized\0"),
        (&GET_VERSION, b"Py_GetVersion\0"),
        (&CODE_TYPE, b"PyCode_Type\0"),
        (&OBJECT_HASH, b"PyObject_Hash\0"),
        (&THIS_THREAD, b"PyGILState_GetThisThreadState\0"),
        (&DEBUG_BUILD, b"_Py_NegativeRefcount\0"),
    ]);
}

/// The thread's own state; null for a thread that runs no Python.
#[inline(always)]
pub fn thread_state() -> *const u8 {
    if THIS_THREAD.load(Ordering::Relaxed).is_null() { null() } else { state_of_python() }
}

#[inline(never)]
fn state_of_python() -> *const u8 {
    if layout().is_none() {
        return null();
    }
    // SAFETY: the C API's own function, which may be called without the GIL.
    unsafe {
        let this_thread: unsafe extern "C" fn() -> *const u8 = transmute(THIS_THREAD.load(Ordering::Relaxed));
        this_thread()
    }
}

/// Reading words of the thread's memory; what was read is noted.
pub trait NotedReads {
    /// A word that is there.
    ///
    /// # Safety
    /// It is, as long as all words read before are what they are.
    unsafe fn live(&mut self, address: usize) -> u64;
}

/// Python frames as they are reported, innermost first.
#[repr(C)]
pub struct PythonFrames {
    count: usize,
    /// The id of its code object, and where it is.
    list: [[u64; 2]; PYTHON_FRAMES_MAX],
}

impl PythonFrames {
    /// The frames.
    pub fn list(&self) -> &[[u64; 2]] {
        self.list.get(..self.count).unwrap_or(&[])
    }

    fn push(&mut self, code: *const u8, frame: PythonFrame) -> Option<()> {
        *self.list.get_mut(self.count)? = [code as u64, frame.word()];
        self.count += 1;
        Some(())
    }

    /// Walks the frames of the thread whose state was noted at `state`; false if there are more
    /// than can be reported.
    pub fn walk(&mut self, state: *const usize, reads: &mut impl NotedReads) -> bool {
        self.count = 0;
        let layout = if THIS_THREAD.load(Ordering::Relaxed).is_null() { None } else { layout() };
        let Some(layout) = layout else { return true };
        // SAFETY: the thread's own chain, with the offsets of this version.
        unsafe { self.walk_chain(layout, state, reads) }.is_some()
    }

    /// Notes every word that decides what the stack is: as long as these words are what they were,
    /// so is the stack.
    unsafe fn walk_chain(
        &mut self,
        layout: &Layout,
        state: *const usize,
        reads: &mut impl NotedReads,
    ) -> Option<()> {
        // SAFETY: the state is the thread's, and what it leads to is in use while
        // these words are what they are.
        unsafe {
            let state = reads.live(state as usize) as usize;
            if state == 0 {
                return Some(());
            }
            let mut frame = reads.live(state + layout.thread_frame) as usize;
            if let Some(offset) = layout.holder_frame
                && frame != 0
            {
                frame = reads.live(frame + offset) as usize;
            }
            let mut owner = None;
            while frame != 0 {
                let previous = reads.live(frame + layout.previous) as usize;
                let code = reads.live(frame + layout.code) as usize & !layout.code_tags;
                let place = place(layout, [frame, previous, code], &mut owner, reads);
                if code != 0 && is_code(code, reads) {
                    reads.live(code + (layout.first_line & !7));
                    for offset in [layout.file, layout.name, layout.lines] {
                        let object = reads.live(code + offset) as usize;
                        hash(object);
                        reads.live(object + HASH);
                    }
                    if let Some(place) = place.complete(layout, code) {
                        self.push(code as *const u8, place)?;
                    }
                }
                frame = previous;
            }
            Some(())
        }
    }

    /// Describes all code objects that were not described before, and puts their ids in their
    /// place. Call it with the guard held.
    pub fn describe(&mut self, thread: &mut Thread) {
        let Some(layout) = (if self.count > 0 { layout() } else { None }) else { return };
        for [code, _] in self.list.get_mut(..self.count).into_iter().flatten() {
            let object = *code as *const u8;
            // SAFETY: a code object of a frame that is being run.
            unsafe {
                *code = id(layout, object);
                describe(layout, object, *code, thread);
            }
        }
    }
}

/// Where a frame is, as far as the frame itself says.
struct Place {
    /// Bytes into the code object, or into its instructions before 3.11.
    at: isize,
    owner: u8,
    entry: bool,
}

/// Of a frame, its caller and its code object. `owner` is the word of the frame that says who owns
/// it, if it was read for its callee, and of the caller afterwards.
unsafe fn place(
    layout: &Layout,
    [frame, previous, code]: [usize; 3],
    owner: &mut Option<u64>,
    reads: &mut impl NotedReads,
) -> Place {
    let byte = |word: u64, offset: usize| (word >> (offset % 8 * 8)) as u8;
    // SAFETY: as for the walk.
    unsafe {
        match layout.instruction {
            Instruction::Index { offset, bytes } => {
                let index = reads.live(frame + offset) as i32;
                let at = if index < 0 { -1 } else { index * bytes };
                Place { at: at as isize, owner: 0, entry: true }
            }
            Instruction::Pointer { offset, owner: owned_by, entry, .. } => {
                let at = (reads.live(frame + offset) as usize).wrapping_sub(code) as isize;
                let mut word_of = |frame: usize| reads.live(frame + (owned_by & !7));
                let own = owner.take().unwrap_or_else(|| word_of(frame));
                let entered = match entry {
                    Some(entry) => byte(own, entry) != 0,
                    None if previous == 0 => true,
                    None => byte(*owner.insert(word_of(previous)), owned_by) == OWNER_C,
                };
                Place { at, owner: byte(own, owned_by), entry: entered }
            }
        }
    }
}

impl Place {
    /// `None` for frames that are not complete or belong to C.
    unsafe fn complete(&self, layout: &Layout, code: usize) -> Option<PythonFrame> {
        let Instruction::Pointer { instructions, first_traceable, .. } = layout.instruction else {
            return Some(PythonFrame { offset: self.at as i32, entry: self.entry });
        };
        // SAFETY: a live code object with this layout.
        let begin = 2 * unsafe { read::<i32>(code as *const u8, first_traceable) } as isize;
        let at = self.at - instructions as isize;
        if self.owner == OWNER_C || self.owner != OWNER_GENERATOR && at < begin {
            return None;
        }
        Some(PythonFrame { offset: at.max(-1) as i32, entry: self.entry })
    }
}

/// True for code objects: frames may have others (3.13).
unsafe fn is_code(object: usize, reads: &mut impl NotedReads) -> bool {
    let code_type = CODE_TYPE.load(Ordering::Relaxed) as usize;
    // SAFETY: a live object; its type is at 8. A frame's code object stays
    // one, so only others are noted.
    unsafe {
        read::<usize>(object as *const u8, 8) == code_type || reads.live(object + 8) as usize == code_type
    }
}

/// The layout of the interpreter in this process, once it runs.
fn layout() -> Option<&'static Layout> {
    if THIS_THREAD.load(Ordering::Relaxed).is_null() || MINOR.load(Ordering::Relaxed) == UNKNOWN {
        return None;
    }
    // SAFETY: the C API documents these signatures, and that both may be called at any time.
    unsafe {
        let is_initialized: unsafe extern "C" fn() -> c_int =
            transmute(IS_INITIALIZED.load(Ordering::Relaxed));
        if is_initialized() == 0 {
            return None;
        }
    }
    if MINOR.load(Ordering::Relaxed) == 0 {
        let found = interpreter();
        let minor = if found.reading == PYTHON_READ { found.version & 0xff } else { UNKNOWN };
        MINOR.store(minor, Ordering::Relaxed);
    }
    layout::of(MINOR.load(Ordering::Relaxed))
}

/// An interpreter that runs in this process.
pub struct Interpreter {
    /// Whether its frames can be read: one of the `PYTHON_` constants.
    pub reading: u64,
    /// Major version << 8 | minor version.
    pub version: u32,
}

/// The interpreter of this process.
pub fn interpreter() -> Interpreter {
    let get_version = GET_VERSION.load(Ordering::Relaxed);
    if get_version.is_null() {
        return Interpreter { reading: PYTHON_VERSION, version: 0 };
    }
    // SAFETY: the C API documents this signature, and that it may be called at any time.
    let text = unsafe {
        let get_version: unsafe extern "C" fn() -> *const c_char = transmute(get_version);
        CStr::from_ptr(get_version()).to_bytes()
    };
    let version = version(text);
    let reading = if !DEBUG_BUILD.load(Ordering::Relaxed).is_null() {
        PYTHON_DEBUG
    } else if text.windows(FREE_THREADING.len()).any(|window| window == FREE_THREADING) {
        PYTHON_FREE_THREADED
    } else if THIS_THREAD.load(Ordering::Relaxed).is_null()
        || version >> 8 != 3
        || layout::of(version & 0xff).is_none()
    {
        PYTHON_VERSION
    } else {
        PYTHON_READ
    };
    Interpreter { reading, version }
}

/// How such a build calls itself ("3.13.0 experimental free-threading build (…").
const FREE_THREADING: &[u8] = b"free-threading";

/// Major << 8 | minor, from "3.12.1 (main, …".
fn version(text: &[u8]) -> u32 {
    let number = |part: &[u8]| {
        part.iter().fold(0, |number: u32, digit| {
            number.wrapping_mul(10).wrapping_add(u32::from(digit.wrapping_sub(b'0')))
        })
    };
    let mut parts = text.split(|byte| !byte.is_ascii_digit()).map(number);
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    major << 8 | minor & 0xff
}

/// Names a code object by what it says. Its address is not enough, nor are those of its parts:
/// others may lie there later, at just the same places.
unsafe fn id(layout: &Layout, code: *const u8) -> u64 {
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

unsafe fn describe(layout: &Layout, code: *const u8, id: u64, thread: &mut Thread) {
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

unsafe fn read<T: Copy>(base: *const u8, offset: usize) -> T {
    // SAFETY: the caller knows that a `T` lies there.
    unsafe { base.add(offset).cast::<T>().read() }
}
