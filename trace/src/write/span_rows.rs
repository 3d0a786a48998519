//! Spans that have ended: their rows leave memory, some thousand at a time, as parts beside the table, in the
//! order of their ends. When the trace is closed, parts and table become the table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::column::{Columns, JsonBytes, Record};
use crate::error::{Error, Result};
use crate::files;
use crate::read::file;
use crate::read::unjoined::Unjoined;
use crate::rows::SpanRow;
use crate::table::Table;
use crate::write::parts::{self, PartFile, Parts, TableFile};
use crate::write::whole_table::{self, BATCH_ROWS};

/// Rows that wait in memory until they are a part.
pub(crate) const PART_ROWS: usize = 16 * BATCH_ROWS;

/// Rows of a part that are read at once for one who follows.
const FOLLOWED_ROWS: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct SpanRows {
    waiting: Vec<SpanRow>,
    parts: Option<Parts<TableFile>>,
    /// The parts, in order.
    made: Vec<PathBuf>,
    /// Of spans in parts, if there were any: bytes that were live when the program of their process ended.
    at_end: BTreeMap<u32, u64>,
}

/// How far one who follows has got in the spans that have ended.
#[derive(Default)]
pub struct SpanCursor {
    /// So many have been passed on.
    passed: usize,
    /// The part that is being read.
    part: Option<ParquetRecordBatchReader>,
    /// Rows of it that come next.
    next: std::vec::IntoIter<SpanRow>,
}

impl SpanRows {
    /// Adds a span that has ended. The part that was made of those that waited, if they were enough.
    pub(crate) fn push(&mut self, trace: &Path, row: SpanRow) -> Result<Option<PathBuf>> {
        self.waiting.push(row);
        if self.waiting.len() < PART_ROWS {
            return Ok(None);
        }
        let part = parts::make(&mut self.parts, trace, &self.waiting)?;
        self.waiting.clear();
        self.made.extend(part.clone());
        Ok(part)
    }

    /// The program of a process has ended: what of its spans was live then.
    pub(crate) fn live_at_end(&mut self, bytes: impl IntoIterator<Item = (u32, u64)>) {
        let mut bytes: BTreeMap<u32, u64> = bytes.into_iter().collect();
        for row in &mut self.waiting {
            row.live_bytes_at_end += bytes.remove(&row.span).unwrap_or(0);
        }
        self.at_end.append(&mut bytes);
    }

    /// Writes the table: what is in no part yet, and these rows of spans that may change. Where it is.
    pub(crate) fn write(&self, trace: &Path, others: impl Iterator<Item = SpanRow>) -> Result<PathBuf> {
        let others: Vec<SpanRow> = others.collect();
        let at_end = self.at_end.iter();
        let at_end = at_end.map(|(&span, &live_bytes_at_end)| (span, Err(live_bytes_at_end)));
        let whole = self.waiting.iter().chain(&others).map(|row| (row.span, Ok(row)));
        let mut rows: Vec<(u32, std::result::Result<&SpanRow, u64>)> = whole.chain(at_end).collect();
        rows.sort_by_key(|(span, _)| *span);
        let row = |(span, row): &(u32, std::result::Result<&SpanRow, u64>)| match *row {
            Ok(row) => row.clone(),
            Err(live_bytes_at_end) => SpanRow { span: *span, live_bytes_at_end, ..SpanRow::default() },
        };
        let batches = rows.chunks(BATCH_ROWS).map(|rows| rows.iter().map(row).collect::<Vec<_>>());
        whole_table::write_batches(trace, rows.len(), batches)
    }

    /// The next of those that have ended, in the order of their ends.
    pub(crate) fn next(&self, cursor: &mut SpanCursor) -> Result<Option<SpanRow>> {
        loop {
            if let Some(row) = cursor.next.next() {
                cursor.passed += 1;
                return Ok(Some(row));
            }
            let (part, row) = (cursor.passed / PART_ROWS, cursor.passed % PART_ROWS);
            let Some(path) = self.made.get(part) else {
                let row = self.waiting.get(row).cloned();
                cursor.part = None;
                cursor.passed += usize::from(row.is_some());
                return Ok(row);
            };
            cursor.read(path, row)?;
        }
    }
}

impl SpanCursor {
    /// Reads on in a part, from this row on.
    fn read(&mut self, path: &Path, row: usize) -> Result<()> {
        let names = SpanRow::names();
        let (mut part, mut skipped) = match self.part.take() {
            Some(part) if row > 0 => (part, 0),
            _ => (file::open(path, &names, FOLLOWED_ROWS)?, row),
        };
        let mut rows = Vec::new();
        while rows.is_empty() {
            let batch = file::guarded(path, || part.next().transpose())?;
            let batch = batch.ok_or_else(|| Error::damaged(path)("it has lost rows"))?;
            let json = JsonBytes::default();
            let columns = Columns::new(path, Table::Spans, &batch, &names, &json);
            SpanRow::read_each(&columns, |row| row >= skipped, |row| rows.push(row))?;
            skipped = skipped.saturating_sub(batch.num_rows());
        }
        (self.part, self.next) = (Some(part), rows.into_iter());
        Ok(())
    }
}

/// Makes one file of the table and its parts, if it has any.
pub(crate) fn join(trace: &Path) -> Result<()> {
    if files::parts_of(trace, Table::Spans)?.is_empty() {
        return Ok(());
    }
    let Some(rows) = Unjoined::open(trace, &SpanRow::names())? else { return Ok(()) };
    let mut file = TableFile::create(&files::whole_path(trace, Table::Spans), Table::Spans, usize::MAX)?;
    for batch in rows {
        file.write(&batch?)?;
    }
    file.close()?;
    let directory = trace.join(Table::Spans.name());
    fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))
}
