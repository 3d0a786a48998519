//! The Arrow schema of every table: the code's side of `docs/trace-format.md`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// A table of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row per process image.
    Processes,
    /// One row per thread that recorded events.
    Threads,
    /// One row per executable or library mapped into a process.
    Modules,
    /// One row per block.
    Allocations,
    /// One row per execution of an operator.
    Spans,
    /// One row per process and sampled time.
    Timeline,
    /// One row per distinct allocation call stack.
    Sites,
    /// One row per frame of the stacks' prefix tree.
    Frames,
    /// One row per call stack and kind of the blocks without rows of their own.
    Folded,
    /// One row per thing the kernel saw.
    KernelEvents,
    /// One row per sampled memory access.
    Accesses,
    /// One row per process and device.
    Devices,
}

impl Table {
    /// Every table a trace of this version can have.
    pub const ALL: [Table; 12] = [
        Table::Processes,
        Table::Threads,
        Table::Modules,
        Table::Allocations,
        Table::Spans,
        Table::Timeline,
        Table::Sites,
        Table::Frames,
        Table::Folded,
        Table::KernelEvents,
        Table::Accesses,
        Table::Devices,
    ];

    /// Its name: `NAME.parquet`, or the directory `NAME/` of a table in parts.
    pub fn name(self) -> &'static str {
        match self {
            Table::Processes => "processes",
            Table::Threads => "threads",
            Table::Modules => "modules",
            Table::Allocations => "allocations",
            Table::Spans => "spans",
            Table::Timeline => "timeline",
            Table::Sites => "sites",
            Table::Frames => "frames",
            Table::Folded => "folded",
            Table::KernelEvents => "kernel_events",
            Table::Accesses => "accesses",
            Table::Devices => "devices",
        }
    }

    /// True for tables that grow while the recording runs and are written in parts.
    pub fn in_parts(self) -> bool {
        matches!(self, Table::Allocations | Table::Timeline | Table::KernelEvents | Table::Accesses)
    }

    /// True for tables that complete traces of early versions do not have.
    pub(crate) fn came_later(self) -> bool {
        matches!(
            self,
            Table::Sites
                | Table::Frames
                | Table::Folded
                | Table::KernelEvents
                | Table::Accesses
                | Table::Devices
        )
    }

    /// Its columns, in order.
    pub fn schema(self) -> SchemaRef {
        Arc::new(Schema::new(match self {
            Table::Processes => processes(),
            Table::Threads => threads(),
            Table::Modules => modules(),
            Table::Allocations => allocations(),
            Table::Spans => spans(),
            Table::Timeline => timeline(),
            Table::Sites => sites(),
            Table::Frames => frames(),
            Table::Folded => folded(),
            Table::KernelEvents => kernel_events(),
            Table::Accesses => accesses(),
            Table::Devices => devices(),
        }))
    }
}

/// Names of all columns.
pub(crate) fn names(schema: &SchemaRef) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// The type of `kind` and `role`: text for whoever reads it, one byte per row in memory.
pub(crate) fn label_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
}

fn required(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

fn nullable(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn processes() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        required("pid", DataType::UInt32),
        required("ppid", DataType::UInt32),
        required("command", DataType::Utf8),
        required("origin", DataType::Utf8),
        required("start_ns", DataType::Int64),
        nullable("end_ns", DataType::Int64),
        nullable("parted_ns", DataType::Int64),
        nullable("exit", DataType::Int32),
        required("peak_live_bytes", DataType::UInt64),
        required("peak_heap_bytes", DataType::UInt64),
        required("peak_mapped_bytes", DataType::UInt64),
        required("peak_resident_bytes", DataType::UInt64),
        required("probe_bytes", DataType::UInt64),
        required("peak_ns", DataType::Int64),
        required("allocations", DataType::UInt64),
        required("requested_bytes", DataType::UInt64),
        required("lost_events", DataType::UInt64),
        required("inherited_releases", DataType::UInt64),
        required("unseen_releases", DataType::UInt64),
        required("unattributed_allocations", DataType::UInt64),
        required("unattributed_bytes", DataType::UInt64),
        nullable("gc_independent_bytes", DataType::UInt64),
        nullable("gc_independent_upper_bytes", DataType::UInt64),
        nullable("garbage_at_peak_bytes", DataType::UInt64),
        required("collections", DataType::UInt64),
        required("collect_ns", DataType::UInt64),
        nullable("resident_peak_ns", DataType::Int64),
        nullable("resident_anon_bytes", DataType::UInt64),
        nullable("resident_file_bytes", DataType::UInt64),
        nullable("resident_shmem_bytes", DataType::UInt64),
        nullable("resident_live_bytes", DataType::UInt64),
        nullable("resident_untouched_bytes", DataType::UInt64),
        nullable("resident_mapped_bytes", DataType::UInt64),
        nullable("resident_stack_bytes", DataType::UInt64),
        nullable("resident_data_bytes", DataType::UInt64),
        nullable("page_faults", DataType::UInt64),
        nullable("page_table_bytes", DataType::UInt64),
        nullable("allocator_settings", DataType::Utf8),
    ]
}

fn threads() -> Vec<Field> {
    vec![
        required("thread", DataType::UInt32),
        required("process", DataType::UInt32),
        required("tid", DataType::UInt32),
        required("start_ns", DataType::Int64),
        required("events", DataType::UInt64),
    ]
}

fn modules() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        required("path", DataType::Utf8),
        required("start", DataType::UInt64),
        required("end", DataType::UInt64),
        required("build_id", DataType::Utf8),
    ]
}

fn allocations() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        required("thread", DataType::UInt32),
        required("kind", label_type()),
        nullable("address", DataType::UInt64),
        required("bytes", DataType::UInt64),
        required("alloc_ns", DataType::Int64),
        nullable("free_ns", DataType::Int64),
        nullable("site", DataType::UInt64),
        required("ordinal", DataType::UInt32),
        nullable("span", DataType::UInt32),
        required("role", label_type()),
        nullable("device", DataType::UInt32),
    ]
}

fn spans() -> Vec<Field> {
    vec![
        required("span", DataType::UInt32),
        nullable("parent", DataType::UInt32),
        required("process", DataType::UInt32),
        required("thread", DataType::UInt32),
        required("operator", DataType::Utf8),
        required("call", DataType::UInt32),
        required("start_ns", DataType::Int64),
        nullable("end_ns", DataType::Int64),
        required("inputs", DataType::Utf8),
        required("outputs", DataType::Utf8),
        required("params", DataType::Utf8),
        required("input_bytes", DataType::UInt64),
        required("output_bytes", DataType::UInt64),
        required("working_peak_bytes", DataType::UInt64),
        required("net_peak_bytes", DataType::UInt64),
        required("once_bytes", DataType::UInt64),
        nullable("resident_peak_bytes", DataType::UInt64),
        nullable("resident_start_bytes", DataType::UInt64),
        nullable("resident_file_bytes", DataType::UInt64),
        nullable("resident_live_bytes", DataType::UInt64),
        nullable("resident_untouched_bytes", DataType::UInt64),
        nullable("resident_mapped_bytes", DataType::UInt64),
        required("allocations", DataType::UInt64),
        required("peak_ns", DataType::Int64),
        nullable("peak_site", DataType::UInt64),
        required("temporaries", DataType::UInt64),
        required("temporary_bytes", DataType::UInt64),
        nullable("temporary_peak_bytes", DataType::UInt64),
        nullable("kept_bytes", DataType::UInt64),
        nullable("pinned_bytes", DataType::UInt64),
        nullable("gc_independent_bytes", DataType::UInt64),
        nullable("gc_independent_upper_bytes", DataType::UInt64),
        nullable("garbage_at_peak_bytes", DataType::UInt64),
        nullable("device_peak_bytes", DataType::UInt64),
        nullable("device_driver_peak_bytes", DataType::UInt64),
    ]
}

fn timeline() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        required("time_ns", DataType::Int64),
        required("reason", DataType::Utf8),
        required("live_bytes", DataType::UInt64),
        required("heap_bytes", DataType::UInt64),
        required("mapped_bytes", DataType::UInt64),
        nullable("resident_bytes", DataType::UInt64),
    ]
    .into_iter()
    .chain(pages())
    .chain([nullable("device_bytes", DataType::UInt64)])
    .collect()
}

fn pages() -> [Field; 4] {
    ["anon_bytes", "file_bytes", "shmem_bytes", "swap_bytes"].map(|name| nullable(name, DataType::UInt64))
}

fn kernel_events() -> Vec<Field> {
    vec![
        nullable("process", DataType::UInt32),
        required("pid", DataType::UInt32),
        required("tid", DataType::UInt32),
        required("time_ns", DataType::Int64),
        required("event", DataType::Utf8),
        nullable("address", DataType::UInt64),
        nullable("bytes", DataType::UInt64),
        nullable("value", DataType::Int64),
        nullable("took_ns", DataType::Int64),
    ]
    .into_iter()
    .chain(pages())
    .chain([nullable("site", DataType::UInt64)])
    .collect()
}

fn accesses() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        nullable("thread", DataType::UInt32),
        required("tid", DataType::UInt32),
        required("time_ns", DataType::Int64),
        required("access", DataType::Utf8),
        required("address", DataType::UInt64),
        nullable("block_address", DataType::UInt64),
        nullable("block_bytes", DataType::UInt64),
        nullable("block_thread", DataType::UInt32),
        nullable("block_ns", DataType::Int64),
        nullable("site", DataType::UInt64),
        nullable("span", DataType::UInt32),
        nullable("level", DataType::Utf8),
        nullable("latency_cycles", DataType::UInt64),
    ]
}

fn sites() -> Vec<Field> {
    vec![
        required("site", DataType::UInt64),
        required("frame", DataType::UInt32),
        required("blocks", DataType::UInt64),
        required("requested_bytes", DataType::UInt64),
        required("peak_live_bytes", DataType::UInt64),
        required("live_bytes_at_peak", DataType::UInt64),
        nullable("untouched_blocks", DataType::UInt64),
        nullable("untouched_of_bytes", DataType::UInt64),
        nullable("untouched_bytes", DataType::UInt64),
        nullable("device_bytes_at_peak", DataType::UInt64),
    ]
}

fn frames() -> Vec<Field> {
    vec![
        required("frame", DataType::UInt32),
        nullable("parent", DataType::UInt32),
        required("kind", DataType::Utf8),
        nullable("function", DataType::Utf8),
        nullable("file", DataType::Utf8),
        nullable("line", DataType::UInt32),
        nullable("module", DataType::Utf8),
        nullable("offset", DataType::UInt64),
    ]
}

fn folded() -> Vec<Field> {
    vec![
        nullable("site", DataType::UInt64),
        required("kind", DataType::Utf8),
        required("blocks", DataType::UInt64),
        required("requested_bytes", DataType::UInt64),
        required("released", DataType::UInt64),
        required("lifetime_ns", DataType::UInt64),
    ]
}

fn devices() -> Vec<Field> {
    vec![
        required("process", DataType::UInt32),
        nullable("device", DataType::UInt32),
        nullable("name", DataType::Utf8),
        nullable("total_bytes", DataType::UInt64),
        required("peak_driver_bytes", DataType::UInt64),
        required("peak_ns", DataType::Int64),
        required("used_at_peak_bytes", DataType::UInt64),
        required("peak_used_bytes", DataType::UInt64),
        required("peak_pool_bytes", DataType::UInt64),
        nullable("peak_framework_bytes", DataType::UInt64),
        nullable("peak_framework_reserved_bytes", DataType::UInt64),
        required("peak_managed_bytes", DataType::UInt64),
        required("peak_host_bytes", DataType::UInt64),
        required("peak_registered_bytes", DataType::UInt64),
        required("peak_imported_bytes", DataType::UInt64),
        required("allocations", DataType::UInt64),
        required("requested_bytes", DataType::UInt64),
        required("unseen_releases", DataType::UInt64),
    ]
}
