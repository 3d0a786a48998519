//! The columns of `allocations` while they fill: the hot side of the writer.

use crate::rows::{AllocationRow, Kind, Role};

/// What mostly is the same in one row as in the row before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) span: Option<u32>,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    pub(crate) device: Option<u32>,
    pub(crate) has_address: bool,
    pub(crate) has_free: bool,
    pub(crate) has_site: bool,
}

/// Rows of one page. Of columns that may hold nulls, only the values.
#[derive(Default)]
pub(crate) struct BlockColumns {
    /// Contexts, each with the number of rows in a row that have it.
    pub(crate) runs: Vec<(Context, u32)>,
    pub(crate) address: Vec<u64>,
    pub(crate) bytes: Vec<u64>,
    pub(crate) alloc_ns: Vec<u64>,
    pub(crate) free_ns: Vec<u64>,
    pub(crate) site: Vec<u64>,
    pub(crate) ordinal: Vec<u64>,
}

impl BlockColumns {
    /// Columns with these rows.
    pub(crate) fn of(rows: &[AllocationRow]) -> BlockColumns {
        let mut columns = BlockColumns::default();
        rows.iter().for_each(|row| columns.push(row));
        columns
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &AllocationRow) {
        let context = Context {
            process: row.process,
            thread: row.thread,
            span: row.span,
            kind: row.kind,
            role: row.role,
            device: row.device,
            has_address: row.address.is_some(),
            has_free: row.free_ns.is_some(),
            has_site: row.site.is_some(),
        };
        match self.runs.last_mut() {
            Some((last, rows)) if *last == context => *rows += 1,
            _ => self.runs.push((context, 1)),
        }
        if let Some(address) = row.address {
            self.address.push(address);
        }
        self.bytes.push(row.bytes);
        self.alloc_ns.push(row.alloc_ns as u64);
        if let Some(free_ns) = row.free_ns {
            self.free_ns.push(free_ns as u64);
        }
        if let Some(site) = row.site {
            self.site.push(site);
        }
        self.ordinal.push(row.ordinal.into());
    }

    pub(crate) fn clear(&mut self) {
        let BlockColumns { runs, address, bytes, alloc_ns, free_ns, site, ordinal } = self;
        runs.clear();
        [address, bytes, alloc_ns, free_ns, site, ordinal].into_iter().for_each(Vec::clear);
    }
}
