//! Where a command writes its one file: `-` is standard output.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use rustix::fs::{Access, access};

use super::usage::Usage;
use crate::terminal;

/// True if this is standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes the file.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    if is_standard(path) {
        return terminal::write(content);
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a file that could not be written in the end: what goes into it takes long to make.
pub fn check_writable(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (file, folder) = (path.display(), parent.display());
    if !parent.is_dir() {
        bail!(Usage(format!("there is no directory {folder} to write {file} to")));
    }
    if path.is_dir() {
        bail!(Usage(format!("{file} is a directory; name a file to write to")));
    }
    access(parent, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("cannot write {file}: the directory {folder} takes no new file"))
}

/// Refuses a name that is of something else than an SVG: a viewer of pictures would be handed text.
pub fn check_svg(path: &Path, what: &str) -> Result<()> {
    match path.extension() {
        Some(name) if name.eq_ignore_ascii_case("png") => {
            bail!(Usage(format!(
                "{what} is an SVG; name it {} (a browser, Inkscape or rsvg-convert makes a PNG of it)",
                path.with_extension("svg").display()
            )))
        }
        Some(name) if !name.eq_ignore_ascii_case("svg") => {
            bail!(Usage(format!("{what} is an SVG; name it {}", path.with_extension("svg").display())))
        }
        _ => Ok(()),
    }
}

/// Refuses a file on standard output beside an answer in JSON.
pub fn check(path: &Path, json: bool) -> Result<()> {
    if json && is_standard(path) {
        bail!(Usage("--json and -o - both write to standard output; leave one out".into()));
    }
    Ok(())
}

/// Reads the directory of a trace, which is no stream.
pub fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match is_standard(&path) {
        true => Err("a trace is a directory, not a stream; name one, e.g. -o trace"),
        false => Ok(path),
    })
}
