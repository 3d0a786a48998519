//! What a trace may hold: far above what recordings write, and low enough that reading one takes
//! no more memory than a machine has. `docs/trace-format.md` lists these for readers.

use std::path::Path;

use crate::error::{Error, Result};

/// Bytes of the end of a table's file: the schema, and where the columns of its row groups are.
pub(super) const END_BYTES: u64 = 4 << 20;
/// Columns of a file.
pub(super) const COLUMNS: u64 = 512;
/// Columns times row groups of a file: opening one of them takes a tenth of a millisecond. A group
/// that a recording writes has half a million rows.
pub(super) const COLUMN_CHUNKS: u64 = 16_384;
/// Rows of a row group, and values of a page.
pub(super) const GROUP_ROWS: u64 = 4 << 20;
/// Bytes of one page of each column that is read, their dictionaries included, unpacked.
pub(super) const PAGE_BYTES: u64 = 128 << 20;
/// Bytes of one text.
pub(crate) const TEXT_BYTES: u64 = 4 << 20;
/// Bytes of the columns of a batch that hold text.
pub(super) const BATCH_TEXT_BYTES: u64 = 16 << 20;
/// Bytes that the values of the columns of JSON take in a batch.
pub(crate) const BATCH_JSON_BYTES: u64 = 128 << 20;
/// Bytes of `meta.json`.
pub(crate) const META_BYTES: u64 = 16 << 20;
/// Files of a table.
pub(super) const PARTS: u64 = 100_000;
/// Directories that are looked at for traces.
pub(crate) const DIRECTORIES: u64 = 100_000;

/// How many bytes a table may take for each byte of its files, …
const EXPANSION: u64 = 256;
/// … or if that is more, all its values one after the other.
const EXPANDED_BYTES: u64 = 1 << 30;
/// At least this much for a part of a file: a batch takes some memory for one row, too.
const PART_BYTES: u64 = 16 << 20;

/// The same of rows that are in memory at once: for each byte (calls of one operator on arrays of one
/// shape take 31 bytes in a file and some 400 as rows, which share their arrays) …
const HELD_EXPANSION: u64 = 64;
/// … and in all.
const HELD_BYTES: u64 = 96 << 20;

/// How much a file may still take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    left: u64,
    whole: u64,
}

impl Allowance {
    /// For what is decoded of one of `files` of a table, which has this length.
    pub(crate) fn decoded(file_bytes: u64, files: usize) -> Allowance {
        Self::of((EXPANDED_BYTES / files.max(1) as u64).max(file_bytes.saturating_mul(EXPANSION)))
    }

    /// For rows of a table that are kept in memory.
    pub(crate) fn held(table_bytes: u64) -> Allowance {
        Self::of(HELD_BYTES.max(table_bytes.saturating_mul(HELD_EXPANSION)))
    }

    /// What a part of a file may take that has these of so many rows.
    pub(crate) fn part(self, rows: u64, of: u64) -> Allowance {
        let share = u128::from(self.whole) * u128::from(rows.min(of)) / u128::from(of.max(1));
        Self::of((share as u64).max(PART_BYTES))
    }

    fn of(bytes: u64) -> Allowance {
        Allowance { left: bytes, whole: bytes }
    }

    /// # Errors
    /// [`Error::Excessive`] once all of it is taken.
    pub(crate) fn take(&mut self, path: &Path, bytes: u64) -> Result<()> {
        let left = self.left.checked_sub(bytes);
        let most = self.whole >> 20;
        self.left = left.ok_or_else(|| {
            excessive(
                path,
                format!(
                    "its rows take more than {most} MiB of memory, far more than a file of its size should"
                ),
            )
        })?;
        Ok(())
    }
}

/// Fails where there are more than `most`.
pub(crate) fn at_most(path: &Path, what: &str, found: u64, most: u64) -> Result<()> {
    match found > most {
        true => Err(excessive(path, format!("{what}: {found}, and at most {most} are read"))),
        false => Ok(()),
    }
}

fn excessive(path: &Path, what: String) -> Error {
    Error::Excessive { path: path.to_owned(), what }
}
