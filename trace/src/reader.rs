//! Reads a trace: the small tables as rows, `allocations` as a stream.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use parquet::file::metadata::RowGroupMetaData;

use crate::decode::{self, Columns, value};
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::parts;
use crate::pruning;
use crate::rows::{
    AccessRow, AllocationRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, ProcessRow, SiteRow,
    SpanRow, ThreadRow, TimelineRow,
};
use crate::schema::{self, Table};
use crate::table_reader::{self, Within};

/// A trace directory opened for reading.
#[derive(Debug, Clone)]
pub struct Trace {
    directory: PathBuf,
    meta: Meta,
}

/// Which blocks [`Trace::allocations`] hands over; the default is all of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllocationFilter<'a> {
    /// Blocks of at least this many requested bytes.
    pub min_bytes: u64,
    /// Blocks of this process.
    pub process: Option<u32>,
    /// Blocks whose innermost span is one of these.
    pub spans: Option<&'a HashSet<u32>>,
}

impl Trace {
    /// Opens the trace in `directory`.
    ///
    /// One that was never closed (no `meta.json`, or one without `complete`) opens too, with
    /// whatever was on disk.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read, [`Error::NotATrace`], [`Error::Newer`],
    /// or [`Error::Meta`] if `meta.json` is damaged.
    pub fn open(directory: impl AsRef<Path>) -> Result<Trace> {
        let directory = directory.as_ref();
        std::fs::read_dir(directory).map_err(Error::io("read", directory))?;
        let meta = match Meta::load(directory)? {
            Some(meta) => meta,
            None if holds_tables(directory)? => Meta::default(),
            None => return Err(Error::NotATrace(directory.to_owned())),
        };
        Ok(Trace { directory: directory.to_owned(), meta })
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

    /// All rows of `processes`.
    pub fn processes(&self) -> Result<Vec<ProcessRow>> {
        self.rows(Table::Processes, decode::processes)
    }

    /// All rows of `threads`.
    pub fn threads(&self) -> Result<Vec<ThreadRow>> {
        self.rows(Table::Threads, decode::threads)
    }

    /// All rows of `modules`.
    pub fn modules(&self) -> Result<Vec<ModuleRow>> {
        self.rows(Table::Modules, decode::modules)
    }

    /// All rows of `spans`.
    pub fn spans(&self) -> Result<Vec<SpanRow>> {
        self.rows(Table::Spans, |columns| decode::spans(columns, |_| true, true))
    }

    /// All rows of `spans` with empty `inputs`, `outputs` and `params`, which take nearly all the time to read.
    pub fn span_figures(&self) -> Result<Vec<SpanRow>> {
        self.rows_without(&decode::DESCRIPTIONS, Table::Spans, |columns| {
            decode::spans(columns, |_| true, false)
        })
    }

    /// The spans in `wanted`, whole.
    pub fn spans_of(&self, wanted: &HashSet<u32>) -> Result<Vec<SpanRow>> {
        self.rows(Table::Spans, |columns| decode::spans(columns, |span| wanted.contains(&span), true))
    }

    /// All rows of `timeline`.
    pub fn timeline(&self) -> Result<Vec<TimelineRow>> {
        self.rows(Table::Timeline, decode::timeline)
    }

    /// All rows of `sites`; none in a trace from before there were any.
    pub fn sites(&self) -> Result<Vec<SiteRow>> {
        self.rows(Table::Sites, decode::sites)
    }

    /// All rows of `frames`; none in a trace from before there were any.
    pub fn frames(&self) -> Result<Vec<FrameRow>> {
        self.rows(Table::Frames, |columns| decode::frames(columns, |_| true))
    }

    /// All rows of `folded`; none in a trace from before there were any.
    pub fn folded(&self) -> Result<Vec<FoldedRow>> {
        self.rows(Table::Folded, decode::folded)
    }

    /// All rows of `devices`; none in a trace from before there were any.
    pub fn devices(&self) -> Result<Vec<DeviceRow>> {
        self.rows(Table::Devices, decode::devices)
    }

    /// All rows of `kernel_events`; none in a trace from before there were any.
    pub fn kernel_events(&self) -> Result<Vec<KernelEventRow>> {
        self.rows(Table::KernelEvents, decode::kernel_events)
    }

    /// Hands all rows of `accesses` to `each`, some thousand in memory at a time; none in a trace from before there were any.
    pub fn accesses(&self, mut each: impl FnMut(AccessRow)) -> Result<()> {
        for path in self.files(Table::Accesses)? {
            table_reader::read(
                &path,
                Table::Accesses,
                |_| true,
                |columns| {
                    decode::accesses(columns)?.into_iter().for_each(&mut each);
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    /// Streams the blocks `filter` asks for to `each`, in the order they were written, in
    /// memory that does not grow with the trace. Row groups without any are not read.
    pub fn allocations(&self, filter: AllocationFilter, mut each: impl FnMut(AllocationRow)) -> Result<()> {
        let spans = filter.spans.and_then(range);
        if filter.spans.is_some() && spans.is_none() {
            return Ok(());
        }
        let bytes = (filter.min_bytes > 0).then_some(filter.min_bytes..=u64::MAX);
        let process = filter.process.map(|process| process.into()..=process.into());
        let within = |(column, range): (_, Option<_>)| Some(Within { column, range: range? });
        let ranges = [("span", spans), ("bytes", bytes), ("process", process)];
        let ranges: Vec<Within> = ranges.into_iter().filter_map(within).collect();
        let wanted = |_, group: &RowGroupMetaData| {
            ranges.iter().all(|within| pruning::may_hold(group, within.column, within.range.clone()))
        };
        // Few blocks belong to a span; each further test of rows costs more than it saves.
        let rows = if filter.spans.is_some() { &ranges[..1] } else { &[] };
        let schema = Table::Allocations.schema();
        for path in self.files(Table::Allocations)? {
            table_reader::read_rows(
                &path,
                Table::Allocations,
                &schema::names(&schema),
                wanted,
                rows,
                |columns| blocks(columns, &filter, &mut each),
            )?;
        }
        Ok(())
    }

    /// What was live when the recorder last wrote it down; nothing once the trace is complete.
    pub(crate) fn live(&self) -> Result<Vec<AllocationRow>> {
        let path = parts::live_path(&self.directory);
        let mut rows = Vec::new();
        if path.is_file() {
            let all = AllocationFilter::default();
            table_reader::read(
                &path,
                Table::Allocations,
                |_| true,
                |columns| blocks(columns, &all, &mut |row| rows.push(row)),
            )?;
        }
        Ok(rows)
    }

    fn rows<R>(&self, table: Table, decode: impl Fn(&Columns) -> Result<Vec<R>>) -> Result<Vec<R>> {
        self.rows_without(&[], table, decode)
    }

    /// All rows of a table, decoded without some of the columns.
    fn rows_without<R>(
        &self,
        left_out: &[&str],
        table: Table,
        decode: impl Fn(&Columns) -> Result<Vec<R>>,
    ) -> Result<Vec<R>> {
        let schema = table.schema();
        let mut names = schema::names(&schema);
        names.retain(|name| !left_out.contains(name));
        self.rows_of(table, &names, |_| true, decode)
    }

    /// Some columns of a table, of the row groups that are `wanted`.
    pub(crate) fn rows_of<R>(
        &self,
        table: Table,
        names: &[&str],
        wanted: impl Fn(&RowGroupMetaData) -> bool,
        decode: impl Fn(&Columns) -> Result<Vec<R>>,
    ) -> Result<Vec<R>> {
        let mut rows = Vec::new();
        for path in self.files(table)? {
            let decoded = |columns: &Columns| {
                rows.append(&mut decode(columns)?);
                Ok(())
            };
            table_reader::read_columns(&path, table, names, |_, group| wanted(group), decoded)?;
        }
        Ok(rows)
    }

    /// Files of a table; a trace that was never closed may lack some, a complete one may not.
    pub(crate) fn files(&self, table: Table) -> Result<Vec<PathBuf>> {
        let files = parts::files(&self.directory, table)?;
        if files.is_empty() && self.meta.complete && !table.came_later() {
            return Err(Error::MissingTable { path: self.directory.clone(), table: table.name() });
        }
        Ok(files)
    }
}

fn holds_tables(directory: &Path) -> Result<bool> {
    for table in Table::ALL {
        if !parts::files(directory, table)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Smallest and largest of a set; `None` if it is empty.
fn range(spans: &HashSet<u32>) -> Option<std::ops::RangeInclusive<u64>> {
    Some(u64::from(*spans.iter().min()?)..=u64::from(*spans.iter().max()?))
}

fn blocks(columns: &Columns, filter: &AllocationFilter, each: &mut impl FnMut(AllocationRow)) -> Result<()> {
    let process = columns.required::<UInt32Type>("process")?;
    let thread = columns.required::<UInt32Type>("thread")?;
    let kind = columns.labels("kind")?;
    let address = columns.nullable::<UInt64Type>("address")?;
    let bytes = columns.required::<UInt64Type>("bytes")?;
    let alloc_ns = columns.required::<Int64Type>("alloc_ns")?;
    let free_ns = columns.nullable::<Int64Type>("free_ns")?;
    let site = columns.nullable::<UInt64Type>("site")?;
    let ordinal = columns.required::<UInt32Type>("ordinal")?;
    let span = columns.nullable::<UInt32Type>("span")?;
    let role = columns.labels("role")?;
    let device = columns.added::<UInt32Type>("device")?;
    for i in 0..columns.rows() {
        let span = value(span, i);
        if bytes[i] < filter.min_bytes
            || filter.process.is_some_and(|wanted| wanted != process[i])
            || filter.spans.is_some_and(|wanted| !span.is_some_and(|s| wanted.contains(&s)))
        {
            continue;
        }
        each(AllocationRow {
            process: process[i],
            thread: thread[i],
            kind: kind[i],
            address: value(address, i),
            bytes: bytes[i],
            alloc_ns: alloc_ns[i],
            free_ns: value(free_ns, i),
            site: value(site, i),
            ordinal: ordinal[i],
            span,
            role: role[i],
            device: value(&device, i),
        });
    }
    Ok(())
}
