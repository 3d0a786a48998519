//! Keeps a trace within a size: the oldest closed parts are deleted.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::meta::Rows;

/// A part that has been closed.
#[derive(Debug)]
pub(crate) struct ClosedPart {
    pub(crate) path: PathBuf,
    pub(crate) rows: u64,
    /// The latest time of any row so far, ns.
    pub(crate) until_ns: i64,
}

/// What the trace may take, and what it takes.
pub(crate) struct Budget {
    limit: u64,
    blocks: VecDeque<(ClosedPart, u64)>,
    timeline: VecDeque<(ClosedPart, u64)>,
    /// Files that are written anew.
    tables: HashMap<PathBuf, u64>,
}

/// A part takes at most one of this many shares of what the trace may take.
const PARTS: u64 = 8;

impl Budget {
    /// No limit.
    pub(crate) fn unlimited() -> Budget {
        Budget::new(u64::MAX)
    }

    pub(crate) fn new(limit: u64) -> Budget {
        Budget { limit, blocks: VecDeque::new(), timeline: VecDeque::new(), tables: HashMap::new() }
    }

    /// Bytes at which a part is closed.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.limit / PARTS
    }

    /// A table was written as a whole.
    pub(crate) fn table(&mut self, path: &Path) -> Result<()> {
        self.tables.insert(path.to_owned(), size(path)?);
        Ok(())
    }

    /// A part of `allocations` was closed; makes room for the next one.
    pub(crate) fn blocks(&mut self, part: ClosedPart, rows: &mut Rows) -> Result<()> {
        let bytes = size(&part.path)?;
        self.blocks.push_back((part, bytes));
        self.fit(rows)
    }

    /// The same of `timeline`.
    pub(crate) fn timeline(&mut self, part: ClosedPart, rows: &mut Rows) -> Result<()> {
        let bytes = size(&part.path)?;
        self.timeline.push_back((part, bytes));
        self.fit(rows)
    }

    fn fit(&mut self, rows: &mut Rows) -> Result<()> {
        while self.total() > self.limit - self.part_bytes() {
            if let Some((part, _)) = self.blocks.pop_front() {
                rows.rotated += part.rows;
                rows.complete_from_ns = part.until_ns;
                remove(&part.path)?;
            } else if let Some((part, _)) = self.timeline.pop_front() {
                rows.rotated_timeline += part.rows;
                remove(&part.path)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn total(&self) -> u64 {
        let parts = self.blocks.iter().chain(&self.timeline).map(|(_, bytes)| bytes);
        parts.chain(self.tables.values()).sum()
    }
}

fn size(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|file| file.len()).map_err(Error::io("query the size of", path))
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(Error::io("remove", path))
}
