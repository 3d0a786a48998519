//! `allocations` in pieces that can be read at the same time, and only as far as it says when blocks lived.

use std::path::PathBuf;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};

use crate::decode::{Columns, value};
use crate::error::Result;
use crate::pruning;
use crate::reader::Trace;
use crate::rows::Kind;
use crate::schema::Table;
use crate::table_reader;

/// A row of `allocations` without its place: who held how much, from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Index into `processes`.
    pub process: u32,
    /// Index into `threads`: who allocated.
    pub thread: u32,
    /// Which call made it.
    pub kind: Kind,
    /// Requested bytes.
    pub bytes: u64,
    /// When the call returned.
    pub alloc_ns: i64,
    /// When it was released; `None` if it never was.
    pub free_ns: Option<i64>,
    /// Id of its row in `sites`.
    pub site: Option<u64>,
    /// The innermost span of the allocating thread.
    pub span: Option<u32>,
}

/// A row group of `allocations`: what can be read on its own.
#[derive(Debug, Clone)]
pub struct BlockGroup {
    path: PathBuf,
    index: usize,
    /// Rows in it, as its file says.
    pub rows: u64,
    /// When its first and last block were allocated; `None` if the file does not say.
    pub alloc_ns: Option<(i64, i64)>,
    /// When the first and the last release of its blocks was; `None` if none was, or the file does not say.
    pub free_ns: Option<(i64, i64)>,
    /// True if some of its blocks may not have been released.
    pub unreleased: bool,
}

impl Trace {
    /// The row groups of `allocations`, in the order they were written.
    pub fn block_groups(&self) -> Result<Vec<BlockGroup>> {
        let mut groups = Vec::new();
        for path in self.files(Table::Allocations)? {
            let found = table_reader::groups(&path)?;
            groups.extend(found.iter().enumerate().map(|(index, group)| BlockGroup {
                path: path.clone(),
                index,
                rows: group.num_rows().max(0) as u64,
                alloc_ns: pruning::times(group, "alloc_ns"),
                free_ns: pruning::times(group, "free_ns"),
                unreleased: pruning::may_be_null(group, "free_ns"),
            }));
        }
        Ok(groups)
    }
}

impl BlockGroup {
    /// Hands the rows over to `each`, in order, in memory that does not grow with their number.
    pub fn lives(&self, mut each: impl FnMut(Life)) -> Result<()> {
        const COLUMNS: [&str; 8] =
            ["process", "thread", "kind", "bytes", "alloc_ns", "free_ns", "site", "span"];
        let wanted = |index, _: &_| index == self.index;
        table_reader::read_columns(&self.path, Table::Allocations, &COLUMNS, wanted, |columns| {
            lives(columns, &mut each)
        })
    }
}

fn lives(columns: &Columns, each: &mut impl FnMut(Life)) -> Result<()> {
    let process = columns.required::<UInt32Type>("process")?;
    let thread = columns.required::<UInt32Type>("thread")?;
    let kind = columns.labels("kind")?;
    let bytes = columns.required::<UInt64Type>("bytes")?;
    let alloc_ns = columns.required::<Int64Type>("alloc_ns")?;
    let free_ns = columns.nullable::<Int64Type>("free_ns")?;
    let site = columns.nullable::<UInt64Type>("site")?;
    let span = columns.nullable::<UInt32Type>("span")?;
    for row in 0..columns.rows() {
        each(Life {
            process: process[row],
            thread: thread[row],
            kind: kind[row],
            bytes: bytes[row],
            alloc_ns: alloc_ns[row],
            free_ns: value(free_ns, row),
            site: value(site, row),
            span: value(span, row),
        });
    }
    Ok(())
}
