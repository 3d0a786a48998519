//! What held memory at the peak: call stacks as people read them.

use std::collections::{HashMap, HashSet};

use memtrace_trace::rows::{FrameRow, SiteRow, Untouched};
use memtrace_trace::{Meta, Trace};

use crate::error::Error;

/// A site with its frames, innermost first.
pub struct Site {
    /// What it allocated and held.
    pub row: SiteRow,
    /// Its call stack.
    pub stack: Vec<FrameRow>,
}

/// The sites of a trace that held most at the peak of live bytes, the largest first.
///
/// # Errors
/// A table cannot be read.
pub fn largest(trace: &Trace, most: usize) -> Result<Vec<Site>, Error> {
    let mut rows = trace.sites().map_err(unreadable)?;
    rows.sort_by_key(|row| {
        let size = |bytes: u64| std::cmp::Reverse(bytes);
        (size(row.live_bytes_at_peak), size(row.peak_live_bytes), row.site)
    });
    rows.truncate(most);
    with_stacks(trace, rows)
}

/// The sites that held most at the peak of used bytes of devices, the largest first; those that held none are left out.
///
/// # Errors
/// A table cannot be read.
pub fn largest_on_devices(trace: &Trace, most: usize) -> Result<Vec<Site>, Error> {
    let mut rows = trace.sites().map_err(unreadable)?;
    rows.retain(|row| row.device_bytes_at_peak.unwrap_or(0) > 0);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.device_bytes_at_peak), row.site));
    rows.truncate(most);
    with_stacks(trace, rows)
}

/// What of large blocks was never touched as long as they lived: the sum over all sites, and the sites with most of it,
/// the largest first. `None` where no kernel side tells of it.
///
/// # Errors
/// A table cannot be read.
pub fn untouched(trace: &Trace, most: usize) -> Result<Option<(Untouched, Vec<Site>)>, Error> {
    let mut rows = trace.sites().map_err(unreadable)?;
    if rows.iter().all(|row| row.untouched.is_none()) {
        return Ok(None);
    }
    let part = |row: &SiteRow| row.untouched.unwrap_or_default();
    rows.retain(|row| part(row).bytes > 0);
    let sum = rows.iter().map(part).fold(Untouched::default(), |sum, part| Untouched {
        blocks: sum.blocks.saturating_add(part.blocks),
        of_bytes: sum.of_bytes.saturating_add(part.of_bytes),
        bytes: sum.bytes.saturating_add(part.bytes),
    });
    rows.sort_by_key(|row| (std::cmp::Reverse(part(row).bytes), row.site));
    rows.truncate(most);
    Ok(Some((sum, with_stacks(trace, rows)?)))
}

/// Where sites are, by id; one that the trace does not have is left out.
///
/// # Errors
/// A table cannot be read.
pub fn places(trace: &Trace, wanted: impl Iterator<Item = u64>) -> Result<HashMap<u64, String>, Error> {
    of_stacks(trace, &wanted.collect(), place)
}

/// Where a site is, and what its call stack means for a law.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// As [`Site::place`].
    pub text: String,
    /// What a library function on the way chooses by the lengths of its arguments.
    pub choice: Option<String>,
}

/// The same with what the call stacks mean for a law.
///
/// # Errors
/// A table cannot be read.
pub fn places_of_law(trace: &Trace, wanted: &HashSet<u64>) -> Result<HashMap<u64, Place>, Error> {
    of_stacks(trace, wanted, |stack| Place { text: place(stack), choice: crate::choosing::choice(stack) })
}

/// What `tell` makes of the call stacks of sites, by site.
fn of_stacks<T>(
    trace: &Trace,
    sites: &HashSet<u64>,
    tell: impl Fn(&[&FrameRow]) -> T,
) -> Result<HashMap<u64, T>, Error> {
    let leaves = trace.leaves(sites).map_err(unreadable)?;
    let frames = trace.frames_of(leaves.values().copied()).map_err(unreadable)?;
    let told = |(site, leaf)| (site, tell(&stack(|frame| frames.get(&frame), leaf)));
    Ok(leaves.into_iter().map(told).collect())
}

fn with_stacks(trace: &Trace, rows: Vec<SiteRow>) -> Result<Vec<Site>, Error> {
    let frames = trace.frames_of(rows.iter().map(|row| row.frame)).map_err(unreadable)?;
    let stack = |leaf| stack(|frame| frames.get(&frame), leaf).into_iter().cloned().collect();
    Ok(rows.into_iter().map(|row| Site { stack: stack(row.frame), row }).collect())
}

fn unreadable(error: memtrace_trace::Error) -> Error {
    Error::Trace(error.to_string())
}

/// The frames of a call stack, innermost first, out of those that can be looked up by number. Parents come before their
/// children: anything else is damaged and ends the stack.
pub fn stack<'a>(frame: impl Fn(u32) -> Option<&'a FrameRow>, leaf: u32) -> Vec<&'a FrameRow> {
    let mut next = Some(leaf);
    let mut stack = Vec::new();
    while let Some(row) = next.and_then(&frame) {
        next = row.parent.filter(|parent| *parent < row.frame && Some(row.frame) == next);
        stack.push(row);
    }
    stack
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

impl Site {
    /// Where it is in the user's own code, as far as that can be told, and what was called there:
    /// `gst3d run_gst3d.py:41 (gaussian_filter1d _filters.py:184)`.
    pub fn place(&self) -> String {
        place(&self.stack.iter().collect::<Vec<_>>())
    }
}

fn place(stack: &[&FrameRow]) -> String {
    let first = |wanted: fn(&FrameRow) -> bool| stack.iter().copied().find(|frame| wanted(frame));
    let python = first(|frame| frame.kind == "python");
    let named = first(|frame| frame.function.is_some() && !is_bridge(frame));
    let Some(own) = first(is_own).or(python).or(named) else { return "an unknown place".into() };
    let inner = python.filter(|python| python.frame != own.frame).or(named);
    match inner.filter(|inner| inner.frame != own.frame) {
        Some(inner) => format!("{} ({})", short(own), short(inner)),
        None => short(own),
    }
}

/// How Python calls C through `ctypes`, as pools of device memory tell of their blocks: no place of the program's.
fn is_bridge(frame: &FrameRow) -> bool {
    let module = frame.module.as_deref().map_or("", base_name);
    module.starts_with("libffi.") || module.starts_with("_ctypes.")
}

/// Not of a library that came with the system, the interpreter or a package.
fn is_own(frame: &FrameRow) -> bool {
    const LIBRARIES: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"];
    const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib", "/usr/local/lib"];
    match (&frame.module, &frame.file) {
        (Some(module), _) => {
            let library = module.contains(".so") && LIBRARIES.iter().any(|part| module.contains(part));
            let interpreter = base_name(module).contains("python");
            let probe = ["libmemtrace_probe.so", "libmemtrace_cuda.so"].contains(&base_name(module));
            let system = SYSTEM.iter().any(|start| module.starts_with(start));
            frame.function.is_some() && !library && !interpreter && !probe && !system
        }
        (None, Some(file)) => !file.starts_with('<') && !LIBRARIES.iter().any(|part| file.contains(part)),
        (None, None) => false,
    }
}

fn short(frame: &FrameRow) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => format!("{function} {}:{line}", base_name(file)),
        (Some(file), None, _) => format!("{function} {}", base_name(file)),
        (None, _, Some(module)) => format!("{function} in {}", base_name(module)),
        (None, _, None) => function.into(),
    }
}

pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What to call that which no stack accounts for.
pub fn without_stack(meta: &Meta) -> &'static str {
    match meta.recorded.get("stacks").map(String::as_str) {
        Some("auto") => "(not sampled)",
        _ => "(no stack)",
    }
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
        Site { row: SiteRow::default(), stack }.place()
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
