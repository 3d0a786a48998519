//! Which frames of a call stack are the user's own code, and which came with the system, the
//! toolchain, the interpreter or a package.

use memtrace_trace::rows::FrameRow;

use super::stacks::base_name;

/// Folders of packages, in paths of modules and of Python's files.
const PACKAGES: [&str; 2] = ["/site-packages/", "/dist-packages/"];
/// Where interpreters keep their library: a version follows.
const LIBRARIES: [&str; 2] = ["/lib/python", "/lib64/python"];
/// Where executables and libraries of the system lie.
const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib", "/usr/local/lib"];
/// Where debug information says that sources of the system and of toolchains lie.
const SYSTEM_SOURCES: [&str; 5] =
    ["/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/src/", "/rustc/"];
/// Parts of such paths that stand anywhere: toolchains that were built or installed elsewhere, and
/// the sources of crates that cargo fetched.
const FOREIGN_SOURCES: [&str; 12] = [
    "/include/c++/",
    "/lib/gcc/",
    "/libstdc++-v3/",
    "/libgfortran/",
    "/sysdeps/",
    "/.rustup/toolchains/",
    "/registry/src/",
    "/rust/deps/",
    "/.cargo/git/checkouts/",
    "library/alloc/src/",
    "library/core/src/",
    "library/std/src/",
];
/// What Dask's cloudpickle calls the file of a function that a worker received by value: those of
/// `__main__` and of notebooks.
const SENT_BY_VALUE: &str = "<dynamic-code>";
/// How names of the standard libraries of C++ and Rust begin.
const STANDARD_NAMES: [&str; 10] = [
    "std::",
    "__gnu_cxx::",
    "core::",
    "alloc::",
    "hashbrown::",
    "<std::",
    "<core::",
    "<alloc::",
    "<hashbrown::",
    "operator new",
];

/// The innermost frame of the user's own code; of a stripped program, in whose stack no such frame has
/// a name, the innermost of its executable. Environments keep libraries in folders of any name:
/// below Python code of the user's own, a library counts only where its sources are known.
pub fn innermost_own(stack: &[&FrameRow]) -> Option<usize> {
    let below_python = stack.iter().any(|frame| frame.kind == "python" && is_own(frame));
    let crates: Vec<&str> = stack.iter().filter_map(|frame| fetched_crate(frame.file.as_deref()?)).collect();
    let is_generated = |frame: &FrameRow| {
        frame.file.as_deref().and_then(generating_crate).is_some_and(|name| crates.contains(&name))
    };
    let is_foreign = |frame: &FrameRow| is_generated(frame) || (below_python && is_bare_library(frame));
    let named = stack.iter().position(|frame| is_own(frame) && !is_foreign(frame));
    let nameless = || stack.iter().position(|frame| is_nameless(frame)).filter(|_| is_stripped(stack));
    named.or_else(nameless)
}

/// Nothing in the stack has a name of the user's own, and no interpreter ran.
pub(crate) fn is_stripped(stack: &[&FrameRow]) -> bool {
    !stack.iter().any(|frame| is_own(frame) || frame.kind == "python")
}

/// A frame of the user's own executable whose function has no name.
pub(crate) fn is_nameless(frame: &FrameRow) -> bool {
    let is_executable = |module: &str| is_own_module(module) && !base_name(module).contains(".so");
    frame.function.is_none() && frame.module.as_deref().is_some_and(is_executable)
}

/// Code of a library without known sources.
pub(super) fn is_bare_library(frame: &FrameRow) -> bool {
    frame.file.is_none() && frame.module.as_deref().is_some_and(|module| base_name(module).contains(".so"))
}

/// The crate that cargo fetched this source with: `…/registry/src/INDEX/NAME-VERSION/src/lib.rs`.
fn fetched_crate(file: &str) -> Option<&str> {
    let (_, inside) = file.split_once("/registry/src/")?;
    let folder = inside.split('/').nth(1)?;
    let version = folder.match_indices('-').find(|(at, _)| {
        folder[at + 1..].starts_with(|c: char| c.is_ascii_digit()) && folder[at + 1..].contains('.')
    })?;
    Some(&folder[..version.0])
}

/// The crate whose build script wrote this source: `target/release/build/NAME-HASH/out/rules.rs`.
/// It may be the user's own, or one of those that cargo fetched.
fn generating_crate(file: &str) -> Option<&str> {
    let (before, _) = file.split_once("/out/")?;
    let (_, folder) = before.rsplit_once("/build/")?;
    folder.rsplit_once('-').map(|(name, _)| name)
}

/// Not of a library that came with the system, the interpreter or a package.
pub(super) fn is_own(frame: &FrameRow) -> bool {
    match (&frame.module, &frame.file) {
        (Some(module), file) => {
            frame.function.is_some() && is_own_module(module) && is_own_source(frame, file.as_deref())
        }
        (None, Some(file)) => (!file.starts_with('<') || file == SENT_BY_VALUE) && !is_package(file),
        (None, None) => false,
    }
}

pub(super) fn is_package(path: &str) -> bool {
    let has_version =
        |(at, part): (usize, &str)| path[at + part.len()..].starts_with(|c: char| c.is_ascii_digit());
    PACKAGES.iter().any(|part| path.contains(part))
        || LIBRARIES.iter().any(|part| path.match_indices(part).any(has_version))
}

fn is_own_module(module: &str) -> bool {
    let library = module.contains(".so") && is_package(module);
    let probe = ["libmemtrace_probe.so", "libmemtrace_cuda.so"].contains(&base_name(module));
    !library && !is_interpreter(module) && !probe && !is_system(module)
}

/// The interpreter's executable, or its library.
pub(super) fn is_interpreter(module: &str) -> bool {
    base_name(module).contains("python")
}

/// What came with the system.
pub(super) fn is_system(module: &str) -> bool {
    SYSTEM.iter().any(|start| module.starts_with(start))
}

/// Code of headers and crates is part of the program's file. Without debug information its name
/// tells.
fn is_own_source(frame: &FrameRow, file: Option<&str>) -> bool {
    match file {
        Some(file) => {
            !SYSTEM_SOURCES.iter().any(|start| file.starts_with(start))
                && !FOREIGN_SOURCES.iter().any(|part| file.contains(part))
        }
        None => !is_standard(frame.function.as_deref().unwrap_or_default()),
    }
}

/// `void std::vector<int>::push_back(int)`: a template's name has its result before it.
fn is_standard(function: &str) -> bool {
    let arguments = function.find(['(', '<']).filter(|at| *at > 0).unwrap_or(function.len());
    let name = match function[..arguments].rfind(' ') {
        Some(space) if !function.starts_with("operator") => &function[space + 1..],
        _ => function,
    };
    STANDARD_NAMES.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>) -> FrameRow {
        FrameRow {
            kind: "native".into(),
            function: Some(function.into()),
            file: file.map(Into::into),
            module: Some("/home/me/a.out".into()),
            ..FrameRow::default()
        }
    }

    #[test]
    fn what_a_compiler_inlined_from_elsewhere_is_not_the_users() {
        for file in [
            "/usr/include/c++/12/bits/new_allocator.h",
            "/opt/gcc-14/include/c++/14.1.0/bits/stl_vector.h",
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/raw_vec.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw/alloc.rs",
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.200/src/de.rs",
        ] {
            assert!(!is_own(&frame("f", Some(file))), "{file}");
        }
        for file in ["/home/me/a.cpp", "src/main.rs", "/home/me/include/grid.h"] {
            assert!(is_own(&frame("std::f", Some(file))), "{file}");
        }
    }

    #[test]
    fn libraries_of_an_environment_are_not_the_users() {
        let library = |file: Option<&str>| FrameRow {
            module: Some("/opt/conda/lib/libhdf5.so.310".into()),
            ..frame("H5MM_malloc", file)
        };
        let python = |file: &str| FrameRow {
            kind: "python".into(),
            function: Some("f".into()),
            file: Some(file.into()),
            ..FrameRow::default()
        };
        let (script, package) =
            (python("/home/me/run.py"), python("/opt/conda/lib/python3.12/json/decoder.py"));
        assert_eq!(innermost_own(&[&library(None), &package, &script]), Some(2));
        assert_eq!(innermost_own(&[&library(Some("/home/me/h5.c")), &script]), Some(0));
        assert_eq!(
            innermost_own(&[&library(None), &frame("main", None)]),
            Some(0),
            "a C program's own library"
        );
        assert_eq!(innermost_own(&[&python("/home/me/lib/python/x.py")]), Some(0));
        let worker = python("/env/lib/python3.11/site-packages/distributed/worker.py");
        assert_eq!(innermost_own(&[&package, &python("<dynamic-code>"), &worker]), Some(1));
        assert_eq!(innermost_own(&[&package, &python("<string>"), &worker]), None);
    }

    #[test]
    fn what_a_build_script_wrote_belongs_to_its_crate() {
        let generated = |name: &str| {
            frame(
                "step",
                Some(&format!("/home/me/app/target/release/build/{name}-0f67b2c8d7e5a1b3/out/a.rs")),
            )
        };
        let fetched = |folder: &str| {
            frame(
                "parse",
                Some(&format!("/home/me/.cargo/registry/src/index.crates.io-19f/{folder}/src/lib.rs")),
            )
        };
        let main = frame("main", Some("src/main.rs"));
        let stack = |name: &str| innermost_own(&[&generated(name), &fetched("html-parser-0.25.2"), &main]);
        assert_eq!(stack("html-parser"), Some(2));
        assert_eq!(stack("app"), Some(0));
    }

    #[test]
    fn without_debug_information_the_name_tells() {
        for name in [
            "std::__new_allocator<int>::allocate(unsigned long, void const*)",
            "void std::vector<Grid, std::allocator<Grid> >::_M_realloc_insert<Grid>(Grid&&)",
            "alloc::raw_vec::finish_grow",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "operator new(unsigned long)",
        ] {
            assert!(!is_own(&frame(name, None)), "{name}");
        }
        for name in
            ["fill(Grid&)", "void fill<std::string>(std::string&)", "<app::Grid as app::Fill>::fill", "main"]
        {
            assert!(is_own(&frame(name, None)), "{name}");
        }
    }
}
