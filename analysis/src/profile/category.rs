//! Whose code a frame is.

use memtrace_trace::rows::FrameRow;

use super::own::{is_bare_library, is_interpreter, is_own, is_package, is_system};

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// The user's own.
    Yours,
    /// A package, or the interpreter's library.
    Library,
    /// The interpreter, and what it generates or keeps frozen.
    Interpreter,
    /// The system's libraries, and what a compiler put into the program.
    Native,
}

/// Whose code this is. Environments keep libraries in folders of any name: below Python code of the
/// user's own, a library counts as the user's only where its sources are known.
pub fn category(frame: &FrameRow, below_own_python: bool) -> Category {
    let is_foreign = below_own_python && is_bare_library(frame);
    match (&frame.module, &frame.file) {
        _ if is_own(frame) && !is_foreign => Category::Yours,
        (None, Some(file)) if file.starts_with('<') => Category::Interpreter,
        (None, Some(_)) => Category::Library,
        (Some(module), _) if is_package(module) => Category::Library,
        (Some(module), _) if is_interpreter(module) => Category::Interpreter,
        (Some(module), _) if is_bare_library(frame) && !is_system(module) => Category::Library,
        _ => Category::Native,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(file: &str) -> FrameRow {
        FrameRow { kind: "python".into(), file: Some(file.into()), ..FrameRow::default() }
    }

    fn native(module: &str) -> FrameRow {
        let (function, module) = (Some("f".into()), Some(module.into()));
        FrameRow { kind: "native".into(), function, module, ..FrameRow::default() }
    }

    #[test]
    fn frames_belong_to_whoever_wrote_them() {
        for (frame, expected) in [
            (python("/home/me/run.py"), Category::Yours),
            (python("/env/lib/python3.11/site-packages/numpy/linalg/_linalg.py"), Category::Library),
            (python("/usr/lib/python3.11/json/decoder.py"), Category::Library),
            (python("<frozen importlib._bootstrap>"), Category::Interpreter),
            (native("/usr/bin/python3.11"), Category::Interpreter),
            (native("/env/lib/python3.11/site-packages/numpy.libs/libopenblas.so"), Category::Library),
            (native("/usr/lib/x86_64-linux-gnu/libc.so.6"), Category::Native),
            (native("/home/me/a.out"), Category::Yours),
        ] {
            assert_eq!(category(&frame, false), expected, "{frame:?}");
        }
        assert_eq!(category(&native("/opt/conda/lib/libhdf5.so"), false), Category::Yours);
        assert_eq!(category(&native("/opt/conda/lib/libhdf5.so"), true), Category::Library);
    }
}
