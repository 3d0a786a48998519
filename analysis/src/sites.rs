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
    let wanted: HashSet<u64> = wanted.collect();
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let mut rows = trace.sites().map_err(unreadable)?;
    rows.retain(|row| wanted.contains(&row.site));
    Ok(with_stacks(trace, rows)?.iter().map(|site| (site.row.site, site.place())).collect())
}

/// Where a site is, and what its call stack means for a law.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// As [`Site::place`].
    pub text: String,
    /// What a library function on the way chooses by the lengths of its arguments.
    pub choice: Option<String>,
}

/// The places of all sites of a trace, by id.
///
/// # Errors
/// A table cannot be read.
pub fn all_places(trace: &Trace) -> Result<HashMap<u64, Place>, Error> {
    let rows = trace.sites().map_err(unreadable)?;
    let place = |site: Site| {
        (site.row.site, Place { text: site.place(), choice: crate::choosing::choice(&site.stack) })
    };
    Ok(with_stacks(trace, rows)?.into_iter().map(place).collect())
}

fn with_stacks(trace: &Trace, rows: Vec<SiteRow>) -> Result<Vec<Site>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let frames = trace.frames().map_err(unreadable)?;
    Ok(rows.into_iter().map(|row| Site { stack: stack(&frames, row.frame), row }).collect())
}

fn unreadable(error: memtrace_trace::Error) -> Error {
    Error::Trace(error.to_string())
}

/// Follows parents, which come before their children: anything else is damaged and ends the stack.
pub fn stack(frames: &[FrameRow], leaf: u32) -> Vec<FrameRow> {
    let mut next = Some(leaf);
    let mut stack = Vec::new();
    while let Some(frame) = next.and_then(|frame| frames.get(frame as usize)) {
        next = frame.parent.filter(|parent| *parent < frame.frame && Some(frame.frame) == next);
        stack.push(frame.clone());
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
        let own = self.stack.iter().find(|frame| is_own(frame));
        let python = self.stack.iter().find(|frame| frame.kind == "python");
        let named = self.stack.iter().find(|frame| frame.function.is_some());
        let Some(own) = own.or(python).or(named) else { return "an unknown place".into() };
        let inner = python.filter(|python| python.frame != own.frame).or(named);
        match inner.filter(|inner| inner.frame != own.frame) {
            Some(inner) => format!("{} ({})", short(own), short(inner)),
            None => short(own),
        }
    }
}

/// Not of a library that came with the system, the interpreter or a package.
fn is_own(frame: &FrameRow) -> bool {
    const LIBRARIES: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"];
    const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib", "/usr/local/lib"];
    match (&frame.module, &frame.file) {
        (Some(module), _) => {
            let library = module.contains(".so") && LIBRARIES.iter().any(|part| module.contains(part));
            let interpreter = base_name(module).contains("python");
            let probe = base_name(module) == "libmemtrace_probe.so";
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
        assert_eq!(stack(&[circle], 0).len(), 1);
        assert!(stack(&[], 7).is_empty());
    }
}
