//! Rows of processes that are over, of tables that are written whole: they leave memory, some
//! thousand at a time, as parts beside the table. When the trace is closed, these go into the table.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::column::Row;
use crate::error::{Error, Result};
use crate::files;
use crate::read::file::{self, Readable};
use crate::rows::{ModuleRow, ProcessRow, ThreadRow};
use crate::write::parts::{PartFile, Parts, TableFile};
use crate::write::whole_table::BATCH_ROWS;

/// Rows that wait in memory until they are a part.
const PART_ROWS: usize = 4 * BATCH_ROWS;

/// A row of a process.
pub(crate) trait OfProcess: Row {
    /// The process's number.
    fn process(&self) -> u32;
}

impl OfProcess for ProcessRow {
    fn process(&self) -> u32 {
        self.process
    }
}

impl OfProcess for ThreadRow {
    fn process(&self) -> u32 {
        self.process
    }
}

impl OfProcess for ModuleRow {
    fn process(&self) -> u32 {
        self.process
    }
}

/// Such rows of one table.
pub(crate) struct SettledRows<R> {
    waiting: Vec<R>,
    parts: Option<Parts<TableFile>>,
}

impl<R> Default for SettledRows<R> {
    fn default() -> SettledRows<R> {
        SettledRows { waiting: Vec::new(), parts: None }
    }
}

impl<R: OfProcess> SettledRows<R> {
    /// Rows that change no more.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = R>) {
        self.waiting.extend(rows);
    }

    /// Those that are in no part.
    pub(crate) fn waiting(&self) -> &[R] {
        &self.waiting
    }

    /// Makes a part of what waits, if it is enough. Where it is.
    pub(crate) fn make_part(&mut self, trace: &Path) -> Result<Option<PathBuf>> {
        if self.waiting.len() < PART_ROWS {
            return Ok(None);
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::resume(trace, R::TABLE)?),
        };
        for rows in self.waiting.chunks(BATCH_ROWS) {
            parts.write(&R::encode(rows).map_err(Error::write(trace))?, self.waiting.len())?;
        }
        self.waiting = Vec::new();
        parts.close()
    }
}

/// Makes one file of a table and its parts, if it has any. Where the recorder died, rows may be in
/// both: then those of the parts are left out.
pub(crate) fn join<R: OfProcess>(trace: &Path) -> Result<()> {
    let parts = files::parts_of(trace, R::TABLE)?;
    if parts.is_empty() {
        return Ok(());
    }
    let path = files::whole_path(trace, R::TABLE);
    let mut in_table = HashSet::new();
    if path.is_file() {
        each(&path, |row: R| {
            in_table.insert(row.process());
            Ok(())
        })?;
    }
    let mut joined = Joined { file: TableFile::create(&path, R::TABLE, usize::MAX)?, rows: Vec::new() };
    for part in &parts {
        each(part, |row: R| if in_table.contains(&row.process()) { Ok(()) } else { joined.push(row) })?;
    }
    if !in_table.is_empty() {
        each(&path, |row| joined.push(row))?;
    }
    joined.close()?;
    let directory = trace.join(R::TABLE.name());
    fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))
}

/// Passes the rows of one file to `work`, some thousand in memory at a time.
fn each<R: Row>(path: &Path, mut work: impl FnMut(R) -> Result<()>) -> Result<()> {
    let file = Readable::new(path.to_owned(), 1)?;
    file::read_columns(
        &file,
        R::TABLE,
        &R::names(),
        |_, _| true,
        |columns| {
            let mut outcome = Ok(());
            R::read_each(
                columns,
                |_| true,
                |row| {
                    if outcome.is_ok() {
                        outcome = work(row);
                    }
                },
            )?;
            outcome
        },
    )
}

/// The file that all rows go into.
struct Joined<R> {
    file: TableFile,
    rows: Vec<R>,
}

impl<R: Row> Joined<R> {
    fn push(&mut self, row: R) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() == BATCH_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let batch = R::encode(&self.rows).map_err(Error::write(self.file.path()))?;
        self.rows.clear();
        self.file.write(&batch)
    }

    fn close(mut self) -> Result<()> {
        self.write()?;
        self.file.close()
    }
}
