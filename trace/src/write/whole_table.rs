//! Tables that are written whole, each into one file.

use std::path::{Path, PathBuf};

use crate::column::Row;
use crate::error::{Error, Result};
use crate::files;
use crate::meta::Meta;
use crate::rows::{FrameRow, ModuleRow, ProcessRow, SiteRow, ThreadRow};
use crate::table::Table;
use crate::write::block_file::BlockFile;
use crate::write::parts::{PartFile, Parts, TableFile};
use crate::write::{settled, span_rows};

/// Rows encoded at once: keeps the text of a batch far below Arrow's 2 GiB.
pub(crate) const BATCH_ROWS: usize = 1024;

/// Writes a table, replacing an earlier one. Returns where it is.
pub(crate) fn write_rows<R: Row>(directory: &Path, rows: &[R]) -> Result<PathBuf> {
    write_both(directory, &[], rows)
}

/// The same with other rows before them.
pub(crate) fn write_both<R: Row>(directory: &Path, before: &[R], rows: &[R]) -> Result<PathBuf> {
    let batches = before.chunks(BATCH_ROWS).chain(rows.chunks(BATCH_ROWS));
    write_batches(directory, before.len() + rows.len(), batches)
}

/// The same with the rows in batches; they are `rows` in all.
pub(crate) fn write_batches<R: Row>(
    directory: &Path,
    rows: usize,
    batches: impl Iterator<Item: AsRef<[R]>>,
) -> Result<PathBuf> {
    let path = files::whole_path(directory, R::TABLE);
    let mut file = TableFile::create(&path, R::TABLE, rows)?;
    for batch in batches {
        file.write(&R::encode(batch.as_ref()).map_err(Error::write(&path))?)?;
    }
    file.close()?;
    Ok(path)
}

/// Replaces the stacks of a closed trace: its frames have been named.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be written; then the old ones are still there.
pub fn replace_stacks(directory: &Path, sites: &[SiteRow], frames: &[FrameRow]) -> Result<()> {
    write_rows(directory, frames)?;
    write_rows(directory, sites)?;
    Ok(())
}

/// Joins tables with their parts, adds those that never were written as empty ones, and says that
/// nothing is missing now.
pub(crate) fn complete(directory: &Path, meta: &Meta) -> Result<()> {
    settled::join::<ProcessRow>(directory)?;
    settled::join::<ThreadRow>(directory)?;
    settled::join::<ModuleRow>(directory)?;
    span_rows::join(directory)?;
    for table in Table::ALL {
        if files::of_table(directory, table)?.is_empty() {
            match table.in_parts() {
                true if table == Table::Allocations => {
                    Parts::<BlockFile>::resume(directory, table)?.finish()?
                }
                true => Parts::<TableFile>::resume(directory, table)?.finish()?,
                false => TableFile::create(&files::whole_path(directory, table), table, 0)?.close()?,
            }
        }
    }
    Meta { complete: true, ..meta.clone() }.store(directory)?;
    files::remove_live(directory)
}
