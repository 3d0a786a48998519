//! Where the files of a trace are.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::meta;
use crate::table::Table;

/// Where a table that is written whole is.
pub(crate) fn whole_path(trace: &Path, table: Table) -> PathBuf {
    trace.join(format!("{}.parquet", table.name()))
}

/// What was live when it was last written; only while the recording runs.
pub(crate) fn live_path(trace: &Path) -> PathBuf {
    trace.join("live.parquet")
}

/// Removes it, if it is there.
pub(crate) fn remove_live(trace: &Path) -> Result<()> {
    let path = live_path(trace);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// What is in a directory that may be a trace; a file is none.
pub(crate) fn entries(directory: &Path) -> Result<fs::ReadDir> {
    fs::read_dir(directory).map_err(|error| match error.kind() {
        ErrorKind::NotADirectory => Error::NotATrace(directory.to_owned()),
        _ => Error::io("read", directory)(error),
    })
}

/// Closed files of a table in `trace`, in the order they were written. A table that is written whole
/// has [parts](parts_of) besides while the recording runs.
pub(crate) fn of_table(trace: &Path, table: Table) -> Result<Vec<PathBuf>> {
    if table.in_parts() {
        return parts_of(trace, table);
    }
    let path = whole_path(trace, table);
    Ok(if is_there(&path)? { vec![path] } else { Vec::new() })
}

/// Closed parts of a table.
pub(crate) fn parts_of(trace: &Path, table: Table) -> Result<Vec<PathBuf>> {
    let directory = trace.join(table.name());
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io("read", &directory))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("read", &directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("part-") && name.ends_with(".parquet") && is_there(&path)? {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| (part_number(path), path.clone()));
    Ok(files)
}

/// False if there is nothing of that name. What is no file would be read as if it were empty, or
/// for ever.
fn is_there(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(Error::io("read", path)(std::io::Error::other("it is not a file"))),
        // A link that leads nowhere is there.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => Ok(false),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// The name of a part.
pub(crate) fn part_name(number: u32) -> String {
    format!("part-{number:05}.parquet")
}

/// The number of a part, by its name.
pub(crate) fn part_number(path: &Path) -> Option<u32> {
    path.file_stem()?.to_str()?.strip_prefix("part-")?.parse().ok()
}

/// True if a directory holds files of a trace.
pub(crate) fn hold_trace(directory: &Path) -> bool {
    directory.join(meta::FILE_NAME).exists()
        || Table::ALL
            .iter()
            .any(|&table| whole_path(directory, table).exists() || directory.join(table.name()).exists())
}

/// True if `path` is a directory that holds a trace, whole or cut short, and nothing else.
pub fn is_trace(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let entries = fs::read_dir(path).into_iter().flatten();
    is_directory
        && hold_trace(path)
        && entries.into_iter().all(|entry| entry.is_ok_and(|entry| is_of_trace(&entry.file_name())))
}

/// True for the names that a recording gives its files.
fn is_of_trace(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    // What was being written when the recorder died.
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")).unwrap_or(name);
    [meta::FILE_NAME, "live.parquet", ".socket"].contains(&name)
        || Table::ALL.iter().any(|table| name.strip_suffix(".parquet").unwrap_or(name) == table.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_anything_else_is_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let (path, write) =
            (directory.path(), |name: &str| fs::write(directory.path().join(name), "").unwrap());
        assert!(!is_trace(path), "it is empty");
        write("spans.parquet");
        assert!(is_trace(path));
        fs::create_dir(path.join("allocations")).unwrap();
        ["meta.json", ".meta.json.tmp", ".socket", "live.parquet"].iter().for_each(|name| write(name));
        assert!(is_trace(path) && !is_trace(&path.join("meta.json")) && !is_trace(&path.join("nowhere")));
        write("notes.txt");
        assert!(!is_trace(path));
    }
}
