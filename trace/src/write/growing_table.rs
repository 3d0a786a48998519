//! Tables in parts that the Parquet library encodes, some rows at a time.

use std::path::{Path, PathBuf};

use crate::column::Row;
use crate::error::{Error, Result};
use crate::write::parts::{Parts, TableFile};
use crate::write::whole_table::BATCH_ROWS;

/// See the module.
pub(crate) struct GrowingTable<R> {
    rows: Vec<R>,
    parts: Parts<TableFile>,
    /// Rows of the open part.
    count: u64,
    directory: PathBuf,
}

impl<R: Row> GrowingTable<R> {
    pub(crate) fn create(directory: &Path) -> Result<GrowingTable<R>> {
        let parts = Parts::create(directory, R::TABLE)?;
        Ok(GrowingTable { rows: Vec::new(), parts, count: 0, directory: directory.to_owned() })
    }

    pub(crate) fn push(&mut self, row: R) -> Result<()> {
        self.count += 1;
        self.rows.push(row);
        if self.rows.len() == BATCH_ROWS { self.write(usize::MAX) } else { Ok(()) }
    }

    /// Writes the rows that wait. If they begin a part, it will have `rows` rows.
    fn write(&mut self, rows: usize) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = R::encode(&self.rows).map_err(Error::write(&self.directory))?;
        self.rows.clear();
        self.parts.write(&batch, rows)
    }

    /// Closes the open part: where it is, and how many rows it has.
    pub(crate) fn close(&mut self) -> Result<Option<(PathBuf, u64)>> {
        self.write(self.rows.len())?;
        let rows = std::mem::take(&mut self.count);
        Ok(self.parts.close()?.map(|path| (path, rows)))
    }
}
