//! The columns of `allocations` while they fill: the hot side of the writer.

use crate::rows::AllocationRow;

/// One growing column per field of [`AllocationRow`]; a push allocates nothing once a page was full.
#[derive(Default)]
pub(crate) struct BlockColumns {
    pub(crate) process: Vec<u64>,
    pub(crate) thread: Vec<u64>,
    pub(crate) kind: Vec<u64>,
    pub(crate) address: Nullable,
    pub(crate) bytes: Vec<u64>,
    pub(crate) alloc_ns: Vec<u64>,
    pub(crate) free_ns: Nullable,
    pub(crate) site: Nullable,
    pub(crate) ordinal: Vec<u64>,
    pub(crate) span: Nullable,
    pub(crate) role: Vec<u64>,
}

/// A column that may hold nulls.
#[derive(Default)]
pub(crate) struct Nullable {
    pub(crate) values: Vec<u64>,
    pub(crate) valid: Vec<bool>,
}

impl Nullable {
    fn push(&mut self, value: Option<u64>) {
        self.values.push(value.unwrap_or(0));
        self.valid.push(value.is_some());
    }

    fn clear(&mut self) {
        self.values.clear();
        self.valid.clear();
    }
}

impl BlockColumns {
    /// Columns with these rows.
    pub(crate) fn of(rows: &[AllocationRow]) -> BlockColumns {
        let mut columns = BlockColumns::default();
        rows.iter().for_each(|row| columns.push(row));
        columns
    }

    pub(crate) fn len(&self) -> usize {
        self.process.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &AllocationRow) {
        self.process.push(row.process.into());
        self.thread.push(row.thread.into());
        self.kind.push(row.kind as u64);
        self.address.push(row.address);
        self.bytes.push(row.bytes);
        self.alloc_ns.push(row.alloc_ns as u64);
        self.free_ns.push(row.free_ns.map(|ns| ns as u64));
        self.site.push(row.site);
        self.ordinal.push(row.ordinal.into());
        self.span.push(row.span.map(u64::from));
        self.role.push(row.role as u64);
    }

    pub(crate) fn clear(&mut self) {
        let BlockColumns { process, thread, kind, address, bytes, alloc_ns, free_ns, site, ordinal, span, role } =
            self;
        [process, thread, kind, bytes, alloc_ns, ordinal, role].into_iter().for_each(Vec::clear);
        [address, free_ns, site, span].into_iter().for_each(Nullable::clear);
    }
}
