//! Record batches to rows, by column name; whatever does not fit is an error, never a guess.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::labels::Label;
use crate::rows::{
    AccessRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, Pages, ProcessRow, SiteRow,
    SpanResident, SpanRow, ThreadRow, TimelineRow, Untouched,
};
use crate::schema::Table;

/// The columns of one batch, with what an error must name.
pub(crate) struct Columns<'a> {
    pub(crate) path: &'a Path,
    pub(crate) table: Table,
    pub(crate) batch: &'a RecordBatch,
}

impl<'a> Columns<'a> {
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column that may hold nulls.
    pub(crate) fn nullable<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>> {
        let array = self.column(column)?;
        let found = array.as_primitive_opt::<T>();
        found.ok_or_else(|| self.wrong_type(column, array, &T::DATA_TYPE))
    }

    /// A column without nulls.
    pub(crate) fn required<T: ArrowPrimitiveType>(&self, column: &'static str) -> Result<&'a [T::Native]> {
        let array = self.nullable::<T>(column)?;
        self.no_nulls(column, array)?;
        Ok(array.values())
    }

    /// A column that traces of older versions of memtrace do not have: nulls there.
    pub(crate) fn added<T: ArrowPrimitiveType>(&self, column: &'static str) -> Result<PrimitiveArray<T>> {
        if self.batch.column_by_name(column).is_none() {
            return Ok(PrimitiveArray::new_null(self.rows()));
        }
        self.nullable::<T>(column).cloned()
    }

    /// A dictionary-encoded column of a closed set of values.
    pub(crate) fn labels<L: Label>(&self, column: &'static str) -> Result<Vec<L>> {
        let array = self.column(column)?;
        let wrong = || self.wrong_type(column, array, &crate::schema::label_type());
        let dictionary = array.as_dictionary_opt::<UInt8Type>().ok_or_else(wrong)?;
        let texts = dictionary.values().as_string_opt::<i32>().ok_or_else(wrong)?;
        self.no_nulls(column, dictionary.keys())?;
        self.no_nulls(column, texts)?;
        let known: Vec<Result<L, _>> = texts.iter().flatten().map(L::parse).collect();
        let keys = dictionary.keys().values().iter();
        keys.map(|&key| match known.get(usize::from(key)) {
            Some(Ok(label)) => Ok(*label),
            Some(Err(unknown)) => Err(self.error(column, format!("is damaged: {unknown}"))),
            None => Err(self.error(column, "points past its dictionary".to_owned())),
        })
        .collect()
    }

    fn nullable_text(&self, column: &'static str) -> Result<&'a StringArray> {
        let array = self.column(column)?;
        let texts = array.as_string_opt::<i32>();
        texts.ok_or_else(|| self.wrong_type(column, array, &arrow_schema::DataType::Utf8))
    }

    /// A column of text that traces of older versions of memtrace do not have: nulls there.
    pub(crate) fn added_text(&self, column: &'static str) -> Result<StringArray> {
        if self.batch.column_by_name(column).is_none() {
            return Ok(StringArray::new_null(self.rows()));
        }
        self.nullable_text(column).cloned()
    }

    fn text(&self, column: &'static str) -> Result<&'a StringArray> {
        let texts = self.nullable_text(column)?;
        self.no_nulls(column, texts)?;
        Ok(texts)
    }

    /// The value whose JSON the column has in row `row`.
    fn json<T: DeserializeOwned>(&self, column: &'static str, row: usize) -> Result<T> {
        serde_json::from_str(self.text(column)?.value(row))
            .map_err(|error| self.error(column, format!("is not the JSON it should be: {error}")))
    }

    fn column(&self, column: &'static str) -> Result<&'a ArrayRef> {
        let found = self.batch.column_by_name(column);
        found.ok_or_else(|| self.error(column, "is missing".to_owned()))
    }

    fn no_nulls(&self, column: &'static str, array: &dyn Array) -> Result<()> {
        match array.null_count() {
            0 => Ok(()),
            nulls => Err(self.error(column, format!("has {nulls} nulls and must have none"))),
        }
    }

    fn wrong_type(&self, column: &'static str, found: &ArrayRef, expected: &arrow_schema::DataType) -> Error {
        self.error(column, format!("has type {} instead of {expected}", found.data_type()))
    }

    fn error(&self, column: &'static str, reason: String) -> Error {
        Error::Column {
            path: self.path.to_owned(),
            table: self.table.name(),
            column: column.to_owned(),
            reason,
        }
    }
}

/// The value of a nullable column in row `row`.
pub(crate) fn value<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

pub(crate) fn processes(columns: &Columns) -> Result<Vec<ProcessRow>> {
    let process = columns.required::<UInt32Type>("process")?;
    let pid = columns.required::<UInt32Type>("pid")?;
    let ppid = columns.required::<UInt32Type>("ppid")?;
    let command = columns.text("command")?;
    let origin = columns.text("origin")?;
    let start_ns = columns.required::<Int64Type>("start_ns")?;
    let end_ns = columns.nullable::<Int64Type>("end_ns")?;
    let parted_ns = columns.added::<Int64Type>("parted_ns")?;
    let exit = columns.nullable::<Int32Type>("exit")?;
    let peak_live_bytes = columns.required::<UInt64Type>("peak_live_bytes")?;
    let peak_heap_bytes = columns.required::<UInt64Type>("peak_heap_bytes")?;
    let peak_mapped_bytes = columns.required::<UInt64Type>("peak_mapped_bytes")?;
    let peak_resident_bytes = columns.required::<UInt64Type>("peak_resident_bytes")?;
    let probe_bytes = columns.required::<UInt64Type>("probe_bytes")?;
    let peak_ns = columns.required::<Int64Type>("peak_ns")?;
    let allocations = columns.required::<UInt64Type>("allocations")?;
    let requested_bytes = columns.required::<UInt64Type>("requested_bytes")?;
    let lost_events = columns.required::<UInt64Type>("lost_events")?;
    let inherited_releases = columns.required::<UInt64Type>("inherited_releases")?;
    let unseen_releases = columns.required::<UInt64Type>("unseen_releases")?;
    let unattributed_allocations = columns.added::<UInt64Type>("unattributed_allocations")?;
    let unattributed_bytes = columns.added::<UInt64Type>("unattributed_bytes")?;
    let gc_independent_bytes = columns.added::<UInt64Type>("gc_independent_bytes")?;
    let gc_independent_upper_bytes = columns.added::<UInt64Type>("gc_independent_upper_bytes")?;
    let garbage_at_peak_bytes = columns.added::<UInt64Type>("garbage_at_peak_bytes")?;
    let collections = columns.added::<UInt64Type>("collections")?;
    let collect_ns = columns.added::<UInt64Type>("collect_ns")?;
    let resident_peak_ns = columns.added::<Int64Type>("resident_peak_ns")?;
    let resident_anon_bytes = columns.added::<UInt64Type>("resident_anon_bytes")?;
    let resident_file_bytes = columns.added::<UInt64Type>("resident_file_bytes")?;
    let resident_shmem_bytes = columns.added::<UInt64Type>("resident_shmem_bytes")?;
    let resident_live_bytes = columns.added::<UInt64Type>("resident_live_bytes")?;
    let resident_untouched_bytes = columns.added::<UInt64Type>("resident_untouched_bytes")?;
    let resident_mapped_bytes = columns.added::<UInt64Type>("resident_mapped_bytes")?;
    let resident_stack_bytes = columns.added::<UInt64Type>("resident_stack_bytes")?;
    let resident_data_bytes = columns.added::<UInt64Type>("resident_data_bytes")?;
    let page_faults = columns.added::<UInt64Type>("page_faults")?;
    let page_table_bytes = columns.added::<UInt64Type>("page_table_bytes")?;
    let allocator_settings = columns.added_text("allocator_settings")?;
    let row = |i: usize| ProcessRow {
        process: process[i],
        pid: pid[i],
        ppid: ppid[i],
        command: command.value(i).to_owned(),
        origin: origin.value(i).to_owned(),
        start_ns: start_ns[i],
        end_ns: value(end_ns, i),
        parted_ns: value(&parted_ns, i),
        exit: value(exit, i),
        peak_live_bytes: peak_live_bytes[i],
        peak_heap_bytes: peak_heap_bytes[i],
        peak_mapped_bytes: peak_mapped_bytes[i],
        peak_resident_bytes: peak_resident_bytes[i],
        probe_bytes: probe_bytes[i],
        peak_ns: peak_ns[i],
        allocations: allocations[i],
        requested_bytes: requested_bytes[i],
        lost_events: lost_events[i],
        inherited_releases: inherited_releases[i],
        unseen_releases: unseen_releases[i],
        unattributed_allocations: value(&unattributed_allocations, i).unwrap_or(0),
        unattributed_bytes: value(&unattributed_bytes, i).unwrap_or(0),
        gc_independent_bytes: value(&gc_independent_bytes, i),
        gc_independent_upper_bytes: value(&gc_independent_upper_bytes, i),
        garbage_at_peak_bytes: value(&garbage_at_peak_bytes, i),
        collections: value(&collections, i).unwrap_or(0),
        collect_ns: value(&collect_ns, i).unwrap_or(0),
        resident_peak_ns: value(&resident_peak_ns, i),
        resident_anon_bytes: value(&resident_anon_bytes, i),
        resident_file_bytes: value(&resident_file_bytes, i),
        resident_shmem_bytes: value(&resident_shmem_bytes, i),
        resident_live_bytes: value(&resident_live_bytes, i),
        resident_untouched_bytes: value(&resident_untouched_bytes, i),
        resident_mapped_bytes: value(&resident_mapped_bytes, i),
        resident_stack_bytes: value(&resident_stack_bytes, i),
        resident_data_bytes: value(&resident_data_bytes, i),
        page_faults: value(&page_faults, i),
        page_table_bytes: value(&page_table_bytes, i),
        allocator_settings: allocator_settings.is_valid(i).then(|| allocator_settings.value(i).to_owned()),
    };
    Ok((0..columns.rows()).map(row).collect())
}

pub(crate) fn threads(columns: &Columns) -> Result<Vec<ThreadRow>> {
    let thread = columns.required::<UInt32Type>("thread")?;
    let process = columns.required::<UInt32Type>("process")?;
    let tid = columns.required::<UInt32Type>("tid")?;
    let start_ns = columns.required::<Int64Type>("start_ns")?;
    let events = columns.required::<UInt64Type>("events")?;
    let row = |i: usize| ThreadRow {
        thread: thread[i],
        process: process[i],
        tid: tid[i],
        start_ns: start_ns[i],
        events: events[i],
    };
    Ok((0..columns.rows()).map(row).collect())
}

pub(crate) fn modules(columns: &Columns) -> Result<Vec<ModuleRow>> {
    let process = columns.required::<UInt32Type>("process")?;
    let path = columns.text("path")?;
    let start = columns.required::<UInt64Type>("start")?;
    let end = columns.required::<UInt64Type>("end")?;
    let build_id = columns.text("build_id")?;
    let row = |i: usize| ModuleRow {
        process: process[i],
        path: path.value(i).to_owned(),
        start: start[i],
        end: end[i],
        build_id: build_id.value(i).to_owned(),
    };
    Ok((0..columns.rows()).map(row).collect())
}

/// What [`spans`] leaves out of rows that are not to be described.
pub(crate) const DESCRIPTIONS: [&str; 3] = ["inputs", "outputs", "params"];

/// The rows of `spans` that are `wanted`.
pub(crate) fn spans(
    columns: &Columns,
    wanted: impl Fn(u32) -> bool,
    described: bool,
) -> Result<Vec<SpanRow>> {
    let span = columns.required::<UInt32Type>("span")?;
    let parent = columns.nullable::<UInt32Type>("parent")?;
    let process = columns.required::<UInt32Type>("process")?;
    let thread = columns.required::<UInt32Type>("thread")?;
    let operator = columns.text("operator")?;
    let call = columns.required::<UInt32Type>("call")?;
    let start_ns = columns.required::<Int64Type>("start_ns")?;
    let end_ns = columns.nullable::<Int64Type>("end_ns")?;
    let input_bytes = columns.required::<UInt64Type>("input_bytes")?;
    let output_bytes = columns.required::<UInt64Type>("output_bytes")?;
    let working_peak_bytes = columns.required::<UInt64Type>("working_peak_bytes")?;
    let net_peak_bytes = columns.required::<UInt64Type>("net_peak_bytes")?;
    let once_bytes = columns.required::<UInt64Type>("once_bytes")?;
    let resident_peak_bytes = columns.nullable::<UInt64Type>("resident_peak_bytes")?;
    let start = columns.added::<UInt64Type>("resident_start_bytes")?;
    let file = columns.added::<UInt64Type>("resident_file_bytes")?;
    let live = columns.added::<UInt64Type>("resident_live_bytes")?;
    let untouched = columns.added::<UInt64Type>("resident_untouched_bytes")?;
    let mapped = columns.added::<UInt64Type>("resident_mapped_bytes")?;
    // All of them or none.
    let at_resident_peak = |i: usize| {
        Some(SpanResident {
            start: value(&start, i)?,
            file: value(&file, i)?,
            live: value(&live, i)?,
            untouched: value(&untouched, i)?,
            mapped: value(&mapped, i)?,
        })
    };
    let allocations = columns.required::<UInt64Type>("allocations")?;
    let peak_ns = columns.required::<Int64Type>("peak_ns")?;
    let peak_site = columns.added::<UInt64Type>("peak_site")?;
    let temporaries = columns.added::<UInt64Type>("temporaries")?;
    let temporary_bytes = columns.added::<UInt64Type>("temporary_bytes")?;
    let temporary_peak_bytes = columns.added::<UInt64Type>("temporary_peak_bytes")?;
    let kept_bytes = columns.added::<UInt64Type>("kept_bytes")?;
    let pinned_bytes = columns.added::<UInt64Type>("pinned_bytes")?;
    let gc_independent_bytes = columns.added::<UInt64Type>("gc_independent_bytes")?;
    let gc_independent_upper_bytes = columns.added::<UInt64Type>("gc_independent_upper_bytes")?;
    let garbage_at_peak_bytes = columns.added::<UInt64Type>("garbage_at_peak_bytes")?;
    let device_peak_bytes = columns.added::<UInt64Type>("device_peak_bytes")?;
    let device_driver_peak_bytes = columns.added::<UInt64Type>("device_driver_peak_bytes")?;
    let row = |i: usize| {
        Ok(SpanRow {
            span: span[i],
            parent: value(parent, i),
            process: process[i],
            thread: thread[i],
            operator: operator.value(i).to_owned(),
            call: call[i],
            start_ns: start_ns[i],
            end_ns: value(end_ns, i),
            inputs: if described { columns.json("inputs", i)? } else { Default::default() },
            outputs: if described { columns.json("outputs", i)? } else { Default::default() },
            params: if described { columns.json("params", i)? } else { Default::default() },
            input_bytes: input_bytes[i],
            output_bytes: output_bytes[i],
            working_peak_bytes: working_peak_bytes[i],
            net_peak_bytes: net_peak_bytes[i],
            once_bytes: once_bytes[i],
            resident_peak_bytes: value(resident_peak_bytes, i),
            at_resident_peak: at_resident_peak(i),
            allocations: allocations[i],
            peak_ns: peak_ns[i],
            peak_site: value(&peak_site, i),
            temporaries: value(&temporaries, i).unwrap_or(0),
            temporary_bytes: value(&temporary_bytes, i).unwrap_or(0),
            temporary_peak_bytes: value(&temporary_peak_bytes, i),
            kept_bytes: value(&kept_bytes, i),
            pinned_bytes: value(&pinned_bytes, i),
            gc_independent_bytes: value(&gc_independent_bytes, i),
            gc_independent_upper_bytes: value(&gc_independent_upper_bytes, i),
            garbage_at_peak_bytes: value(&garbage_at_peak_bytes, i),
            device_peak_bytes: value(&device_peak_bytes, i),
            device_driver_peak_bytes: value(&device_driver_peak_bytes, i),
        })
    };
    (0..columns.rows()).filter(|i| wanted(span[*i])).map(row).collect()
}

pub(crate) fn timeline(columns: &Columns) -> Result<Vec<TimelineRow>> {
    let process = columns.required::<UInt32Type>("process")?;
    let time_ns = columns.required::<Int64Type>("time_ns")?;
    let reason = columns.text("reason")?;
    let live_bytes = columns.required::<UInt64Type>("live_bytes")?;
    let heap_bytes = columns.required::<UInt64Type>("heap_bytes")?;
    let mapped_bytes = columns.required::<UInt64Type>("mapped_bytes")?;
    let resident_bytes = columns.nullable::<UInt64Type>("resident_bytes")?;
    let pages = pages(columns)?;
    let device_bytes = columns.added::<UInt64Type>("device_bytes")?;
    let row = |i: usize| TimelineRow {
        process: process[i],
        time_ns: time_ns[i],
        reason: reason.value(i).to_owned(),
        live_bytes: live_bytes[i],
        heap_bytes: heap_bytes[i],
        mapped_bytes: mapped_bytes[i],
        resident_bytes: value(resident_bytes, i),
        pages: pages[i],
        device_bytes: value(&device_bytes, i),
    };
    Ok((0..columns.rows()).map(row).collect())
}

/// What was resident, row by row: all four numbers or none.
fn pages(columns: &Columns) -> Result<Vec<Option<Pages>>> {
    let anon = columns.added::<UInt64Type>("anon_bytes")?;
    let file = columns.added::<UInt64Type>("file_bytes")?;
    let shmem = columns.added::<UInt64Type>("shmem_bytes")?;
    let swap = columns.added::<UInt64Type>("swap_bytes")?;
    let row = |i: usize| {
        Some(Pages {
            anon: value(&anon, i)?,
            file: value(&file, i)?,
            shmem: value(&shmem, i)?,
            swap: value(&swap, i)?,
        })
    };
    Ok((0..columns.rows()).map(row).collect())
}

pub(crate) fn kernel_events(columns: &Columns) -> Result<Vec<KernelEventRow>> {
    let process = columns.nullable::<UInt32Type>("process")?;
    let pid = columns.required::<UInt32Type>("pid")?;
    let tid = columns.required::<UInt32Type>("tid")?;
    let time_ns = columns.required::<Int64Type>("time_ns")?;
    let event = columns.text("event")?;
    let address = columns.nullable::<UInt64Type>("address")?;
    let bytes = columns.nullable::<UInt64Type>("bytes")?;
    let number = columns.nullable::<Int64Type>("value")?;
    let took_ns = columns.nullable::<Int64Type>("took_ns")?;
    let pages = pages(columns)?;
    let site = columns.added::<UInt64Type>("site")?;
    let row = |i: usize| KernelEventRow {
        process: value(process, i),
        pid: pid[i],
        tid: tid[i],
        time_ns: time_ns[i],
        event: event.value(i).to_owned(),
        address: value(address, i),
        bytes: value(bytes, i),
        value: value(number, i),
        took_ns: value(took_ns, i),
        pages: pages[i],
        site: value(&site, i),
    };
    Ok((0..columns.rows()).map(row).collect())
}

pub(crate) fn accesses(columns: &Columns) -> Result<Vec<AccessRow>> {
    let process = columns.required::<UInt32Type>("process")?;
    let thread = columns.nullable::<UInt32Type>("thread")?;
    let tid = columns.required::<UInt32Type>("tid")?;
    let time_ns = columns.required::<Int64Type>("time_ns")?;
    let access = columns.text("access")?;
    let address = columns.required::<UInt64Type>("address")?;
    let block_address = columns.nullable::<UInt64Type>("block_address")?;
    let block_bytes = columns.nullable::<UInt64Type>("block_bytes")?;
    let block_thread = columns.nullable::<UInt32Type>("block_thread")?;
    let block_ns = columns.nullable::<Int64Type>("block_ns")?;
    let site = columns.nullable::<UInt64Type>("site")?;
    let span = columns.nullable::<UInt32Type>("span")?;
    let level = columns.nullable_text("level")?;
    let latency_cycles = columns.nullable::<UInt64Type>("latency_cycles")?;
    let row = |i: usize| AccessRow {
        process: process[i],
        thread: value(thread, i),
        tid: tid[i],
        time_ns: time_ns[i],
        access: access.value(i).to_owned(),
        address: address[i],
        block_address: value(block_address, i),
        block_bytes: value(block_bytes, i),
        block_thread: value(block_thread, i),
        block_ns: value(block_ns, i),
        site: value(site, i),
        span: value(span, i),
        level: level.is_valid(i).then(|| level.value(i).to_owned()),
        latency_cycles: value(latency_cycles, i),
    };
    Ok((0..columns.rows()).map(row).collect())
}

pub(crate) fn sites(columns: &Columns) -> Result<Vec<SiteRow>> {
    let site = columns.required::<UInt64Type>("site")?;
    let frame = columns.required::<UInt32Type>("frame")?;
    let blocks = columns.required::<UInt64Type>("blocks")?;
    let requested_bytes = columns.required::<UInt64Type>("requested_bytes")?;
    let peak_live_bytes = columns.required::<UInt64Type>("peak_live_bytes")?;
    let live_bytes_at_peak = columns.required::<UInt64Type>("live_bytes_at_peak")?;
    let blocks_with_untouched = columns.added::<UInt64Type>("untouched_blocks")?;
    let of_bytes = columns.added::<UInt64Type>("untouched_of_bytes")?;
    let untouched_bytes = columns.added::<UInt64Type>("untouched_bytes")?;
    let device_bytes_at_peak = columns.added::<UInt64Type>("device_bytes_at_peak")?;
    let untouched = |i: usize| {
        Some(Untouched {
            blocks: value(&blocks_with_untouched, i)?,
            of_bytes: value(&of_bytes, i)?,
            bytes: value(&untouched_bytes, i)?,
        })
    };
    let row = |i: usize| SiteRow {
        site: site[i],
        frame: frame[i],
        blocks: blocks[i],
        requested_bytes: requested_bytes[i],
        peak_live_bytes: peak_live_bytes[i],
        live_bytes_at_peak: live_bytes_at_peak[i],
        untouched: untouched(i),
        device_bytes_at_peak: value(&device_bytes_at_peak, i),
    };
    Ok((0..columns.rows()).map(row).collect())
}

/// The rows of `frames` that are `wanted`.
pub(crate) fn frames(columns: &Columns, wanted: impl Fn(u32) -> bool) -> Result<Vec<FrameRow>> {
    let frame = columns.required::<UInt32Type>("frame")?;
    let parent = columns.nullable::<UInt32Type>("parent")?;
    let kind = columns.text("kind")?;
    let function = columns.nullable_text("function")?;
    let file = columns.nullable_text("file")?;
    let line = columns.nullable::<UInt32Type>("line")?;
    let module = columns.nullable_text("module")?;
    let offset = columns.nullable::<UInt64Type>("offset")?;
    let text = |array: &StringArray, i: usize| array.is_valid(i).then(|| array.value(i).to_owned());
    let row = |i: usize| FrameRow {
        frame: frame[i],
        parent: value(parent, i),
        kind: kind.value(i).to_owned(),
        function: text(function, i),
        file: text(file, i),
        line: value(line, i),
        module: text(module, i),
        offset: value(offset, i),
    };
    Ok((0..columns.rows()).filter(|&i| wanted(frame[i])).map(row).collect())
}

pub(crate) fn folded(columns: &Columns) -> Result<Vec<FoldedRow>> {
    let site = columns.nullable::<UInt64Type>("site")?;
    let kind = columns.text("kind")?;
    let blocks = columns.required::<UInt64Type>("blocks")?;
    let requested_bytes = columns.required::<UInt64Type>("requested_bytes")?;
    let released = columns.required::<UInt64Type>("released")?;
    let lifetime_ns = columns.required::<UInt64Type>("lifetime_ns")?;
    let row = |i: usize| {
        let damaged = |unknown| columns.error("kind", format!("is damaged: {unknown}"));
        Ok(FoldedRow {
            site: value(site, i),
            kind: Label::parse(kind.value(i)).map_err(damaged)?,
            blocks: blocks[i],
            requested_bytes: requested_bytes[i],
            released: released[i],
            lifetime_ns: lifetime_ns[i],
        })
    };
    (0..columns.rows()).map(row).collect()
}

pub(crate) fn devices(columns: &Columns) -> Result<Vec<DeviceRow>> {
    let process = columns.required::<UInt32Type>("process")?;
    let device = columns.nullable::<UInt32Type>("device")?;
    let name = columns.nullable_text("name")?;
    let total_bytes = columns.nullable::<UInt64Type>("total_bytes")?;
    let peak_driver_bytes = columns.required::<UInt64Type>("peak_driver_bytes")?;
    let peak_ns = columns.required::<Int64Type>("peak_ns")?;
    let used_at_peak_bytes = columns.required::<UInt64Type>("used_at_peak_bytes")?;
    let peak_used_bytes = columns.required::<UInt64Type>("peak_used_bytes")?;
    let peak_pool_bytes = columns.required::<UInt64Type>("peak_pool_bytes")?;
    let peak_framework_bytes = columns.nullable::<UInt64Type>("peak_framework_bytes")?;
    let peak_framework_reserved_bytes = columns.nullable::<UInt64Type>("peak_framework_reserved_bytes")?;
    let peak_managed_bytes = columns.required::<UInt64Type>("peak_managed_bytes")?;
    let peak_host_bytes = columns.required::<UInt64Type>("peak_host_bytes")?;
    let peak_registered_bytes = columns.required::<UInt64Type>("peak_registered_bytes")?;
    let peak_imported_bytes = columns.required::<UInt64Type>("peak_imported_bytes")?;
    let allocations = columns.required::<UInt64Type>("allocations")?;
    let requested_bytes = columns.required::<UInt64Type>("requested_bytes")?;
    let unseen_releases = columns.required::<UInt64Type>("unseen_releases")?;
    let row = |i: usize| DeviceRow {
        process: process[i],
        device: value(device, i),
        name: name.is_valid(i).then(|| name.value(i).to_owned()),
        total_bytes: value(total_bytes, i),
        peak_driver_bytes: peak_driver_bytes[i],
        peak_ns: peak_ns[i],
        used_at_peak_bytes: used_at_peak_bytes[i],
        peak_used_bytes: peak_used_bytes[i],
        peak_pool_bytes: peak_pool_bytes[i],
        peak_framework_bytes: value(peak_framework_bytes, i),
        peak_framework_reserved_bytes: value(peak_framework_reserved_bytes, i),
        peak_managed_bytes: peak_managed_bytes[i],
        peak_host_bytes: peak_host_bytes[i],
        peak_registered_bytes: peak_registered_bytes[i],
        peak_imported_bytes: peak_imported_bytes[i],
        allocations: allocations[i],
        requested_bytes: requested_bytes[i],
        unseen_releases: unseen_releases[i],
    };
    Ok((0..columns.rows()).map(row).collect())
}
