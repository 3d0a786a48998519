//! Where CPython 3.8 to 3.14 keep what a stack needs: offsets in release builds with the
//! GIL, by `offsetof` over Include/{cpython,internal} of each version; none of them
//! changes within a minor version.

/// Offsets of one minor version.
pub struct Layout {
    /// Minor version.
    pub minor: u32,
    /// `PyThreadState`: to the pointer to the innermost frame, or to the structure that holds it.
    pub thread_frame: usize,
    /// In that structure (`_PyCFrame`, 3.11 and 3.12).
    pub holder_frame: Option<usize>,
    /// Frame: to its caller's frame.
    pub previous: usize,
    /// Frame: to its code object.
    pub code: usize,
    /// Bits of that pointer that are no part of the address.
    pub code_tags: usize,
    /// Frame: to the instruction it is at.
    pub instruction: Instruction,
    /// Code object: to the first line.
    pub first_line: usize,
    /// Code object: to the file name.
    pub file: usize,
    /// Code object: to the qualified name; the name before 3.11.
    pub name: usize,
    /// Code object: to the line table.
    pub lines: usize,
    /// Text object: its header's size for ASCII, and for other text.
    pub text: [usize; 2],
}

/// How a frame says where it is.
pub enum Instruction {
    /// An index, -1 before the first, of this many bytes each (3.8 to 3.10).
    Index { offset: usize, bytes: i32 },
    /// A pointer into the code object (from 3.11).
    Pointer {
        offset: usize,
        /// Frame: to the byte that says who owns it.
        owner: usize,
        /// Frame: to the byte that says that evaluation was entered with it (3.11).
        entry: Option<usize>,
        /// Code object: to the instructions.
        instructions: usize,
        /// Code object: to the index of the first instruction at which the frame is complete.
        first_traceable: usize,
    },
}

const V3_8: Layout = Layout {
    minor: 8,
    thread_frame: 24,
    holder_frame: None,
    previous: 24,
    code: 32,
    code_tags: 0,
    instruction: Instruction::Index { offset: 104, bytes: 1 },
    first_line: 40,
    file: 104,
    name: 112,
    lines: 120,
    text: [48, 72],
};
const V3_9: Layout = Layout { minor: 9, ..V3_8 };
const V3_10: Layout = Layout { minor: 10, instruction: Instruction::Index { offset: 96, bytes: 2 }, ..V3_8 };
const V3_11: Layout = Layout {
    minor: 11,
    thread_frame: 56,
    holder_frame: Some(8),
    previous: 48,
    code: 32,
    code_tags: 0,
    instruction: Instruction::Pointer {
        offset: 56,
        owner: 69,
        entry: Some(68),
        instructions: 184,
        first_traceable: 168,
    },
    first_line: 72,
    file: 112,
    name: 128,
    lines: 136,
    text: [48, 72],
};
const V3_12: Layout = Layout {
    minor: 12,
    holder_frame: Some(0),
    previous: 8,
    code: 0,
    instruction: Instruction::Pointer {
        offset: 56,
        owner: 70,
        entry: None,
        instructions: 192,
        first_traceable: 176,
    },
    first_line: 68,
    text: [40, 56],
    ..V3_11
};
const V3_13: Layout = Layout {
    minor: 13,
    thread_frame: 72,
    holder_frame: None,
    instruction: Instruction::Pointer {
        offset: 56,
        owner: 70,
        entry: None,
        instructions: 200,
        first_traceable: 184,
    },
    ..V3_12
};
const V3_14: Layout = Layout {
    minor: 14,
    code_tags: 3,
    instruction: Instruction::Pointer {
        offset: 56,
        owner: 74,
        entry: None,
        instructions: 208,
        first_traceable: 192,
    },
    ..V3_13
};

/// From 3.8 on.
static KNOWN: [Layout; 7] = [V3_8, V3_9, V3_10, V3_11, V3_12, V3_13, V3_14];

/// The layout of 3.`minor`, if it is known.
pub fn of(minor: u32) -> Option<&'static Layout> {
    KNOWN.get((minor as usize).checked_sub(8)?)
}
