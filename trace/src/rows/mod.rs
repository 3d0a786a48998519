//! The tables of a trace, one file each: what a row means, in which unit.
//!
//! Times are nanoseconds since the trace started; sizes are bytes. A column is declared here and
//! nowhere else: schema, encoder, decoder, the rows that tests make up and the table of
//! `docs/trace-format.md` follow from it.

mod accesses;
mod allocations;
mod arrays;
mod devices;
mod folded;
mod frames;
mod kernel_events;
mod kind;
mod modules;
mod placements;
mod processes;
mod role;
mod sites;
mod spans;
mod threads;
mod timeline;

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

pub use accesses::AccessRow;
pub use allocations::AllocationRow;
pub use arrays::ArrayInfo;
pub use devices::DeviceRow;
pub use folded::FoldedRow;
pub use frames::FrameRow;
pub use kernel_events::{KernelEventRow, Pages};
pub use kind::Kind;
pub use modules::ModuleRow;
pub use placements::PlacementRow;
pub use processes::{ProcessRow, split_command};
pub use role::Role;
pub use sites::{SiteRow, Untouched};
pub use spans::{SpanResident, SpanRow};
pub use threads::ThreadRow;
pub use timeline::TimelineRow;

use crate::column::{Column, Row};
use crate::table::Table;

impl Table {
    /// Its columns, in order.
    pub fn columns(self) -> Vec<Column> {
        match self {
            Table::Processes => ProcessRow::columns(),
            Table::Threads => ThreadRow::columns(),
            Table::Modules => ModuleRow::columns(),
            Table::Allocations => AllocationRow::columns(),
            Table::Spans => SpanRow::columns(),
            Table::Timeline => TimelineRow::columns(),
            Table::Sites => SiteRow::columns(),
            Table::Frames => FrameRow::columns(),
            Table::Folded => FoldedRow::columns(),
            Table::KernelEvents => KernelEventRow::columns(),
            Table::Accesses => AccessRow::columns(),
            Table::Devices => DeviceRow::columns(),
            Table::Placements => PlacementRow::columns(),
        }
    }

    /// Its Arrow schema.
    pub fn schema(self) -> SchemaRef {
        let field = |column: Column| Field::new(column.name, column.data_type.arrow(), column.null.is_some());
        Arc::new(Schema::new(self.columns().into_iter().map(field).collect::<Vec<_>>()))
    }
}
