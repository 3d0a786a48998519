//! Memory that processes share by an object, a file in memory or a segment: which of its pages have
//! been touched, by any process.

use rustc_hash::FxHashMap;

use super::pages::Pages;

/// More than this in one report is no machine's memory, and would take too much of the tracer's.
const MAX_TOUCHED: u64 = 1 << 40;

/// Names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Device of its file system, or that all segments have.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// What a mapping maps of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The object.
    pub object: Object,
    /// Where the mapping begins in it.
    pub offset: u64,
    /// What is touched of this part, by any process, is live here. Of mappings that overlap, one
    /// counts.
    pub counts: bool,
}

/// See the module.
#[derive(Debug, Default)]
struct Known {
    /// By their place in the object.
    pages: Pages,
    /// Processes that have mapped it.
    processes: Vec<u32>,
}

/// All objects that are mapped.
#[derive(Debug, Default)]
pub struct SharedMemory {
    objects: FxHashMap<Object, Known>,
    /// What threads map next.
    announced: FxHashMap<u32, Share>,
}

impl SharedMemory {
    /// The thread's next mapping is of this.
    pub fn announce(&mut self, thread: u32, share: Share) {
        self.announced.insert(thread, share);
    }

    /// What the thread has just mapped, if that is an object.
    pub fn take_announced(&mut self, thread: u32) -> Option<Share> {
        if self.announced.is_empty() { None } else { self.announced.remove(&thread) }
    }

    /// The process maps the object.
    pub fn mapped(&mut self, object: Object, process: u32) {
        let processes = &mut self.objects.entry(object).or_default().processes;
        if !processes.contains(&process) {
            processes.push(process);
        }
    }

    /// Processes that have mapped it, the first one first.
    pub fn processes(&self, object: Object) -> Vec<u32> {
        self.objects.get(&object).map_or_else(Vec::new, |known| known.processes.clone())
    }

    /// Forgets the processes that do not map it any more.
    pub fn keep(&mut self, object: Object, maps: impl Fn(u32) -> bool) {
        if let Some(known) = self.objects.get_mut(&object) {
            known.processes.retain(|process| maps(*process));
        }
    }

    /// Pages of the object were seen. True if some of them never were before.
    pub fn touch(&mut self, object: Object, offset: u64, bytes: u64) -> bool {
        self.objects.get_mut(&object).is_some_and(|known| known.pages.add(offset, bytes) > 0)
    }

    /// So many bytes of a part of the object are in memory; where is not known. True if that is more
    /// than was known.
    pub fn touch_some(&mut self, object: Object, offset: u64, bytes: u64, touched: u64) -> bool {
        let Some(known) = self.objects.get_mut(&object) else { return false };
        let missing = touched.min(MAX_TOUCHED).saturating_sub(known.pages.count(offset, bytes));
        known.pages.add_some(offset, bytes, missing) > 0
    }

    /// What was touched of a part of it, in bytes.
    pub fn touched(&self, object: Object, offset: u64, bytes: u64) -> u64 {
        self.objects.get(&object).map_or(0, |known| known.pages.count(offset, bytes))
    }

    /// No process maps it any more.
    pub fn forget(&mut self, object: Object) {
        self.objects.remove(&object);
    }
}
