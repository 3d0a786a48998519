//! What a peak was made of: its bytes by place in the program, which add up to the peak.

use std::collections::HashMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::{FrameRow, SiteRow};

use super::short_name::short_name;
use super::sites::at_peak;
use crate::error::Error;
use crate::profile::own::is_own;
use crate::profile::stacks::{base_name, is_bridge, stack};

/// Where bytes were allocated, as people speak of it: call stacks through one line of the user's
/// code are one place, and so are those through one import.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A line of a source file, in the function that it is in.
    Line {
        /// As the code object or the debug information names it.
        file: String,
        /// From 1.
        line: u32,
        /// Without its parameters.
        function: String,
    },
    /// A function of which no line is known.
    Function {
        /// Without its parameters.
        name: String,
        /// Path of its executable or library.
        module: String,
    },
    /// Importing a package, and what it imports.
    Import {
        /// The package.
        package: String,
    },
    /// No frame has a name.
    Unknown,
}

/// A place, and what of the peak was allocated there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where.
    pub place: Place,
    /// Bytes.
    pub bytes: u64,
}

/// A peak in parts. Their bytes and `unknown` add up to `peak`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composition {
    /// Live bytes at their peak.
    pub peak: u64,
    /// Largest first.
    pub parts: Vec<Part>,
    /// Bytes without a call stack.
    pub unknown: u64,
}

/// What the peak of a trace was made of.
///
/// # Errors
/// A table cannot be read.
pub fn composition(trace: &Trace) -> Result<Composition, Error> {
    let sites = at_peak(trace)?;
    by_place(trace, &sites, trace.meta().peak.live_bytes)
}

/// Bytes of sites by place, of a peak (or another sum) of so many bytes.
///
/// # Errors
/// A table cannot be read.
pub fn by_place(trace: &Trace, sites: &[(SiteRow, u64)], peak: u64) -> Result<Composition, Error> {
    let sites = sites.iter().filter(|(_, bytes)| *bytes > 0);
    let frames = trace.frames_of(sites.clone().map(|(row, _)| row.frame))?;
    let mut importing = Importing::default();
    let mut found: Vec<(Found, u64)> = Vec::new();
    for (row, bytes) in sites {
        let place = Found::of(&stack(|frame| frames.get(&frame), row.frame));
        importing.add(&place, *bytes);
        found.push((place, *bytes));
    }
    let named: Vec<(Place, u64)> =
        found.into_iter().map(|(place, bytes)| (importing.name(place), bytes)).collect();
    let functions = Functions::of(&named);
    let mut sums: HashMap<Place, u64> = HashMap::new();
    for (place, bytes) in named {
        *sums.entry(functions.outermost(place)).or_default() += bytes;
    }
    let mut parts: Vec<Part> = sums.into_iter().map(|(place, bytes)| Part { place, bytes }).collect();
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.place.cmp(&b.place)));
    let known = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    Ok(Composition { peak, parts, unknown: peak.saturating_sub(known) })
}

/// Where a call stack is, before all of them are known.
enum Found {
    Known(Place),
    /// Below an import statement at this place; the package, where its own code had begun to run.
    Importing {
        statement: Option<Place>,
        package: Option<String>,
    },
}

impl Found {
    fn of(stack: &[&FrameRow]) -> Found {
        let own = stack.iter().position(|frame| is_own(frame));
        let inside = &stack[..own.unwrap_or(stack.len())];
        if let Some(importlib) = inside.iter().rposition(|frame| is_importlib(frame)) {
            let package = inside[..importlib].iter().rev().find_map(|frame| package(frame));
            return Found::Importing { statement: own.map(|at| place(stack[at])), package };
        }
        let python = || stack.iter().find(|frame| frame.kind == "python");
        let named = || stack.iter().find(|frame| frame.function.is_some() && !is_bridge(frame));
        let frame = own.map(|at| &stack[at]).or_else(python).or_else(named);
        Found::Known(frame.map_or(Place::Unknown, |frame| place(frame)))
    }
}

/// Which package a statement imports. While a package's own file is being loaded, no frame says
/// which it is: other call stacks through the statement do.
#[derive(Default)]
struct Importing {
    packages: HashMap<Place, HashMap<String, u64>>,
}

impl Importing {
    fn add(&mut self, found: &Found, bytes: u64) {
        if let Found::Importing { statement: Some(statement), package: Some(package) } = found {
            let packages = self.packages.entry(statement.clone()).or_default();
            *packages.entry(package.clone()).or_default() += bytes;
        }
    }

    fn name(&self, found: Found) -> Place {
        let (statement, package) = match found {
            Found::Known(place) => return place,
            Found::Importing { statement, package } => (statement, package),
        };
        let largest = || {
            let packages = self.packages.get(statement.as_ref()?)?.iter();
            packages.max_by_key(|(name, bytes)| (**bytes, *name)).map(|(name, _)| name.clone())
        };
        match package.or_else(largest) {
            Some(package) => Place::Import { package },
            None => statement.unwrap_or(Place::Unknown),
        }
    }
}

/// Names of the functions that lines are in: a closure, and code that was inlined, have names of
/// their own on the line that calls them.
struct Functions(HashMap<(String, u32), String>);

impl Functions {
    fn of(named: &[(Place, u64)]) -> Functions {
        let mut shortest: HashMap<(String, u32), String> = HashMap::new();
        for (place, _) in named {
            if let Place::Line { file, line, function } = place {
                let known = shortest.entry((file.clone(), *line)).or_insert_with(|| function.clone());
                if (function.len(), function.as_str()) < (known.len(), known.as_str()) {
                    known.clone_from(function);
                }
            }
        }
        Functions(shortest)
    }

    fn outermost(&self, place: Place) -> Place {
        match place {
            Place::Line { file, line, function } => {
                let known = self.0.get(&(file.clone(), line)).cloned();
                Place::Line { file, line, function: known.unwrap_or(function) }
            }
            other => other,
        }
    }
}

fn is_importlib(frame: &FrameRow) -> bool {
    frame.file.as_deref().is_some_and(|file| file.starts_with("<frozen importlib"))
}

/// `numpy` of `…/site-packages/numpy/_core/numeric.py`, `json` of `…/lib/python3.11/json/decoder.py`.
fn package(frame: &FrameRow) -> Option<String> {
    let file = frame.file.as_deref().filter(|file| frame.kind == "python" && !file.starts_with('<'))?;
    let below = |folder: &str| file.rsplit_once(folder).map(|(_, rest)| rest);
    let in_library = || {
        let (_, rest) = file.rsplit_once("/lib/python").or_else(|| file.rsplit_once("/lib64/python"))?;
        rest.split_once('/').map(|(_, rest)| rest)
    };
    let inside = below("/site-packages/").or_else(|| below("/dist-packages/")).or_else(in_library)?;
    let first = inside.split('/').next()?;
    Some(first.strip_suffix(".py").unwrap_or(first).to_string())
}

fn place(frame: &FrameRow) -> Place {
    let function = short_name(frame.function.as_deref().unwrap_or_default());
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => Place::Line { file: file.clone(), line, function },
        (_, _, Some(module)) => Place::Function { name: function, module: module.clone() },
        (Some(file), ..) => Place::Function { name: function, module: file.clone() },
        _ => Place::Unknown,
    }
}

impl Place {
    /// `run.py:41 gst3d`; with more of the path where two files have one name.
    pub fn label(&self, folders: usize) -> String {
        match self {
            Place::Line { file, line, function } if function == "<module>" => {
                format!("{}:{line}", end_of(file, folders))
            }
            Place::Line { file, line, function } => format!("{}:{line} {function}", end_of(file, folders)),
            Place::Function { name, module } => format!("{name} in {}", end_of(module, folders)),
            Place::Import { package } => format!("import {package}"),
            Place::Unknown => "an unknown place".into(),
        }
    }
}

/// The last parts of a path: its name, and so many folders.
fn end_of(path: &str, folders: usize) -> &str {
    let name = base_name(path);
    let cut = path.len() - name.len();
    let begin = path[..cut].trim_end_matches('/').rmatch_indices('/').nth(folders.wrapping_sub(1));
    match (folders, begin) {
        (0, _) => name,
        (_, Some((at, _))) => &path[at + 1..],
        (_, None) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(function: &str, file: &str, line: u32) -> FrameRow {
        let (function, file) = (Some(function.into()), Some(file.into()));
        FrameRow { kind: "python".into(), function, file, line: Some(line), ..FrameRow::default() }
    }

    fn found(stack: &[FrameRow]) -> Found {
        Found::of(&stack.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_import_is_one_place() {
        let importlib = python("_find_and_load", "<frozen importlib._bootstrap>", 1027);
        let script = python("<module>", "/home/me/run.py", 1);
        let numpy = python("<module>", "/env/lib/python3.11/site-packages/numpy/__init__.py", 9);
        let re = python("compile", "/usr/lib/python3.11/re/__init__.py", 9);
        let through = [re, importlib.clone(), numpy, importlib.clone(), script.clone()];
        let loading = [importlib.clone(), script.clone()];
        let mut importing = Importing::default();
        importing.add(&found(&through), 100);
        let numpy = Place::Import { package: "numpy".into() };
        assert_eq!(importing.name(found(&through)), numpy);
        assert_eq!(importing.name(found(&loading)), numpy);
        let own = python("<module>", "/home/me/tables.py", 5);
        let line = Place::Line { file: "/home/me/tables.py".into(), line: 5, function: "<module>".into() };
        assert_eq!(importing.name(found(&[own, importlib, script])), line, "a module of the user's own");
    }

    #[test]
    fn two_files_of_one_name_differ_by_their_folder() {
        assert_eq!(end_of("/home/me/a/run.py", 0), "run.py");
        assert_eq!(end_of("/home/me/a/run.py", 1), "a/run.py");
        assert_eq!(end_of("/home/me/a/run.py", 2), "me/a/run.py");
        assert_eq!(end_of("run.py", 1), "run.py");
    }
}
