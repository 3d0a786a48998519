//! The columns of `allocations` while they fill: the hot side of the writer.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, UInt32Builder, UInt64Builder};
use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;

use crate::labels::Label;
use crate::rows::{AllocationRow, Kind, Role};
use crate::schema::Table;

/// One growing column per field of [`AllocationRow`]; a push allocates nothing per row.
pub(crate) struct BlockColumns {
    process: Vec<u32>,
    thread: Vec<u32>,
    kind: Vec<u8>,
    address: Vec<u64>,
    bytes: Vec<u64>,
    alloc_ns: Vec<i64>,
    free_ns: Int64Builder,
    site: UInt64Builder,
    ordinal: Vec<u32>,
    span: UInt32Builder,
    role: Vec<u8>,
    kinds: ArrayRef,
    roles: ArrayRef,
}

impl BlockColumns {
    pub(crate) fn new() -> Self {
        BlockColumns {
            process: Vec::new(),
            thread: Vec::new(),
            kind: Vec::new(),
            address: Vec::new(),
            bytes: Vec::new(),
            alloc_ns: Vec::new(),
            free_ns: Int64Builder::new(),
            site: UInt64Builder::new(),
            ordinal: Vec::new(),
            span: UInt32Builder::new(),
            role: Vec::new(),
            kinds: texts::<Kind>(),
            roles: texts::<Role>(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.process.len()
    }

    pub(crate) fn push(&mut self, row: &AllocationRow) {
        self.process.push(row.process);
        self.thread.push(row.thread);
        self.kind.push(row.kind as u8);
        self.address.push(row.address);
        self.bytes.push(row.bytes);
        self.alloc_ns.push(row.alloc_ns);
        self.free_ns.append_option(row.free_ns);
        self.site.append_option(row.site);
        self.ordinal.push(row.ordinal);
        self.span.append_option(row.span);
        self.role.push(row.role as u8);
    }

    /// These rows as a batch.
    pub(crate) fn batch(rows: &[AllocationRow]) -> Result<RecordBatch, ArrowError> {
        let mut columns = BlockColumns::new();
        rows.iter().for_each(|row| columns.push(row));
        columns.take()
    }

    /// The rows so far as a batch; the columns start anew.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(renew(&mut self.process))),
            Arc::new(UInt32Array::from(renew(&mut self.thread))),
            labels(renew(&mut self.kind), &self.kinds)?,
            Arc::new(UInt64Array::from(renew(&mut self.address))),
            Arc::new(UInt64Array::from(renew(&mut self.bytes))),
            Arc::new(Int64Array::from(renew(&mut self.alloc_ns))),
            Arc::new(self.free_ns.finish()),
            Arc::new(self.site.finish()),
            Arc::new(UInt32Array::from(renew(&mut self.ordinal))),
            Arc::new(self.span.finish()),
            labels(renew(&mut self.role), &self.roles)?,
        ];
        RecordBatch::try_new(Table::Allocations.schema(), columns)
    }
}

/// Takes the values and leaves room for as many.
fn renew<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

fn texts<L: Label>() -> ArrayRef {
    Arc::new(StringArray::from_iter_values(L::ALL.iter().map(|label| label.text())))
}

fn labels(keys: Vec<u8>, texts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let array = DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(keys), texts.clone())?;
    Ok(Arc::new(array))
}
