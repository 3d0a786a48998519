//! Where pages of `allocations` go: into parts, one after the other. Encoding them is a quarter of
//! what recording costs, so a separate thread does it where there are processors to spare.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, available_parallelism};

use crate::error::{Error, Result};
use crate::table::Table;
use crate::write::block_columns::BlockColumns;
use crate::write::block_file::BlockFile;
use crate::write::budget::ClosedPart;
use crate::write::parts::Parts;

/// Rows after which a part is closed by itself.
const PART_ROWS: usize = 4 * 1024 * 1024;

/// With this many processors some are to spare: the program, the tracer and others have theirs.
const PROCESSORS_MIN: usize = 4;

/// Pages that may wait to be encoded.
const WAITING_MAX: usize = 2;

/// The parts of `allocations`.
struct BlockParts {
    parts: Parts<BlockFile>,
    /// Of the open one.
    rows: usize,
    /// Bytes at which one is closed.
    most: u64,
}

impl BlockParts {
    /// Adds a page, or closes the open part if there is none. The part that was closed, if one was.
    fn write(&mut self, Job { page, until_ns }: &Job) -> Result<Option<ClosedPart>> {
        if let Some(columns) = page {
            self.parts.write(columns, usize::MAX)?;
            self.rows += columns.len();
            let bytes = self.parts.open().map_or(0, BlockFile::bytes);
            if self.rows < PART_ROWS && bytes < self.most {
                return Ok(None);
            }
        }
        let (rows, until_ns) = (std::mem::take(&mut self.rows) as u64, *until_ns);
        Ok(self.parts.close()?.map(|path| ClosedPart { path, rows, until_ns }))
    }
}

/// What is to be done: a page to be written, or the part to be closed. Its rows are not later than
/// `until_ns`.
struct Job {
    page: Option<BlockColumns>,
    until_ns: i64,
}

/// A job that is done; its page is reused.
type Done = (Job, Result<Option<ClosedPart>>);

/// See the module.
pub(crate) struct BlockWriter {
    /// Until the first page; for good where no other thread does it.
    here: Option<BlockParts>,
    elsewhere: Option<Elsewhere>,
    spare: bool,
    /// Empty pages.
    free_pages: Vec<BlockColumns>,
}

struct Elsewhere {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    /// Jobs that are not done.
    open: usize,
}

impl BlockWriter {
    pub(crate) fn create(trace: &Path) -> Result<BlockWriter> {
        let processors = available_parallelism().map_or(1, |processors| processors.get());
        BlockWriter::with(trace, processors >= PROCESSORS_MIN)
    }

    /// `spare` says whether another thread may do the work.
    pub(crate) fn with(trace: &Path, spare: bool) -> Result<BlockWriter> {
        let parts = Parts::create(trace, Table::Allocations)?;
        let here = Some(BlockParts { parts, rows: 0, most: u64::MAX });
        Ok(BlockWriter { here, elsewhere: None, spare, free_pages: Vec::new() })
    }

    /// Bytes at which a part is closed. Say so before the first page.
    pub(crate) fn limit_parts(&mut self, bytes: u64) {
        if let Some(here) = &mut self.here {
            here.most = bytes;
        }
    }

    /// Takes a page, and leaves an empty one. `each` gets the parts that were closed meanwhile;
    /// errors of earlier pages come with a later one.
    pub(crate) fn page(
        &mut self,
        columns: &mut BlockColumns,
        until_ns: i64,
        each: impl FnMut(ClosedPart) -> Result<()>,
    ) -> Result<()> {
        if std::mem::take(&mut self.spare) {
            self.elsewhere = self.here.take().and_then(|parts| self.start(parts));
        }
        let page = std::mem::replace(columns, self.free_pages.pop().unwrap_or_default());
        self.work(Job { page: Some(page), until_ns }, false, each)
    }

    /// Closes the open part: every page is on disk then.
    pub(crate) fn close(&mut self, until_ns: i64, each: impl FnMut(ClosedPart) -> Result<()>) -> Result<()> {
        self.work(Job { page: None, until_ns }, true, each)
    }

    fn work(&mut self, job: Job, wait: bool, mut each: impl FnMut(ClosedPart) -> Result<()>) -> Result<()> {
        let Some(elsewhere) = &mut self.elsewhere else {
            let Some(here) = &mut self.here else { return Err(gone()) };
            let closed = here.write(&job);
            self.free_pages.extend(emptied(job));
            return closed?.map_or(Ok(()), each);
        };
        elsewhere.jobs.send(job).map_err(|_| gone())?;
        elsewhere.open += 1;
        while elsewhere.open > 0 {
            let next = if wait { elsewhere.done.recv().ok() } else { elsewhere.done.try_recv().ok() };
            let Some((job, closed)) = next else {
                return if wait { Err(gone()) } else { Ok(()) };
            };
            elsewhere.open -= 1;
            self.free_pages.extend(emptied(job));
            closed?.map_or(Ok(()), &mut each)?;
        }
        Ok(())
    }

    /// Moves the parts to a thread; keeps them if there can be none.
    fn start(&mut self, parts: BlockParts) -> Option<Elsewhere> {
        let (jobs, to_do) = sync_channel::<Job>(WAITING_MAX);
        let (finished, done) = channel();
        let (send_parts, sent_parts) = sync_channel::<BlockParts>(1);
        let work = move || {
            let Ok(mut parts) = sent_parts.recv() else { return };
            for job in to_do {
                let closed = parts.write(&job);
                if finished.send((job, closed)).is_err() {
                    return;
                }
            }
        };
        match Builder::new().name("memtrace-encode".into()).spawn(work) {
            Ok(_) => send_parts.send(parts).ok()?,
            Err(_) => {
                self.here = Some(parts);
                return None;
            }
        }
        Some(Elsewhere { jobs, done, open: 0 })
    }
}

fn emptied(job: Job) -> Option<BlockColumns> {
    let mut columns = job.page?;
    columns.clear();
    Some(columns)
}

/// It only ends when there is nothing more to come, unless it has panicked.
fn gone() -> Error {
    Error::io("write", Path::new(Table::Allocations.name()))(std::io::Error::other(
        "the thread that encodes is gone",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{AllocationRow, Kind, Role};

    fn page(first: u64) -> BlockColumns {
        let row = |n: u64| AllocationRow {
            process: 0,
            thread: (n % 3) as u32,
            kind: Kind::Malloc,
            address: None,
            bytes: n * 7 % 100,
            alloc_ns: n as i64 * 10,
            free_ns: Some(n as i64 * 11),
            site: Some(n % 5),
            ordinal: 0,
            span: None,
            role: Role::None,
            device: None,
        };
        BlockColumns::of(&(first..first + 1000).map(row).collect::<Vec<_>>())
    }

    /// Files that are written, and parts that were reported closed.
    fn written(trace: &Path, spare: bool, most: u64) -> (Vec<Vec<u8>>, Vec<(u64, i64)>) {
        let mut writer = BlockWriter::with(trace, spare).unwrap();
        writer.limit_parts(most);
        let mut closed = Vec::new();
        let mut note = |part: ClosedPart| {
            closed.push((part.rows, part.until_ns));
            Ok(())
        };
        for n in 0..20 {
            let mut columns = page(n * 1000);
            writer.page(&mut columns, n as i64, &mut note).unwrap();
            assert_eq!(columns.len(), 0);
        }
        writer.close(20, &mut note).unwrap();
        assert_eq!(writer.elsewhere.is_some(), spare);
        let files = crate::files::of_table(trace, Table::Allocations).unwrap();
        (files.iter().map(|file| std::fs::read(file).unwrap()).collect(), closed)
    }

    #[test]
    fn another_thread_writes_the_same() {
        for most in [u64::MAX, 10_000] {
            let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let here = written(one.path(), false, most);
            assert_eq!(here.1.iter().map(|(rows, _)| rows).sum::<u64>(), 20_000);
            assert_eq!(here.1.len() > 1, most < u64::MAX);
            assert_eq!(here, written(other.path(), true, most));
        }
    }

    #[test]
    fn its_errors_come_back() {
        let trace = tempfile::tempdir().unwrap();
        let mut writer = BlockWriter::with(trace.path(), true).unwrap();
        std::fs::remove_dir(trace.path().join(Table::Allocations.name())).unwrap();
        let sent = writer.page(&mut page(0), 0, |_| Ok(()));
        assert!(sent.and_then(|()| writer.close(0, |_| Ok(()))).is_err());
    }
}
