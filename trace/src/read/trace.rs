//! Reads a trace: the small tables as rows, `allocations` as a stream.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::UInt32Type;
use parquet::file::metadata::RowGroupMetaData;

use crate::column::{ColumnType, Columns, JsonBytes, Record, Row};
use crate::error::{Error, Result};
use crate::files;
use crate::meta::Meta;
use crate::read::file::{self, Readable};
use crate::read::limits::{self, Allowance};
use crate::read::unjoined::Unjoined;
use crate::read::within::{Values, Within};
use crate::rows::{
    AccessRow, AllocationRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, PlacementRow,
    ProcessRow, SiteRow, SpanRow, ThreadRow, TimelineRow,
};
use crate::several::traces_in;
use crate::table::Table;
use crate::write::Settling;

/// A trace directory opened for reading.
#[derive(Debug, Clone)]
pub struct Trace {
    directory: PathBuf,
    meta: Meta,
}

/// Which blocks [`Trace::allocations`] reads; the default is all of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllocationFilter<'a> {
    /// Blocks of at least this many requested bytes.
    pub min_bytes: u64,
    /// Blocks of this process.
    pub process: Option<u32>,
    /// Blocks whose innermost span is one of these.
    pub spans: Option<&'a HashSet<u32>>,
}

impl AllocationFilter<'_> {
    fn wants(&self, row: &AllocationRow) -> bool {
        let in_span = |wanted: &HashSet<u32>| row.span.is_some_and(|span| wanted.contains(&span));
        row.bytes >= self.min_bytes
            && self.process.is_none_or(|wanted| wanted == row.process)
            && self.spans.is_none_or(in_span)
    }
}

impl Trace {
    /// Opens the trace in `directory`.
    ///
    /// One that was never closed (no `meta.json`, or one without `complete`) opens too, with
    /// whatever was on disk.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read, [`Error::NotATrace`], [`Error::Several`],
    /// [`Error::Older`], [`Error::Newer`], [`Error::Meta`] if `meta.json` is damaged, or
    /// [`Error::MissingTable`] of a complete one.
    pub fn open(directory: impl AsRef<Path>) -> Result<Trace> {
        let directory = directory.as_ref();
        files::entries(directory)?;
        let meta = match Meta::load(directory)? {
            Some(meta) => meta,
            None if holds_tables(directory)? => Meta::default(),
            None => return Err(not_one(directory)),
        };
        let trace = Trace { directory: directory.to_owned(), meta };
        if trace.meta.complete {
            Table::ALL.iter().try_for_each(|table| trace.files(*table).map(drop))?;
        }
        Ok(trace)
    }

    /// Where the trace is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What `meta.json` says; all empty, with `complete` false, if the recorder died before it
    /// wrote one.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// All rows of `processes`, in the order of their numbers.
    pub fn processes(&self) -> Result<Vec<ProcessRow>> {
        self.settling()
    }

    /// All rows of `threads`, in the order of their numbers.
    pub fn threads(&self) -> Result<Vec<ThreadRow>> {
        self.settling()
    }

    /// All rows of `modules`, in the order of their processes.
    pub fn modules(&self) -> Result<Vec<ModuleRow>> {
        self.settling()
    }

    /// All rows of a table that may be written right now. While a recording runs, rows go from it into
    /// its parts: parts that are listed after it was read have what is missing in it, and are right
    /// where both have a row. If the recording ends meanwhile, the parts go into the table: it is read
    /// again then.
    pub(super) fn settling<R: Settling>(&self) -> Result<Vec<R>> {
        let parts = || files::parts_of(&self.directory, R::TABLE);
        loop {
            let before = parts()?;
            let found = self.settling_once();
            let after = parts()?;
            let is_whole = || found.is_ok() && before.iter().all(|part| after.contains(part));
            if before == after || is_whole() {
                return found;
            }
        }
    }

    fn settling_once<R: Settling>(&self) -> Result<Vec<R>> {
        let mut table: Vec<R> = self.records()?;
        let parts = files::parts_of(&self.directory, R::TABLE)?;
        if !parts.is_empty() {
            let mut rows = self.records_of(parts)?;
            let settled: HashSet<u32> = rows.iter().map(R::number).collect();
            table.retain(|row| !settled.contains(&row.number()));
            rows.append(&mut table);
            table = rows;
        }
        table.sort_by_key(R::number);
        Ok(table)
    }

    /// All records of these files of a table.
    fn records_of<R: Record>(&self, paths: Vec<PathBuf>) -> Result<Vec<R>> {
        let files = readable(&self.directory, paths)?;
        let mut kept = Kept::new(files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)));
        for file in files {
            file::read_columns(
                &file,
                R::TABLE,
                &R::names(),
                |_, _| true,
                |columns| kept.read(columns, |_| true, |_| true),
            )?;
        }
        Ok(kept.rows)
    }

    /// All rows of `spans`.
    pub fn spans(&self) -> Result<Vec<SpanRow>> {
        self.records()
    }

    /// All rows of `spans` with empty `inputs`, `outputs` and `params`, which take nearly all the
    /// time to read.
    pub fn span_figures(&self) -> Result<Vec<SpanRow>> {
        self.kept(&figures(), |_| true, |_| true)
    }

    /// Passes the same rows to `each`, some thousand in memory at a time.
    pub fn each_span_figures(&self, mut each: impl FnMut(SpanRow)) -> Result<()> {
        self.each_batch(
            &figures(),
            Table::Spans,
            |_| true,
            &[],
            |columns| SpanRow::read_each(columns, |_| true, &mut each),
        )
    }

    /// The spans that are `wanted`, whole; it is asked for each span in the order of the rows.
    pub fn spans_where(&self, wanted: impl FnMut(&SpanRow) -> bool) -> Result<Vec<SpanRow>> {
        self.kept(&SpanRow::names(), |_| true, wanted)
    }

    /// The spans in `wanted`, whole.
    pub fn spans_of(&self, wanted: &HashSet<u32>) -> Result<Vec<SpanRow>> {
        self.rows_of(wanted)
    }

    /// All rows of `timeline`.
    pub fn timeline(&self) -> Result<Vec<TimelineRow>> {
        self.records()
    }

    /// Passes all rows of `timeline` to `each`, some thousand in memory at a time.
    pub fn each_timeline(&self, each: impl FnMut(TimelineRow)) -> Result<()> {
        self.each_record(each)
    }

    /// All rows of `sites`.
    pub fn sites(&self) -> Result<Vec<SiteRow>> {
        self.records()
    }

    /// All rows of `frames`.
    pub fn frames(&self) -> Result<Vec<FrameRow>> {
        self.records()
    }

    /// All rows of `folded`.
    pub fn folded(&self) -> Result<Vec<FoldedRow>> {
        self.records()
    }

    /// All rows of `devices`.
    pub fn devices(&self) -> Result<Vec<DeviceRow>> {
        self.records()
    }

    /// All rows of `kernel_events`.
    pub fn kernel_events(&self) -> Result<Vec<KernelEventRow>> {
        self.records()
    }

    /// Passes all rows of `accesses` to `each`, some thousand in memory at a time.
    pub fn accesses(&self, each: impl FnMut(AccessRow)) -> Result<()> {
        self.each_record(each)
    }

    /// Passes all rows of `placements` to `each`, some thousand in memory at a time.
    pub fn placements(&self, each: impl FnMut(PlacementRow)) -> Result<()> {
        self.each_record(each)
    }

    /// Streams the blocks that `filter` selects to `each`, in the order they were written, in
    /// memory that does not grow with the trace. Row groups without any are not read.
    pub fn allocations(&self, filter: AllocationFilter, mut each: impl FnMut(AllocationRow)) -> Result<()> {
        let spans = filter.spans.and_then(range);
        if filter.spans.is_some() && spans.is_none() {
            return Ok(());
        }
        let bytes = (filter.min_bytes > 0).then_some(filter.min_bytes..=u64::MAX);
        let process = filter.process.map(|process| process.into()..=process.into());
        let within = |(column, range): (_, Option<_>)| Some(Within { column, values: Values::Range(range?) });
        let ranges = [("span", spans), ("bytes", bytes), ("process", process)];
        let ranges: Vec<Within> = ranges.into_iter().filter_map(within).collect();
        let wanted = |_, group: &RowGroupMetaData| ranges.iter().all(|within| within.may_be_in(group));
        // Few blocks belong to a span; each further test of rows costs more than it saves.
        let rows = if filter.spans.is_some() { &ranges[..1] } else { &[] };
        let names = AllocationRow::names();
        for file in self.files(Table::Allocations)? {
            file::read_rows(&file, Table::Allocations, &names, wanted, rows, |columns| {
                AllocationRow::read_each(
                    columns,
                    |_| true,
                    |row| {
                        if filter.wants(&row) {
                            each(row);
                        }
                    },
                )
            })?;
        }
        Ok(())
    }

    /// What was live when the recorder last wrote it; nothing when the trace is complete.
    pub(crate) fn live(&self) -> Result<Vec<AllocationRow>> {
        let path = files::live_path(&self.directory);
        if !path.is_file() {
            return Ok(Vec::new());
        }
        let file = Readable::new(path, 1)?;
        let mut kept = Kept::new(file.bytes);
        file::read_columns(
            &file,
            Table::Allocations,
            &AllocationRow::names(),
            |_, _| true,
            |columns| kept.read(columns, |_| true, |_| true),
        )?;
        Ok(kept.rows)
    }

    /// All records of a table.
    pub(crate) fn records<R: Record>(&self) -> Result<Vec<R>> {
        self.kept(&R::names(), |_| true, |_| true)
    }

    /// The records of some row groups that are `wanted`, of some columns.
    pub(crate) fn kept<R: Record>(
        &self,
        names: &[&str],
        groups: impl Fn(&RowGroupMetaData) -> bool,
        mut wanted: impl FnMut(&R) -> bool,
    ) -> Result<Vec<R>> {
        let mut kept = Kept::new(self.bytes(R::TABLE)?);
        self.each_batch(names, R::TABLE, groups, &[], |columns| kept.read(columns, |_| true, &mut wanted))?;
        Ok(kept.rows)
    }

    /// Passes all records of a table to `each`.
    pub(crate) fn each_record<R: Record>(&self, mut each: impl FnMut(R)) -> Result<()> {
        let read = |columns: &Columns| R::read_each(columns, |_| true, &mut each);
        self.each_batch(&R::names(), R::TABLE, |_| true, &[], read)
    }

    /// The rows whose id, the first column, is `wanted`. Row groups without any are not read.
    pub(crate) fn rows_of<R: Row>(&self, wanted: &HashSet<u32>) -> Result<Vec<R>> {
        let names = R::names();
        let ids = wanted.iter().map(|id| u64::from(*id)).collect();
        let within = Within { column: names[0], values: Values::Set(Arc::new(ids)) };
        let mut kept = Kept::new(self.bytes(R::TABLE)?);
        self.each_batch(
            &names,
            R::TABLE,
            |group| within.may_be_in(group),
            std::slice::from_ref(&within),
            |columns| {
                let ids = columns.required::<UInt32Type>(names[0])?;
                kept.read(columns, |row| wanted.contains(&ids[row]), |_| true)
            },
        )?;
        Ok(kept.rows)
    }

    /// Some columns of a table, of the row groups that are `wanted` only the rows that are in `within`;
    /// of a table that is in parts all rows.
    pub(crate) fn each_batch(
        &self,
        names: &[&str],
        table: Table,
        wanted: impl Fn(&RowGroupMetaData) -> bool,
        within: &[Within],
        mut each: impl FnMut(&Columns) -> Result<()>,
    ) -> Result<()> {
        if let Some(mut unjoined) = self.unjoined(table, names)? {
            let path = unjoined.path().to_owned();
            return unjoined.try_for_each(|batch| {
                each(&Columns::new(&path, table, &batch?, names, &JsonBytes::default()))
            });
        }
        for file in self.files(table)? {
            file::read_rows(&file, table, names, |_, group| wanted(group), within, &mut each)?;
        }
        Ok(())
    }

    /// Files of a table; a trace that was never closed may lack some, a complete one may not.
    pub(crate) fn files(&self, table: Table) -> Result<Vec<Readable>> {
        let paths = files::of_table(&self.directory, table)?;
        if paths.is_empty() && self.meta.complete {
            return Err(Error::MissingTable { path: self.directory.clone(), table: table.name() });
        }
        readable(&self.directory, paths)
    }

    /// Some columns of a table that is in parts only while the recording runs.
    pub(super) fn unjoined(&self, table: Table, names: &[&str]) -> Result<Option<Unjoined>> {
        if table != Table::Spans || self.has_joined_spans()? {
            return Ok(None);
        }
        match Unjoined::open(&self.directory, names) {
            // They went into the table meanwhile.
            Err(_) if files::parts_of(&self.directory, table)?.is_empty() => Ok(None),
            found => found,
        }
    }

    /// True if all spans are in one table, which stays as it is.
    pub(super) fn has_joined_spans(&self) -> Result<bool> {
        Ok(self.meta.complete && files::parts_of(&self.directory, Table::Spans)?.is_empty())
    }

    /// How long the files of a table are.
    pub(crate) fn bytes(&self, table: Table) -> Result<u64> {
        let mut files = self.files(table)?;
        if table == Table::Spans {
            files.append(&mut readable(&self.directory, files::parts_of(&self.directory, table)?)?);
        }
        Ok(files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)))
    }
}

/// Rows of a table in memory, as many as an allowance lets there be.
struct Kept<R> {
    rows: Vec<R>,
    allowance: Allowance,
}

impl<R: Record> Kept<R> {
    fn new(table_bytes: u64) -> Kept<R> {
        Kept { rows: Vec::new(), allowance: Allowance::held(table_bytes) }
    }

    /// Adds rows of a batch: by their number, then by what they are.
    fn read(
        &mut self,
        columns: &Columns,
        numbers: impl Fn(usize) -> bool,
        mut wanted: impl FnMut(&R) -> bool,
    ) -> Result<()> {
        let before = self.rows.len();
        R::read_each(columns, numbers, |row| {
            if wanted(&row) {
                self.rows.push(row);
            }
        })?;
        let added = self.rows.len() - before;
        self.allowance.take(columns.path(), (added * size_of::<R>()) as u64 + columns.text_of(added))
    }
}

/// Some files of a table.
fn readable(directory: &Path, paths: Vec<PathBuf>) -> Result<Vec<Readable>> {
    let files = paths.len();
    limits::at_most(directory, "the files of a table", files as u64, limits::PARTS)?;
    paths.into_iter().map(|path| Readable::new(path, files)).collect()
}

/// The columns of `spans` that are no JSON.
fn figures() -> Vec<&'static str> {
    let columns = SpanRow::columns().into_iter();
    columns.filter(|column| column.data_type != ColumnType::Json).map(|column| column.name).collect()
}

/// Why a directory without a trace cannot be opened.
fn not_one(directory: &Path) -> Error {
    let mut traces = traces_in(directory).unwrap_or_default();
    // Others hold no more than this one does.
    traces.retain(|path| matches!(Meta::load(path), Ok(Some(_))) || holds_tables(path).unwrap_or(false));
    match traces.first() {
        Some(first) => {
            Error::Several { path: directory.to_owned(), count: traces.len(), first: first.clone() }
        }
        None => Error::NotATrace(directory.to_owned()),
    }
}

fn holds_tables(directory: &Path) -> Result<bool> {
    for table in Table::ALL {
        if !files::of_table(directory, table)?.is_empty() || !files::parts_of(directory, table)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Smallest and largest of a set; `None` if it is empty.
fn range(spans: &HashSet<u32>) -> Option<std::ops::RangeInclusive<u64>> {
    Some(u64::from(*spans.iter().min()?)..=u64::from(*spans.iter().max()?))
}
