//! The tables of a trace; `rows/` declares their columns.

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
    /// One row per large block that a plan places.
    Placements,
}

impl Table {
    /// Every table of a trace.
    pub const ALL: [Table; 13] = [
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
        Table::Placements,
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
            Table::Placements => "placements",
        }
    }

    /// True for tables that grow while the recording runs and are written in parts.
    pub fn in_parts(self) -> bool {
        matches!(
            self,
            Table::Allocations | Table::Timeline | Table::KernelEvents | Table::Accesses | Table::Placements
        )
    }
}
