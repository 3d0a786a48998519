//! Library functions that change their course at some length: a law that goes through one of them
//! holds as far as it was verified, and says nothing beyond.

use memtrace_trace::rows::FrameRow;

use super::stacks::base_name;

/// Function, file, and what it chooses by the lengths of its arguments (SciPy 1.8–1.17, NumPy
/// 1.22–2.4).
const CHOOSING: [(&str, &str, &str); 7] = [
    ("oaconvolve", "_signaltools.py", "the length of its blocks, and whether there are any"),
    ("convolve", "_signaltools.py", "between the direct and the Fourier method"),
    ("correlate", "_signaltools.py", "between the direct and the Fourier method"),
    ("einsum", "einsumfunc.py", "the order of its products"),
    ("_nanmedian", "_nanfunctions_impl.py", "another way for axes of 600 and more"),
    ("_nanmedian", "nanfunctions.py", "another way for axes of 600 and more"),
    ("multi_dot", "_linalg.py", "the order of its products"),
];

/// `oaconvolve chooses …`, if a call stack goes through such a function.
pub fn choice(stack: &[&FrameRow]) -> Option<String> {
    stack.iter().find_map(|frame| {
        let (function, file) = (frame.function.as_deref()?, base_name(frame.file.as_deref()?));
        let known = CHOOSING.iter().find(|(name, of, _)| *name == function && *of == file)?;
        Some(format!("{} chooses {} by the lengths", known.0, known.2))
    })
}
