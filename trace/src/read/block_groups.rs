//! `allocations` in pieces that can be read at the same time.

use crate::column::{Record, extract};
use crate::error::Result;
use crate::read::file::{self, Readable};
use crate::read::pruning;
use crate::read::trace::Trace;
use crate::rows::Kind;
use crate::table::Table;

extract! {
    Allocations,
    /// A row of `allocations` without the place of the block: how much memory, whose, from when to
    /// when.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AllocationRecord {
        /// Index into `processes`.
        pub process: u32,
        /// Index into `threads`: the thread that allocated.
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
}

/// A row group of `allocations`: what can be read on its own.
#[derive(Debug, Clone)]
pub struct BlockGroup {
    file: Readable,
    index: usize,
    /// Rows in it, as its file says.
    pub rows: u64,
    /// When its first and last block were allocated; `None` if the file does not say.
    pub alloc_ns: Option<(i64, i64)>,
    /// When the first and the last release of its blocks was; `None` if none was, or the file does
    /// not say.
    pub free_ns: Option<(i64, i64)>,
    /// True if some of its blocks may not have been released.
    pub unreleased: bool,
}

impl Trace {
    /// The row groups of `allocations`, in the order they were written.
    pub fn block_groups(&self) -> Result<Vec<BlockGroup>> {
        let mut groups = Vec::new();
        for file in self.files(Table::Allocations)? {
            let found = file::groups(&file.path)?;
            groups.extend(found.iter().enumerate().map(|(index, group)| BlockGroup {
                file: file.clone(),
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
    /// Passes the rows to `each`, in order, in memory that does not grow with their number.
    pub fn records(&self, mut each: impl FnMut(AllocationRecord)) -> Result<()> {
        let wanted = |index, _: &_| index == self.index;
        file::read_columns(&self.file, Table::Allocations, &AllocationRecord::names(), wanted, |columns| {
            AllocationRecord::read_each(columns, |_| true, &mut each)
        })
    }
}
