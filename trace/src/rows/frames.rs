use serde::{Deserialize, Serialize};

use crate::column::table;

table! {
    Frames,
    /// A node of the stacks' prefix tree. A frame without function and module is one that is not
    /// known.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct FrameRow {
        /// Index used by `sites`; smaller for callers than for what they call.
        pub frame: u32,
        /// The frame that called it.
        #[null("it is an outermost frame")]
        pub parent: Option<u32>,
        /// `native`, `inlined` (native, and part of the code of its `parent`) or `python`.
        pub kind: String,
        /// Function: demangled symbol, or what generated code was called (`/tmp/perf-PID.map`);
        /// Python's qualified name (before 3.11 the plain name). At most 4 KiB, then `…`.
        #[null("it has no name")]
        pub function: Option<String>,
        /// Source file as the code object or the debug information names it.
        #[null("no debug information was found")]
        pub file: Option<String>,
        /// Line in that file: where it called.
        #[null("no debug information was found, or the instruction has no line")]
        pub line: Option<u32>,
        /// Path of the executable or library.
        #[null("it is Python, or in no file")]
        pub module: Option<String>,
        /// Return address as stated in that file; the call lies before it.
        #[null("it is Python, or in no file")]
        pub offset: Option<u64>,
    }
}
