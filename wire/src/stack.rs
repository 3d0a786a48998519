//! The texts of stack events, as little-endian words.
//!
//! [`Kind::Frames`](crate::event::Kind::Frames): a [`FramesHead`], then the addresses of the native
//! frames, innermost first (each less one lies in its frame's function), then for every Python
//! frame, innermost first, the id of its code and its [`PythonFrame`] word.
//!
//! [`Kind::PythonCode`](crate::event::Kind::PythonCode): a [`CodeHead`], then file, name and line
//! table, each zero-padded to whole words.
//!
//! [`Kind::Module`](crate::event::Kind::Module): load bias, first address, one past the last
//! address, then the path as the dynamic linker knows it.

/// Most native frames of a stack.
pub const NATIVE_FRAMES_MAX: usize = 256;
/// Most Python frames of a stack.
pub const PYTHON_FRAMES_MAX: usize = 512;

/// What precedes the frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramesHead {
    /// Native frames.
    pub native: usize,
    /// Python frames.
    pub python: usize,
    /// The outermost frame of either kind is among them.
    pub complete: bool,
}

impl FramesHead {
    /// To a word.
    pub fn word(self) -> u64 {
        (self.native as u64) | (self.python as u64) << 16 | u64::from(self.complete) << 32
    }

    /// From a word.
    pub fn from_word(word: u64) -> FramesHead {
        let part = |shift: u32| (word >> shift & 0xffff) as usize;
        FramesHead { native: part(0), python: part(16), complete: word >> 32 & 1 != 0 }
    }
}

/// Where a Python frame is in its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrame {
    /// Bytes from the start of the bytecode to the instruction; -1 before the first one.
    pub offset: i32,
    /// It is the outermost of those that one call of the interpreter's evaluation function runs.
    pub entry: bool,
}

impl PythonFrame {
    /// To a word.
    pub fn word(self) -> u64 {
        u64::from(self.entry) << 32 | u64::from(self.offset as u32)
    }

    /// From a word.
    pub fn from_word(word: u64) -> PythonFrame {
        PythonFrame { offset: word as u32 as i32, entry: word >> 32 & 1 != 0 }
    }
}

/// What precedes the texts of a code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeHead {
    /// By which frames refer to it.
    pub id: u64,
    /// Minor version of the interpreter: says how the line table is read.
    pub minor: u32,
    /// First line.
    pub first_line: u32,
    /// File name.
    pub file: TextForm,
    /// Qualified name; the plain name before 3.11.
    pub name: TextForm,
    /// Bytes of the line table.
    pub table_bytes: u32,
}

/// A Python string as it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextForm {
    /// Bytes.
    pub bytes: u32,
    /// Bytes per character (PEP 393): 1 (Latin-1), 2 or 4.
    pub width: u32,
}

impl CodeHead {
    /// Words it takes.
    pub const WORDS: usize = 5;

    /// To words.
    pub fn words(&self) -> [u64; CodeHead::WORDS] {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [
            self.id,
            pair(self.minor, self.first_line),
            pair(self.file.bytes, self.file.width),
            pair(self.name.bytes, self.name.width),
            u64::from(self.table_bytes),
        ]
    }

    /// From words.
    pub fn from_words(words: [u64; CodeHead::WORDS]) -> CodeHead {
        let [id, versions, file, name, table_bytes] = words;
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        CodeHead {
            id,
            minor: low(versions),
            first_line: high(versions),
            file: TextForm { bytes: low(file), width: high(file) },
            name: TextForm { bytes: low(name), width: high(name) },
            table_bytes: low(table_bytes),
        }
    }
}

/// The words of a text, the last one zero-padded.
pub fn words(text: &[u8]) -> impl Iterator<Item = u64> {
    text.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(chunk) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    })
}
