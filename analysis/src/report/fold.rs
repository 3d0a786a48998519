//! Call stacks as pictures show them: the user's own frames, and of what is not theirs one frame each.

use memtrace_trace::rows::FrameRow;

use super::composition::{is_importlib, package};
use super::short_name::short_name;
use crate::profile::category::{Category, category};
use crate::profile::own::{is_nameless, is_stripped};
use crate::profile::stacks::{base_name, function};

/// A frame of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Folded {
    /// Its function, or what stands for many.
    pub name: String,
    /// The package, executable or library of a frame that is not the user's own.
    pub library: String,
    /// Source file and line of the user's own.
    pub source: Option<(String, u32)>,
    /// Whose code it is.
    pub category: Category,
}

impl Folded {
    /// Something under a name, which is nobody's code.
    pub fn bare(name: &str) -> Folded {
        Folded { name: name.into(), library: String::new(), source: None, category: Category::Native }
    }
}

/// What of a library the last frame is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Called {
    Nothing,
    Native,
    Python,
}

/// A call stack, outermost first: frames of the user's own, and below them one for what they call of
/// a library: its first Python function, else its first native one. What is imported is one frame
/// under the name of its place, and so is what no code of the user's own has called.
pub fn folded(stack: &[&FrameRow], place: &str) -> Vec<Folded> {
    let mut shown: Vec<Folded> = Vec::new();
    let (mut called, mut importing, mut below_own) = (Called::Nothing, false, false);
    let stripped = is_stripped(stack);
    for frame in stack.iter().rev() {
        let category = category(frame, below_own);
        if category == Category::Yours || (stripped && is_nameless(frame)) {
            below_own |= frame.kind == "python";
            (called, importing) = (Called::Nothing, false);
            shown.push(own(frame));
            continue;
        }
        importing |= is_importlib(frame);
        let more = if frame.kind == "python" { Called::Python } else { Called::Native };
        if category == Category::Library && !shown.is_empty() && !importing && more > called {
            if called != Called::Nothing {
                shown.pop();
            }
            called = more;
            shown.push(of_library(frame));
        }
    }
    let named = |category| Folded { name: place.into(), library: String::new(), source: None, category };
    if shown.is_empty() {
        let innermost = || stack.first().map_or(Category::Native, |frame| category(frame, false));
        let outside = Folded { name: "outside your code".into(), ..named(Category::Interpreter) };
        return vec![outside, named(if importing { Category::Library } else { innermost() })];
    }
    if importing {
        if called != Called::Nothing {
            shown.pop();
        }
        shown.push(named(Category::Library));
    }
    shown
}

fn own(frame: &FrameRow) -> Folded {
    let source = frame.file.clone().zip(frame.line);
    let library = if source.is_none() { library(frame) } else { String::new() };
    Folded { name: name(frame), library, source, category: Category::Yours }
}

fn of_library(frame: &FrameRow) -> Folded {
    Folded { name: name(frame), library: library(frame), source: None, category: Category::Library }
}

fn name(frame: &FrameRow) -> String {
    short_name(&function(frame))
}

/// The package that a frame's code came with, else the name of its executable or library.
pub fn library(frame: &FrameRow) -> String {
    let module = || frame.module.as_deref().map(|module| package_of(module).unwrap_or(base_name(module)));
    package(frame).or_else(|| module().map(str::to_owned)).unwrap_or_default()
}

/// `numpy` of `…/site-packages/numpy.libs/libopenblas.so`.
fn package_of(module: &str) -> Option<&str> {
    let (_, inside) =
        module.rsplit_once("/site-packages/").or_else(|| module.rsplit_once("/dist-packages/"))?;
    let (folder, _) = inside.split_once('/')?;
    Some(folder.strip_suffix(".libs").unwrap_or(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMPY: &str = "/env/lib/python3.11/site-packages/numpy";

    fn python(function: &str, file: &str, line: u32) -> FrameRow {
        let (function, file) = (Some(function.into()), Some(file.into()));
        FrameRow { kind: "python".into(), function, file, line: Some(line), ..FrameRow::default() }
    }

    fn native(function: &str, module: &str) -> FrameRow {
        let (function, module) = (Some(function.into()), Some(module.into()));
        FrameRow { kind: "native".into(), function, module, ..FrameRow::default() }
    }

    /// Names and libraries, of a stack that is written outermost first.
    fn shown(outermost: &[FrameRow]) -> Vec<String> {
        let stack: Vec<&FrameRow> = outermost.iter().rev().collect();
        let text = |frame: Folded| format!("{} {}", frame.name, frame.library).trim().to_owned();
        folded(&stack, "import numpy").into_iter().map(text).collect()
    }

    #[test]
    fn without_symbols_a_frame_is_where_it_calls() {
        let stripped =
            |offset| FrameRow { function: None, offset: Some(offset), ..native("", "/home/me/tool") };
        let libc = |function| native(function, "/usr/lib/x86_64-linux-gnu/libc.so.6");
        let stack = [libc("__libc_start_call_main"), stripped(0x1f40), stripped(0x2000), libc("malloc")];
        assert_eq!(shown(&stack), ["0x1f40 tool", "0x2000 tool"]);
    }

    #[test]
    fn a_library_is_its_first_python_function() {
        let stack = [
            native("main", "/usr/bin/python3.11"),
            python("main", "/home/me/run.py", 3),
            native("dispatcher_vectorcall", &format!("{NUMPY}/_core/_multiarray_umath.so")),
            python("eigh", &format!("{NUMPY}/linalg/_linalg.py"), 9),
            python("inner", &format!("{NUMPY}/linalg/_linalg.py"), 7),
            native("dsyevd", &format!("{NUMPY}.libs/libopenblas.so")),
            native("malloc", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ];
        assert_eq!(shown(&stack), ["main", "eigh numpy"]);
        assert_eq!(shown(&stack[..3]), ["main", "dispatcher_vectorcall numpy"]);
        assert_eq!(shown(&stack[..2]), ["main"]);
    }

    #[test]
    fn an_import_is_one_frame_and_what_it_runs_of_the_users_own_is_below_the_statement() {
        let importlib = || python("_find_and_load", "<frozen importlib._bootstrap>", 1);
        let stack = [
            python("<module>", "/home/me/run.py", 1),
            importlib(),
            python("<module>", "/home/me/tables.py", 2),
            importlib(),
            python("<module>", &format!("{NUMPY}/__init__.py"), 3),
        ];
        assert_eq!(shown(&stack), ["<module>", "<module>", "import numpy"]);
        assert_eq!(shown(&stack[3..]), ["outside your code", "import numpy"]);
    }

    #[test]
    fn code_that_a_library_calls_is_below_it() {
        let dask = |name| python(name, "/env/lib/python3.11/site-packages/dask/base.py", 5);
        let stack = [
            python("main", "/home/me/run.py", 1),
            dask("compute"),
            dask("get"),
            python("f", "/home/me/run.py", 9),
        ];
        assert_eq!(shown(&stack), ["main", "compute dask", "f"]);
    }

    #[test]
    fn a_damaged_stack_is_something_too() {
        assert_eq!(shown(&[]), ["outside your code", "import numpy"]);
    }
}
