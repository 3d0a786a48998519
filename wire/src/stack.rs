//! The texts of stack events, as little-endian words.
//!
//! [`Kind::Stack`](crate::event::Kind::Stack): a [`StackHead`], then for every Python frame, innermost first,
//! the id of its code and its [`PythonFrame`] word, then a copy of the stack from the stack pointer upwards.
//!
//! [`Kind::PythonCode`](crate::event::Kind::PythonCode): a [`CodeHead`], then file, name and line table, each
//! zero-padded to whole words.
//!
//! [`Kind::Module`](crate::event::Kind::Module): load bias, first address, one past the last address, then the
//! path as the dynamic linker knows it.

/// Blocks and mappings of at least this many bytes come with their call stack.
pub const STACK_THRESHOLD: usize = 64 * 1024;
/// Most bytes of the stack that are copied.
pub const STACK_COPY_MAX: usize = 32 * 1024;
/// Most Python frames that are listed.
pub const PYTHON_FRAMES_MAX: usize = 512;
/// Bit of [`StackHead::python_frames`]: there were more frames than are listed.
pub const MORE_FRAMES: u64 = 1 << 63;

/// What unwinding begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackHead {
    /// Instruction pointer, inside the probe.
    pub ip: u64,
    /// Stack pointer: address of the first copied byte.
    pub sp: u64,
    /// Frame pointer register.
    pub bp: u64,
    /// Python frames that follow, and [`MORE_FRAMES`].
    pub python_frames: u64,
}

impl StackHead {
    /// Words it takes.
    pub const WORDS: usize = 4;

    /// To words.
    pub fn words(&self) -> [u64; StackHead::WORDS] {
        [self.ip, self.sp, self.bp, self.python_frames]
    }

    /// From words.
    pub fn from_words(words: [u64; StackHead::WORDS]) -> StackHead {
        let [ip, sp, bp, python_frames] = words;
        StackHead { ip, sp, bp, python_frames }
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
