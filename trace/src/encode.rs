//! Rows to record batches.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray,
    types::{Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_schema::ArrowError;
use serde::Serialize;

use crate::rows::{
    AccessRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, Pages, ProcessRow, SiteRow,
    SpanResident, SpanRow, ThreadRow, TimelineRow, Untouched,
};
use crate::schema::Table;

/// Batch of a table, checked against its schema.
pub(crate) type Encoded = Result<RecordBatch, ArrowError>;

fn required<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn nullable<T: ArrowPrimitiveType>(values: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
    Arc::new(values.collect::<PrimitiveArray<T>>())
}

fn text<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn nullable_text<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn json<'a, T: Serialize + 'a>(values: impl Iterator<Item = &'a T>) -> Result<ArrayRef, ArrowError> {
    let texts: Result<Vec<String>, _> = values.map(serde_json::to_string).collect();
    let texts = texts.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    Ok(Arc::new(StringArray::from_iter_values(texts)))
}

pub(crate) fn processes(rows: &[ProcessRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        required::<UInt32Type>(rows.iter().map(|r| r.pid)),
        required::<UInt32Type>(rows.iter().map(|r| r.ppid)),
        text(rows.iter().map(|r| r.command.as_str())),
        text(rows.iter().map(|r| r.origin.as_str())),
        required::<Int64Type>(rows.iter().map(|r| r.start_ns)),
        nullable::<Int64Type>(rows.iter().map(|r| r.end_ns)),
        nullable::<Int64Type>(rows.iter().map(|r| r.parted_ns)),
        nullable::<Int32Type>(rows.iter().map(|r| r.exit)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_live_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_heap_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_mapped_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_resident_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.probe_bytes)),
        required::<Int64Type>(rows.iter().map(|r| r.peak_ns)),
        required::<UInt64Type>(rows.iter().map(|r| r.allocations)),
        required::<UInt64Type>(rows.iter().map(|r| r.requested_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.lost_events)),
        required::<UInt64Type>(rows.iter().map(|r| r.inherited_releases)),
        required::<UInt64Type>(rows.iter().map(|r| r.unseen_releases)),
        required::<UInt64Type>(rows.iter().map(|r| r.unattributed_allocations)),
        required::<UInt64Type>(rows.iter().map(|r| r.unattributed_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.gc_independent_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.gc_independent_upper_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.garbage_at_peak_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.collections)),
        required::<UInt64Type>(rows.iter().map(|r| r.collect_ns)),
        nullable::<Int64Type>(rows.iter().map(|r| r.resident_peak_ns)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_anon_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_file_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_shmem_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_live_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_untouched_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_mapped_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_stack_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_data_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.page_faults)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.page_table_bytes)),
        nullable_text(rows.iter().map(|r| r.allocator_settings.as_deref())),
    ];
    RecordBatch::try_new(Table::Processes.schema(), columns)
}

pub(crate) fn threads(rows: &[ThreadRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.thread)),
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        required::<UInt32Type>(rows.iter().map(|r| r.tid)),
        required::<Int64Type>(rows.iter().map(|r| r.start_ns)),
        required::<UInt64Type>(rows.iter().map(|r| r.events)),
    ];
    RecordBatch::try_new(Table::Threads.schema(), columns)
}

pub(crate) fn modules(rows: &[ModuleRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        text(rows.iter().map(|r| r.path.as_str())),
        required::<UInt64Type>(rows.iter().map(|r| r.start)),
        required::<UInt64Type>(rows.iter().map(|r| r.end)),
        text(rows.iter().map(|r| r.build_id.as_str())),
    ];
    RecordBatch::try_new(Table::Modules.schema(), columns)
}

pub(crate) fn spans(rows: &[SpanRow]) -> Encoded {
    let at_peak = |field: fn(SpanResident) -> u64| {
        nullable::<UInt64Type>(rows.iter().map(|row| row.at_resident_peak.map(field)))
    };
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.span)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.parent)),
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        required::<UInt32Type>(rows.iter().map(|r| r.thread)),
        text(rows.iter().map(|r| r.operator.as_str())),
        required::<UInt32Type>(rows.iter().map(|r| r.call)),
        required::<Int64Type>(rows.iter().map(|r| r.start_ns)),
        nullable::<Int64Type>(rows.iter().map(|r| r.end_ns)),
        json(rows.iter().map(|r| &r.inputs))?,
        json(rows.iter().map(|r| &r.outputs))?,
        json(rows.iter().map(|r| &r.params))?,
        required::<UInt64Type>(rows.iter().map(|r| r.input_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.output_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.working_peak_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.net_peak_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.once_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_peak_bytes)),
        at_peak(|r| r.start),
        at_peak(|r| r.file),
        at_peak(|r| r.live),
        at_peak(|r| r.untouched),
        at_peak(|r| r.mapped),
        required::<UInt64Type>(rows.iter().map(|r| r.allocations)),
        required::<Int64Type>(rows.iter().map(|r| r.peak_ns)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.peak_site)),
        required::<UInt64Type>(rows.iter().map(|r| r.temporaries)),
        required::<UInt64Type>(rows.iter().map(|r| r.temporary_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.temporary_peak_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.kept_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.pinned_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.gc_independent_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.gc_independent_upper_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.garbage_at_peak_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.device_peak_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.device_driver_peak_bytes)),
    ];
    RecordBatch::try_new(Table::Spans.schema(), columns)
}

pub(crate) fn timeline(rows: &[TimelineRow]) -> Encoded {
    let mut columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        required::<Int64Type>(rows.iter().map(|r| r.time_ns)),
        text(rows.iter().map(|r| r.reason.as_str())),
        required::<UInt64Type>(rows.iter().map(|r| r.live_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.heap_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.mapped_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.resident_bytes)),
    ];
    columns.extend(pages(rows, |row| row.pages));
    columns.push(nullable::<UInt64Type>(rows.iter().map(|r| r.device_bytes)));
    RecordBatch::try_new(Table::Timeline.schema(), columns)
}

fn pages<R>(rows: &[R], of: fn(&R) -> Option<Pages>) -> [ArrayRef; 4] {
    let column = |field: fn(Pages) -> u64| nullable::<UInt64Type>(rows.iter().map(|row| of(row).map(field)));
    [column(|p| p.anon), column(|p| p.file), column(|p| p.shmem), column(|p| p.swap)]
}

pub(crate) fn kernel_events(rows: &[KernelEventRow]) -> Encoded {
    let mut columns = vec![
        nullable::<UInt32Type>(rows.iter().map(|r| r.process)),
        required::<UInt32Type>(rows.iter().map(|r| r.pid)),
        required::<UInt32Type>(rows.iter().map(|r| r.tid)),
        required::<Int64Type>(rows.iter().map(|r| r.time_ns)),
        text(rows.iter().map(|r| r.event.as_str())),
        nullable::<UInt64Type>(rows.iter().map(|r| r.address)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.bytes)),
        nullable::<Int64Type>(rows.iter().map(|r| r.value)),
        nullable::<Int64Type>(rows.iter().map(|r| r.took_ns)),
    ];
    columns.extend(pages(rows, |row| row.pages));
    columns.push(nullable::<UInt64Type>(rows.iter().map(|r| r.site)));
    RecordBatch::try_new(Table::KernelEvents.schema(), columns)
}

pub(crate) fn accesses(rows: &[AccessRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.thread)),
        required::<UInt32Type>(rows.iter().map(|r| r.tid)),
        required::<Int64Type>(rows.iter().map(|r| r.time_ns)),
        text(rows.iter().map(|r| r.access.as_str())),
        required::<UInt64Type>(rows.iter().map(|r| r.address)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.block_address)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.block_bytes)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.block_thread)),
        nullable::<Int64Type>(rows.iter().map(|r| r.block_ns)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.site)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.span)),
        nullable_text(rows.iter().map(|r| r.level.as_deref())),
        nullable::<UInt64Type>(rows.iter().map(|r| r.latency_cycles)),
    ];
    RecordBatch::try_new(Table::Accesses.schema(), columns)
}

pub(crate) fn sites(rows: &[SiteRow]) -> Encoded {
    let untouched =
        |field: fn(Untouched) -> u64| nullable::<UInt64Type>(rows.iter().map(|row| row.untouched.map(field)));
    let columns = vec![
        required::<UInt64Type>(rows.iter().map(|r| r.site)),
        required::<UInt32Type>(rows.iter().map(|r| r.frame)),
        required::<UInt64Type>(rows.iter().map(|r| r.blocks)),
        required::<UInt64Type>(rows.iter().map(|r| r.requested_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_live_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.live_bytes_at_peak)),
        untouched(|u| u.blocks),
        untouched(|u| u.of_bytes),
        untouched(|u| u.bytes),
        nullable::<UInt64Type>(rows.iter().map(|r| r.device_bytes_at_peak)),
    ];
    RecordBatch::try_new(Table::Sites.schema(), columns)
}

pub(crate) fn frames(rows: &[FrameRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.frame)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.parent)),
        text(rows.iter().map(|r| r.kind.as_str())),
        nullable_text(rows.iter().map(|r| r.function.as_deref())),
        nullable_text(rows.iter().map(|r| r.file.as_deref())),
        nullable::<UInt32Type>(rows.iter().map(|r| r.line)),
        nullable_text(rows.iter().map(|r| r.module.as_deref())),
        nullable::<UInt64Type>(rows.iter().map(|r| r.offset)),
    ];
    RecordBatch::try_new(Table::Frames.schema(), columns)
}

pub(crate) fn folded(rows: &[FoldedRow]) -> Encoded {
    let columns = vec![
        nullable::<UInt64Type>(rows.iter().map(|r| r.site)),
        text(rows.iter().map(|r| r.kind.as_str())),
        required::<UInt64Type>(rows.iter().map(|r| r.blocks)),
        required::<UInt64Type>(rows.iter().map(|r| r.requested_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.released)),
        required::<UInt64Type>(rows.iter().map(|r| r.lifetime_ns)),
    ];
    RecordBatch::try_new(Table::Folded.schema(), columns)
}

pub(crate) fn devices(rows: &[DeviceRow]) -> Encoded {
    let columns = vec![
        required::<UInt32Type>(rows.iter().map(|r| r.process)),
        nullable::<UInt32Type>(rows.iter().map(|r| r.device)),
        nullable_text(rows.iter().map(|r| r.name.as_deref())),
        nullable::<UInt64Type>(rows.iter().map(|r| r.total_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_driver_bytes)),
        required::<Int64Type>(rows.iter().map(|r| r.peak_ns)),
        required::<UInt64Type>(rows.iter().map(|r| r.used_at_peak_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_used_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_pool_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.peak_framework_bytes)),
        nullable::<UInt64Type>(rows.iter().map(|r| r.peak_framework_reserved_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_managed_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_host_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_registered_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.peak_imported_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.allocations)),
        required::<UInt64Type>(rows.iter().map(|r| r.requested_bytes)),
        required::<UInt64Type>(rows.iter().map(|r| r.unseen_releases)),
    ];
    RecordBatch::try_new(Table::Devices.schema(), columns)
}
