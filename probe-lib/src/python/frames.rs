//! The Python frames of the calling thread, read from its thread state, without the GIL. Only the
//! thread itself changes its chain of frames, and every frame in it references its code object.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use memtrace_wire::event::{PYTHON_DEBUG, PYTHON_FREE_THREADED, PYTHON_READ, PYTHON_VERSION};
use memtrace_wire::stack::{PYTHON_FRAMES_MAX, PythonFrame};

use super::code::{self, read};
use super::find_all;
use super::layout::{self, Instruction, Layout};
use crate::tls::Thread;

static IS_INITIALIZED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GET_VERSION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// `PyGILState_GetThisThreadState`: the thread's own state. (`_PyThreadState_UncheckedGet` would
/// give that of whichever thread holds the GIL.)
static THIS_THREAD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Only exported by debug builds, whose layouts are not known.
static DEBUG_BUILD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Minor version of the interpreter; 0: not determined yet.
static MINOR: AtomicU32 = AtomicU32::new(0);
/// An interpreter whose layout is not known.
const UNKNOWN: u32 = u32::MAX;

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
        (&code::TYPE, b"PyCode_Type\0"),
        (&code::OBJECT_HASH, b"PyObject_Hash\0"),
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
                if code != 0 && code::is_code(code, reads) {
                    code::note_life(code, reads);
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
                *code = code::id(layout, object);
                code::describe(layout, object, *code, thread);
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

/// The layout of the interpreter in this process, once it runs.
fn layout() -> Option<&'static Layout> {
    if THIS_THREAD.load(Ordering::Relaxed).is_null() || MINOR.load(Ordering::Acquire) == UNKNOWN {
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
    if MINOR.load(Ordering::Acquire) == 0 {
        let found = interpreter();
        let minor = if found.reading == PYTHON_READ { found.version & 0xff } else { UNKNOWN };
        if minor != UNKNOWN {
            code::count_released();
        }
        MINOR.store(minor, Ordering::Release);
    }
    layout::of(MINOR.load(Ordering::Acquire))
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
