//! The Python frames of the calling thread, read from its thread state: no hook, no GIL. A thread's chain of
//! frames is changed by that thread alone, and every frame in it holds its code object.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::stack::{CodeHead, MORE_FRAMES, PYTHON_FRAMES_MAX, PythonFrame, TextForm, words};

use crate::next::look_up;
use crate::process;
use crate::python_layout::{self, Instruction, Layout};
use crate::record::event_with_words;

static IS_INITIALIZED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GET_VERSION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// `PyGILState_GetThisThreadState`: the thread's own state. (`_PyThreadState_UncheckedGet` would give that of
/// whichever thread holds the GIL.)
static THIS_THREAD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CODE_TYPE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Exported by debug builds alone, whose layouts are not known.
static DEBUG_BUILD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Minor version of the interpreter; 0: not looked at yet.
static MINOR: AtomicU32 = AtomicU32::new(0);
/// An interpreter whose layout is not known.
const UNKNOWN: u32 = u32::MAX;

/// Ids of code objects that were described, each at a place its value gives; another in its place means that
/// it may be described again.
static DESCRIBED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// Frames whose owner is the C stack (FRAME_OWNED_BY_CSTACK, from 3.12): evaluation was entered above them.
const OWNER_C: u8 = 3;
/// FRAME_OWNED_BY_GENERATOR.
const OWNER_GENERATOR: u8 = 1;

/// Looks for an interpreter among the libraries the program was linked with. Called together with the other
/// look-ups, because a failing `dlsym` allocates.
pub fn find() {
    let symbols: [(&AtomicPtr<c_void>, &[u8]); 5] = [
        (&IS_INITIALIZED, b"Py_IsInitialized\0"),
        (&GET_VERSION, b"Py_GetVersion\0"),
        (&CODE_TYPE, b"PyCode_Type\0"),
        (&THIS_THREAD, b"PyGILState_GetThisThreadState\0"),
        (&DEBUG_BUILD, b"_Py_NegativeRefcount\0"),
    ];
    for (symbol, name) in symbols {
        let found = look_up(libc::RTLD_DEFAULT, name);
        if found.is_null() {
            return;
        }
        symbol.store(found, Ordering::Relaxed);
    }
}

/// The frames of the calling thread, innermost first.
#[derive(Clone, Copy)]
pub struct Frames {
    layout: Option<&'static Layout>,
    next: *const u8,
}

impl Frames {
    /// Of a thread that runs Python; none otherwise.
    pub fn of_this_thread() -> Frames {
        let none = Frames { layout: None, next: null() };
        let Some(layout) = layout() else { return none };
        // SAFETY: the C API's own function, which may be called without the GIL; offsets of this version.
        unsafe {
            let this_thread: unsafe extern "C" fn() -> *const u8 =
                transmute(THIS_THREAD.load(Ordering::Relaxed));
            let state = this_thread();
            if state.is_null() {
                return none;
            }
            let mut next: *const u8 = read(state, layout.thread_frame);
            if let Some(offset) = layout.holder_frame
                && !next.is_null()
            {
                next = read(next, offset);
            }
            Frames { layout: Some(layout), next }
        }
    }

    /// Describes all code objects that were not described before, and counts the frames: how many will be
    /// listed, with [`MORE_FRAMES`] if there are more.
    pub fn describe(mut self) -> u64 {
        let mut count = 0;
        while let Some((code, _)) = self.frame() {
            if count == PYTHON_FRAMES_MAX as u64 {
                return count | MORE_FRAMES;
            }
            count += 1;
            if let Some(layout) = self.layout {
                // SAFETY: `frame` returns live code objects.
                unsafe { describe(layout, code) };
            }
        }
        count
    }

    /// Two words for every frame.
    pub fn words(mut self) -> impl Iterator<Item = u64> {
        core::iter::from_fn(move || {
            let (code, frame) = self.frame()?;
            // SAFETY: `frame` returns live code objects.
            Some([unsafe { id(self.layout?, code) }, frame.word()])
        })
        .flatten()
    }

    /// The next frame that Python code would see, and its code object.
    fn frame(&mut self) -> Option<(*const u8, PythonFrame)> {
        let layout = self.layout?;
        while !self.next.is_null() {
            let frame = self.next;
            // SAFETY: a frame in the chain of this thread, with the offsets of this version.
            unsafe {
                self.next = read(frame, layout.previous);
                let code: *const u8 = read(frame, layout.code);
                if code.is_null() || read::<*mut c_void>(code, 8) != CODE_TYPE.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(place) = self.place(layout, frame, code) {
                    return Some((code, place));
                }
            }
        }
        None
    }

    /// Where a frame is; `None` for those that are not complete or belong to C.
    unsafe fn place(&self, layout: &Layout, frame: *const u8, code: *const u8) -> Option<PythonFrame> {
        // SAFETY: as for `frame`.
        unsafe {
            match layout.instruction {
                Instruction::Index { offset, bytes } => {
                    let index: i32 = read(frame, offset);
                    Some(PythonFrame { offset: if index < 0 { -1 } else { index * bytes }, entry: true })
                }
                Instruction::Pointer { offset, owner, entry, instructions, first_traceable } => {
                    let at = read::<usize>(frame, offset).wrapping_sub(code as usize + instructions) as isize;
                    let begin = 2 * read::<i32>(code, first_traceable) as isize;
                    let owned_by: u8 = read(frame, owner);
                    if owned_by == OWNER_C || owned_by != OWNER_GENERATOR && at < begin {
                        return None;
                    }
                    let entered = match entry {
                        Some(entry) => read::<u8>(frame, entry) != 0,
                        None => self.next.is_null() || read::<u8>(self.next, owner) == OWNER_C,
                    };
                    Some(PythonFrame { offset: at.max(-1) as i32, entry: entered })
                }
            }
        }
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
        if MINOR.load(Ordering::Relaxed) == 0 {
            let get_version: unsafe extern "C" fn() -> *const c_char =
                transmute(GET_VERSION.load(Ordering::Relaxed));
            let minor = minor(CStr::from_ptr(get_version()).to_bytes());
            MINOR.store(minor.unwrap_or(UNKNOWN), Ordering::Relaxed);
        }
    }
    python_layout::of(MINOR.load(Ordering::Relaxed))
}

/// Minor version of a release build with the GIL, from "3.12.1 (main, …".
fn minor(version: &[u8]) -> Option<u32> {
    const FREE_THREADING: &[u8] = b"free-threading";
    if !DEBUG_BUILD.load(Ordering::Relaxed).is_null()
        || version.windows(FREE_THREADING.len()).any(|window| window == FREE_THREADING)
    {
        return None;
    }
    let digits = version.strip_prefix(b"3.")?.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// Names a code object. Its address is not enough: another one may lie there later.
unsafe fn id(layout: &Layout, code: *const u8) -> u64 {
    // SAFETY: a live code object with this layout.
    let parts = unsafe {
        [
            process::image(),
            code as u64,
            u64::from(read::<u32>(code, layout.first_line)),
            read(code, layout.file),
            read(code, layout.name),
            read(code, layout.lines),
            // `co_code` before 3.11, part of the object's constants and sizes after.
            read(code, 48),
        ]
    };
    parts
        .into_iter()
        .fold(0, |hash: u64, part| (hash.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

unsafe fn describe(layout: &Layout, code: *const u8) {
    const FILE_MAX: usize = 4096;
    const NAME_MAX: usize = 2048;
    const LINES_MAX: usize = 40 * 1024;
    // SAFETY: a live code object with this layout.
    unsafe {
        let id = id(layout, code);
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
        event_with_words(Kind::PythonCode, 0, length * 8, head.words().into_iter().chain(parts));
        place.store(id, Ordering::Release);
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
