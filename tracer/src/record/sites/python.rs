//! Python code objects that stacks refer to, as the probe described them.

use memtrace_wire::stack::{CodeHead, PythonFrame, TextForm};
use rustc_hash::FxHashMap;

use super::lines;
use super::tree::Frame;
use super::words::Words;

/// A Python function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// File name, as its code object has it.
    pub file: String,
    /// Qualified name; the plain name before 3.11.
    pub name: String,
}

struct Code {
    function: u32,
    minor: u32,
    first_line: u32,
    table: Box<[u8]>,
}

/// All code objects seen, and the functions they belong to.
#[derive(Default)]
pub struct Codes {
    /// By number.
    pub functions: Vec<Function>,
    numbers: FxHashMap<Function, u32>,
    /// By process and id.
    codes: FxHashMap<u32, FxHashMap<u64, Code>>,
}

impl Codes {
    /// Learns of a code object of a process. A text that makes no sense is passed over.
    pub fn define(&mut self, process: u32, text: &[u8]) {
        let mut words = Words(text);
        let Some(head) = words.take().map(CodeHead::from_words) else { return };
        let (Some(file), Some(name)) = (string(&mut words, head.file), string(&mut words, head.name)) else {
            return;
        };
        let Some(table) = words.bytes(head.table_bytes as usize) else { return };
        let function = Function { file, name };
        let number = *self.numbers.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            self.functions.len() as u32 - 1
        });
        let (minor, first_line) = (head.minor, head.first_line);
        let code = Code { function: number, minor, first_line, table: table.into() };
        self.codes.entry(process).or_default().insert(head.id, code);
    }

    /// The process has ended.
    pub fn forget(&mut self, process: u32) {
        self.codes.remove(&process);
    }

    /// A frame of a process as it goes into the tree.
    pub fn frame(&self, process: u32, code: u64, frame: PythonFrame) -> Frame {
        let Some(code) = self.codes.get(&process).and_then(|codes| codes.get(&code)) else {
            return Frame::Unknown;
        };
        let line = lines::line(code.minor, &code.table, code.first_line, frame.offset);
        Frame::Python { function: code.function, line: line.unwrap_or(0) }
    }
}

fn string(words: &mut Words, form: TextForm) -> Option<String> {
    let bytes = words.bytes(form.bytes as usize)?;
    let character = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(match form.width {
        1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        2 => bytes.chunks_exact(2).map(|c| character(u16::from_le_bytes([c[0], c[1]]).into())).collect(),
        4 => bytes.chunks_exact(4).map(|c| character(u32::from_le_bytes([c[0], c[1], c[2], c[3]]))).collect(),
        _ => return None,
    })
}
