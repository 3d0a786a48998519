//! Rows of processes and threads that are over, of tables that are written whole: they leave memory, some
//! thousand at a time, as parts beside the table. When the trace is closed, these go into the table.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::column::{Record, Row};
use crate::error::{Error, Result};
use crate::files;
use crate::read::file::{self, Readable};
use crate::rows::{ModuleRow, ProcessRow, ThreadRow};
use crate::write::parts::{self, PartFile, Parts, TableFile};
use crate::write::whole_table::BATCH_ROWS;

/// Rows that wait in memory until they are a part.
const PART_ROWS: usize = 4 * BATCH_ROWS;

/// A row that changes no more from some time on, or some columns of it.
pub(crate) trait Settling: Record {
    /// What settles together with it has the same number.
    fn number(&self) -> u32;
}

impl Settling for ProcessRow {
    fn number(&self) -> u32 {
        self.process
    }
}

impl Settling for ThreadRow {
    fn number(&self) -> u32 {
        self.thread
    }
}

impl Settling for ModuleRow {
    fn number(&self) -> u32 {
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

impl<R: Settling + Row> SettledRows<R> {
    /// Adds rows that change no more, and makes a part of what waits, if it is enough. Where it is.
    pub(crate) fn extend(
        &mut self,
        trace: &Path,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Option<PathBuf>> {
        self.waiting.extend(rows);
        if self.waiting.len() < PART_ROWS {
            return Ok(None);
        }
        let part = parts::make(&mut self.parts, trace, &self.waiting)?;
        self.waiting = Vec::new();
        Ok(part)
    }

    /// Those that are in no part.
    pub(crate) fn waiting(&self) -> &[R] {
        &self.waiting
    }
}

/// Makes one file of a table and its parts, if it has any. Where the recorder died, the table may be
/// older than a part and have rows that are in it, too: those of the part are the last ones.
pub(crate) fn join<R: Settling + Row>(trace: &Path) -> Result<()> {
    let directory = trace.join(R::TABLE.name());
    if !directory.is_dir() {
        return Ok(());
    }
    let path = files::whole_path(trace, R::TABLE);
    let mut only_in_table = HashSet::new();
    if path.is_file() {
        each(&path, |row: R| {
            only_in_table.insert(row.number());
            Ok(())
        })?;
    }
    let mut joined = Joined { file: TableFile::create(&path, R::TABLE, usize::MAX)?, rows: Vec::new() };
    for part in files::parts_of(trace, R::TABLE)? {
        each(&part, |row: R| {
            only_in_table.remove(&row.number());
            joined.push(row)
        })?;
    }
    if !only_in_table.is_empty() {
        each(&path, |row: R| if only_in_table.contains(&row.number()) { joined.push(row) } else { Ok(()) })?;
    }
    joined.close()?;
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
