//! Call stacks: their frames, and how people read them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use memtrace_trace::Trace;
use memtrace_trace::rows::FrameRow;

use super::own::innermost_own;
use crate::error::Error;

/// What `read` makes of the call stacks of sites, by site; a site that the trace does not have is
/// left out.
///
/// # Errors
/// A table cannot be read.
pub fn by_site<T>(
    trace: &Trace,
    sites: &HashSet<u64>,
    read: impl Fn(&[&FrameRow]) -> T,
) -> Result<HashMap<u64, T>, Error> {
    let leaves = trace.leaves(sites)?;
    let frames = trace.frames_of(leaves.values().copied())?;
    let of_site = |(site, leaf)| (site, read(&stack(|frame| frames.get(&frame), leaf)));
    Ok(leaves.into_iter().map(of_site).collect())
}

/// Recorded stacks have at most 768 frames; a deeper one is damaged, and ends here.
const DEEPEST: usize = 1024;

/// The frames of a call stack, innermost first, out of those that can be looked up by number.
/// Parents come before their children: anything else is damaged and ends the stack.
pub fn stack<'a>(frame: impl Fn(u32) -> Option<&'a FrameRow>, leaf: u32) -> Vec<&'a FrameRow> {
    let mut next = Some(leaf);
    let mut stack = Vec::new();
    while let Some(row) = next.and_then(&frame) {
        next = row.parent.filter(|parent| *parent < row.frame && Some(row.frame) == next);
        stack.push(row);
        if stack.len() == DEEPEST {
            break;
        }
    }
    stack
}

/// What a frame's function is called. Without a symbol it is where its call lies in the executable or
/// library: `0x1f40`.
pub fn function(frame: &FrameRow) -> Cow<'_, str> {
    match (&frame.function, &frame.module, frame.offset) {
        (Some(function), ..) => function.into(),
        (None, Some(_), Some(offset)) => format!("{offset:#x}").into(),
        _ => "?".into(),
    }
}

/// A frame in one line: `gst3d (/home/me/run_gst3d.py:41)`, `fft (libfftw3.so.3+0x1f40)`.
pub fn text(frame: &FrameRow) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    match (&frame.file, frame.line, &frame.module, frame.offset) {
        (Some(file), Some(line), ..) => format!("{function} ({file}:{line})"),
        (Some(file), None, ..) => format!("{function} ({file})"),
        (None, _, Some(module), Some(offset)) => format!("{function} ({}+{offset:#x})", base_name(module)),
        _ => function.into(),
    }
}

/// Where a call stack is in the user's own code, as far as that is known, and what was called
/// there: `gst3d run_gst3d.py:41 (gaussian_filter1d _filters.py:184)`.
pub fn place(stack: &[&FrameRow]) -> String {
    let first = |wanted: fn(&FrameRow) -> bool| stack.iter().copied().find(|frame| wanted(frame));
    let python = first(|frame| frame.kind == "python");
    let named = first(|frame| frame.function.is_some() && !is_bridge(frame));
    let Some(own) = innermost_own(stack).map(|at| stack[at]).or(python).or(named) else {
        return "an unknown place".into();
    };
    let inner = python.filter(|python| python.frame != own.frame).or(named);
    match inner.filter(|inner| inner.frame != own.frame) {
        Some(inner) => format!("{} ({})", short(own), short(inner)),
        None => short(own),
    }
}

/// How Python calls C through `ctypes`, as pools of device memory report their blocks: no place of
/// the program's.
pub fn is_bridge(frame: &FrameRow) -> bool {
    let module = frame.module.as_deref().map_or("", base_name);
    module.starts_with("libffi.") || module.starts_with("_ctypes.")
}

fn short(frame: &FrameRow) -> String {
    let function = function(frame);
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => format!("{function} {}:{line}", base_name(file)),
        (Some(file), None, _) => format!("{function} {}", base_name(file)),
        (None, _, Some(module)) => format!("{function} in {}", base_name(module)),
        (None, _, None) => function.into_owned(),
    }
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(frame: u32, function: &str, file: &str, line: u32) -> FrameRow {
        let (function, file) = (Some(function.into()), Some(file.into()));
        FrameRow { frame, kind: "python".into(), function, file, line: Some(line), ..Default::default() }
    }

    fn native(frame: u32, function: &str, module: &str) -> FrameRow {
        let (function, module) = (Some(function.into()), Some(module.into()));
        FrameRow { frame, kind: "native".into(), function, module, offset: Some(64), ..Default::default() }
    }

    fn place(stack: Vec<FrameRow>) -> String {
        super::place(&stack.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_users_own_line_is_named_before_a_librarys() {
        let stack = vec![
            native(4, "PyArray_Zeros", "/env/lib/python3.11/site-packages/numpy/_core/_multi.so"),
            python(3, "_get_output", "/env/lib/python3.11/site-packages/scipy/ndimage/_ni_support.py", 81),
            python(2, "gst3d", "/home/me/run_gst3d.py", 41),
            native(1, "main", "/env/bin/python3.11"),
        ];
        assert_eq!(place(stack), "gst3d run_gst3d.py:41 (_get_output _ni_support.py:81)");
    }

    #[test]
    fn an_interpreter_with_lines_is_still_no_code_of_the_users() {
        let with_line = |frame, function, module: &str, file: &str| FrameRow {
            file: Some(file.into()),
            line: Some(7),
            ..native(frame, function, module)
        };
        let stack = vec![
            with_line(2, "_PyObject_Malloc", "/env/lib/libpython3.12.so.1.0", "/build/Objects/obmalloc.c"),
            python(1, "work", "/home/me/run.py", 3),
        ];
        assert_eq!(place(stack), "work run.py:3 (_PyObject_Malloc obmalloc.c:7)");
        let stack = vec![with_line(1, "work", "/home/me/a.out", "/home/me/a.c")];
        assert_eq!(place(stack), "work a.c:7");
    }

    #[test]
    fn without_python_it_is_the_programs_own_function() {
        let stack = vec![
            native(3, "operator new(unsigned long)", "/usr/lib/libstdc++.so.6"),
            native(2, "work()", "/home/me/a.out"),
            native(1, "main", "/home/me/a.out"),
        ];
        assert_eq!(place(stack), "work() in a.out (operator new(unsigned long) in libstdc++.so.6)");
        assert_eq!(place(vec![]), "an unknown place");
    }

    #[test]
    fn a_damaged_tree_ends_the_stack() {
        let circle = FrameRow { parent: Some(0), ..native(0, "f", "/m") };
        assert_eq!(stack(|_| Some(&circle), 0).len(), 1);
        assert!(stack(|_| None, 7).is_empty());
    }
}
