//! What a peak was made of: its bytes by place in the program, which add up to the peak.

use std::collections::{HashMap, HashSet};

use memtrace_trace::Trace;
use memtrace_trace::rows::FrameRow;

use super::short_name::short_name;
use super::sites::{Share, at_peak};
use crate::error::Error;
use crate::profile::own::innermost_own;
use crate::profile::stacks::{base_name, by_site, function, is_bridge, stack};

/// Folders that labels have at most.
const FOLDERS_MAX: usize = 8;

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
    /// What memtrace itself runs in the program.
    Recorder,
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
    /// What of them is an estimate: call stacks of small blocks are sampled.
    pub estimated: u64,
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
    let peak = trace.meta().peak.live_bytes;
    let group = |group: Group| Part { place: group.place, bytes: group.bytes, estimated: group.estimated };
    let parts: Vec<Part> = by_place(trace, &at_peak(trace)?)?.into_iter().map(group).collect();
    let known = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    Ok(Composition { peak, parts, unknown: peak.saturating_sub(known) })
}

/// Where sites are, by id; one that the trace does not have is left out.
///
/// # Errors
/// A table cannot be read.
pub fn places_of(trace: &Trace, sites: &HashSet<u64>) -> Result<HashMap<u64, Place>, Error> {
    let importing = Importing::default();
    let found = by_site(trace, sites, Found::of)?;
    Ok(found.into_iter().map(|(site, found)| (site, importing.name(found))).collect())
}

/// The sites of one place.
pub(crate) struct Group {
    pub(crate) place: Place,
    /// Of all of them.
    pub(crate) bytes: u64,
    /// What of them is an estimate.
    pub(crate) estimated: u64,
    /// Where they stand in the list of sites.
    pub(crate) sites: Vec<usize>,
}

/// Sites with their bytes, by place, most bytes first. Those without bytes are left out.
pub(crate) fn by_place(trace: &Trace, sites: &[Share]) -> Result<Vec<Group>, Error> {
    let listed = sites.iter().enumerate().filter(|(_, share)| share.bytes > 0);
    let frames = trace.frames_of(listed.clone().map(|(_, share)| share.row.frame))?;
    let mut importing = Importing::default();
    let mut found: Vec<(Found, usize)> = Vec::new();
    for (at, share) in listed {
        let place = Found::of(&stack(|frame| frames.get(&frame), share.row.frame));
        importing.add(&place, share.bytes);
        found.push((place, at));
    }
    let named: Vec<(Place, usize)> =
        found.into_iter().map(|(place, at)| (importing.name(place), at)).collect();
    let functions = Functions::of(named.iter().map(|(place, _)| place));
    let mut groups: HashMap<Place, Group> = HashMap::new();
    for (place, at) in named {
        let place = functions.outermost(place);
        let new = || Group { place: place.clone(), bytes: 0, estimated: 0, sites: Vec::new() };
        let group = groups.entry(place.clone()).or_insert_with(new);
        group.bytes = group.bytes.saturating_add(sites[at].bytes);
        group.estimated = group.estimated.saturating_add(sites[at].estimated);
        group.sites.push(at);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.place.cmp(&b.place)));
    Ok(groups)
}

/// Labels of places. Those that are alike get folders until they differ.
pub fn labels<'a>(places: impl Iterator<Item = &'a Place>) -> Vec<String> {
    let places: Vec<&Place> = places.collect();
    let mut folders = vec![0; places.len()];
    loop {
        let labels: Vec<String> =
            places.iter().zip(&folders).map(|(place, folders)| place.label(*folders)).collect();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        labels.iter().for_each(|label| *seen.entry(label).or_default() += 1);
        let alike: Vec<usize> = (0..labels.len()).filter(|at| seen[labels[*at].as_str()] > 1).collect();
        if alike.is_empty() || alike.iter().any(|at| folders[*at] == FOLDERS_MAX) {
            return labels;
        }
        alike.iter().for_each(|at| folders[*at] += 1);
    }
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
        let own = innermost_own(stack);
        if own.is_none() && stack.iter().any(|frame| is_recorder(frame)) {
            return Found::Known(Place::Recorder);
        }
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
    fn of<'a>(places: impl Iterator<Item = &'a Place>) -> Functions {
        let mut shortest: HashMap<(String, u32), String> = HashMap::new();
        for place in places {
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

/// The probe has interpreters run a text when they start, which is one function.
fn is_recorder(frame: &FrameRow) -> bool {
    let is_called = |function: &str| {
        function.starts_with("_memtrace_start") || function.starts_with("memtrace_probe::python::run")
    };
    frame.function.as_deref().is_some_and(is_called)
}

pub(super) fn is_importlib(frame: &FrameRow) -> bool {
    frame.file.as_deref().is_some_and(|file| file.starts_with("<frozen importlib"))
}

/// `numpy` of `…/site-packages/numpy/_core/numeric.py`, `json` of `…/lib/python3.11/json/decoder.py`.
pub(super) fn package(frame: &FrameRow) -> Option<String> {
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
    let function = short_name(&function(frame));
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => Place::Line { file: file.clone(), line, function },
        (_, _, Some(module)) => Place::Function { name: function, module: module.clone() },
        (Some(file), ..) => Place::Function { name: function, module: file.clone() },
        _ => Place::Unknown,
    }
}

impl Place {
    /// File and line, where they are known.
    pub fn source(&self) -> Option<(&str, u32)> {
        match self {
            Place::Line { file, line, .. } => Some((file, *line)),
            _ => None,
        }
    }

    /// `run.py:41 gst3d`; with more of the path where two files have one name.
    fn label(&self, folders: usize) -> String {
        match self {
            Place::Line { file, line, function } if function == "<module>" => {
                format!("{}:{line}", end_of(file, folders))
            }
            Place::Line { file, line, function } => format!("{}:{line} {function}", end_of(file, folders)),
            Place::Function { name, module } => format!("{name} in {}", end_of(module, folders)),
            Place::Import { package } => format!("import {package}"),
            Place::Recorder => "memtrace's own recorder".into(),
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
    fn what_the_recorder_needs_is_a_place_unless_the_program_called_for_it() {
        let recorder = python("_memtrace_start.<locals>.Recorder.__getattr__", "<string>", 9);
        let importlib = python("_find_and_load", "<frozen importlib._bootstrap>", 1027);
        let below = [importlib, recorder.clone()];
        assert!(matches!(found(&below), Found::Known(Place::Recorder)));
        let called = [recorder, python("main", "/home/me/run.py", 3)];
        assert!(matches!(found(&called), Found::Known(Place::Line { line: 3, .. })));
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
    fn labels_that_are_alike_get_their_folder() {
        let line = |file: &str| Place::Line { file: file.into(), line: 3, function: "f".into() };
        let places = [line("/a/b/run.py"), line("/a/c/run.py"), line("/a/main.py")];
        assert_eq!(labels(places.iter()), ["b/run.py:3 f", "c/run.py:3 f", "main.py:3 f"]);
    }

    #[test]
    fn two_files_of_one_name_differ_by_their_folder() {
        assert_eq!(end_of("/home/me/a/run.py", 0), "run.py");
        assert_eq!(end_of("/home/me/a/run.py", 1), "a/run.py");
        assert_eq!(end_of("/home/me/a/run.py", 2), "me/a/run.py");
        assert_eq!(end_of("run.py", 1), "run.py");
    }
}
