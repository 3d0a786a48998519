//! What can go wrong with a trace, in one sentence each.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::directory::shown;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a trace could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `create`, `read`, `write`.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A new trace was to be written over an old one.
    #[error("{} already holds a trace: name another directory or remove it", .0.display())]
    Occupied(PathBuf),
    /// A new trace was to be written where a link leads.
    #[error("{} is a link: name the directory that it leads to", .0.display())]
    Link(PathBuf),
    /// A new trace was to be written into a directory that its owner may change meanwhile.
    #[error("{} belongs to another user: name a directory of your own", .0.display())]
    OfAnother(PathBuf),
    /// Nothing in the directory belongs to a trace.
    #[error("{} is not a trace: it has neither meta.json nor tables of one", .0.display())]
    NotATrace(PathBuf),
    /// One trace was to be opened, and the directory has several.
    #[error("{} is not a trace, but has traces in it ({count}): give one, such as {}", path.display(), first.display())]
    Several {
        /// The directory.
        path: PathBuf,
        /// How many traces lie in it.
        count: usize,
        /// The first of them.
        first: PathBuf,
    },
    /// The trace has an older schema version.
    #[error(
        "{} was written by an older memtrace (trace schema {found}, this one reads {supported}): \
         record it again",
        path.display()
    )]
    Older {
        /// The trace.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The version this crate reads.
        supported: u32,
    },
    /// The trace has a newer schema version.
    #[error(
        "{} was written by a newer memtrace (trace schema {found}, this one reads {supported}): \
         update memtrace to read it",
        path.display()
    )]
    Newer {
        /// The trace.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The version this crate reads.
        supported: u32,
    },
    /// `meta.json` does not say what it should.
    #[error("{} cannot be understood: {source}", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A table that a complete trace must have is gone.
    #[error("the trace {} lost its table `{table}`: copy it again", path.display())]
    MissingTable {
        /// The trace.
        path: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// A file of a table could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: ParquetError,
    },
    /// A file of a table is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        reason: String,
    },
    /// A file holds more than is read of one.
    #[error("{} is larger than any recording: {what}", path.display())]
    Excessive {
        /// The file.
        path: PathBuf,
        /// How much of what, and the bound.
        what: String,
    },
    /// A column is missing, has another type, or holds what it must not.
    #[error("{}: column `{column}` of table `{table}` {reason}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Adapter for `map_err` on file operations.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, path: shown(path), source }
    }

    /// Adapter for `map_err` on reading Parquet.
    pub(crate) fn damaged<E: ToString>(path: &Path) -> impl FnOnce(E) -> Error {
        move |error| Error::Damaged { path: path.to_owned(), reason: error.to_string() }
    }

    /// Adapter for `map_err` on writing Parquet.
    pub(crate) fn write<E: Into<ParquetError>>(path: &Path) -> impl FnOnce(E) -> Error {
        move |error| Error::Write { path: shown(path), source: error.into() }
    }
}
