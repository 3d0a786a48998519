//! Call stacks of large blocks: unwound, merged, interned, and what each held at the peak.

mod account;
mod binary;
mod image;
mod lines;
mod merge;
mod python;
mod rows;
mod tree;
mod unwind;
mod words;

use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use memtrace_trace::rows::ModuleRow;
use memtrace_wire::stack::{MORE_FRAMES, PythonFrame, StackHead};
use rustc_hash::FxHashMap;

use self::account::Account;
use self::binary::Binary;
use self::image::{End, Image, Mapped};
use self::merge::{Step, merge};
use self::python::Codes;
use self::tree::{Frame, Tree};
use self::words::Words;
use super::{launch, modules};

/// A site, by its number plus one.
pub type Site = NonZeroU32;

/// The pid and first stamp of a process image.
type ImageKey = (u32, u64);

/// A stack whose block has not been acquired by now never will be.
const WAITING_MAX: usize = 16;
/// /proc is not asked more often about one process.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All sites of a recording.
#[derive(Default)]
pub struct Sites {
    /// The recording's token, by which its processes are known in /proc.
    pub token: String,
    images: FxHashMap<ImageKey, Process>,
    /// By process.
    keys: Vec<ImageKey>,
    binaries: Vec<Rc<Binary>>,
    /// By path and what the file is; `None` for what is no binary.
    by_file: FxHashMap<(String, FileId), Option<u32>>,
    codes: Codes,
    tree: Tree,
    by_id: FxHashMap<u64, Site>,
    /// Leaf node and what the site holds, by number.
    sites: Vec<(u32, Account)>,
    /// Stacks by thread and address, until their block is acquired.
    waiting: FxHashMap<u32, Vec<(u64, Site)>>,
    /// New peaks of all live bytes so far.
    peaks: u64,
    /// Modules that were mapped after their process had started.
    pub opened: Vec<ModuleRow>,
}

/// Tells a file from another one that took its path: device, inode, size, time of change (stat(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct FileId(u64, u64, u64, i64);

impl FileId {
    fn of(path: &str) -> FileId {
        let about = std::fs::metadata(path);
        about.map_or(FileId::default(), |about| {
            FileId(about.dev(), about.ino(), about.size(), about.mtime() * 1_000_000_000 + about.mtime_nsec())
        })
    }
}

#[derive(Clone, Default)]
struct Process {
    image: Image,
    /// Sites of stacks seen before.
    known: FxHashMap<Vec<u64>, Site>,
    looked: Option<Instant>,
}

impl Sites {
    /// A process image said hello; `modules` are mapped into it.
    pub fn arrived(&mut self, key: ImageKey, modules: &[ModuleRow]) {
        for module in modules {
            self.map(key, &module.path, module.start, module.end);
        }
    }

    /// A process was met: it has the next index. A forked one has all that its parent has.
    pub fn begin(&mut self, key: ImageKey, parent_image: Option<u64>) {
        self.keys.push(key);
        let parent = self.images.iter().find(|((_, image), _)| Some(*image) == parent_image);
        // Not the stacks it has seen: they can be many, and are only remembered to be quick.
        if let Some(image) = parent.map(|(_, process)| process.image.clone()) {
            self.images.entry(key).or_insert_with(|| Process { image, ..Process::default() });
        }
    }

    /// A process ended: nothing more is asked of its modules.
    pub fn end(&mut self, process: u32) {
        self.images.remove(&self.keys[process as usize]);
        self.codes.forget(process);
    }

    /// A module was announced by a process.
    pub fn module(&mut self, process: u32, text: &[u8]) {
        let mut words = Words(text);
        let Some([_, start, end]) = words.take() else { return };
        let path = String::from_utf8_lossy(words.0).into_owned();
        if !path.starts_with('/') {
            return self.relative(process, &path, start, end);
        }
        self.open(process, path, start, end);
    }

    /// A Python code object was announced by a process.
    pub fn code(&mut self, process: u32, text: &[u8]) {
        self.codes.define(process, text);
    }

    /// The stack of a block that `thread` is about to acquire at `address`.
    pub fn stack(&mut self, process: u32, thread: u32, address: u64, text: &[u8]) {
        let Some(site) = self.site_of(process, text) else { return };
        let waiting = self.waiting.entry(thread).or_default();
        if waiting.len() == WAITING_MAX {
            waiting.remove(0);
        }
        waiting.push((address, site));
    }

    /// The site of a block that `thread` acquired.
    pub fn acquired(&mut self, thread: u32, address: u64, bytes: u64) -> Option<Site> {
        let waiting = self.waiting.get_mut(&thread)?;
        let at = waiting.iter().rposition(|(waiting, _)| *waiting == address)?;
        let (_, site) = waiting.swap_remove(at);
        let account = &mut self.sites[site.get() as usize - 1].1;
        account.blocks += 1;
        account.requested += bytes;
        Some(site)
    }

    /// Live bytes of a site change.
    #[inline]
    pub fn change(&mut self, site: Option<Site>, bytes: i64) {
        if let Some(site) = site {
            self.sites[site.get() as usize - 1].1.change(bytes, self.peaks);
        }
    }

    /// All live bytes together have reached a new peak.
    pub fn new_peak(&mut self) {
        self.peaks += 1;
    }

    /// The site's id in the trace.
    pub fn id(&self, site: Site) -> u64 {
        let (leaf, _) = self.sites[site.get() as usize - 1];
        self.tree.nodes[leaf as usize].hash
    }

    fn site_of(&mut self, process: u32, text: &[u8]) -> Option<Site> {
        let mut words = Words(text);
        let head = StackHead::from_words(words.take()?);
        let count = (head.python_frames & !MORE_FRAMES) as usize;
        let python = words.bytes(count.checked_mul(16)?)?;
        let copy = words.0;
        let mut native = Vec::with_capacity(64);
        let key = self.keys[process as usize];
        let image = &self.images.entry(key).or_default().image;
        let mut end = image.unwind(&head, copy, &mut native);
        if end == End::Unknown && self.leads_astray(process, &head, &native) {
            native.clear();
            end = self.images.entry(key).or_default().image.unwind(&head, copy, &mut native);
        }
        let complete = end == End::Outermost && head.python_frames & MORE_FRAMES == 0;
        let mut raw = native.clone();
        raw.extend(python.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?))));
        raw.push(u64::from(complete));
        if let Some(site) = self.images.get(&key).and_then(|process| process.known.get(&raw)) {
            return Some(*site);
        }
        let leaf = self.leaf(process, &native, python, complete)?;
        // Two images may know one file under two paths: the same stack all the same.
        let id = self.tree.nodes[leaf as usize].hash;
        let site = *self.by_id.entry(id).or_insert_with(|| {
            self.sites.push((leaf, Account::default()));
            NonZeroU32::new(self.sites.len() as u32).unwrap_or(NonZeroU32::MIN)
        });
        self.images.entry(key).or_default().known.insert(raw, site);
        Some(site)
    }

    /// True if a stack ended in a module that was not known, and now perhaps is.
    fn leads_astray(&mut self, process: u32, head: &StackHead, native: &[u64]) -> bool {
        let key = self.keys[process as usize];
        let last = native.last().copied().unwrap_or(head.ip);
        let known = |sites: &Sites| {
            sites.images.get(&key).is_some_and(|it| it.image.find(last.wrapping_sub(1)).is_some())
        };
        !known(self) && {
            self.look(process);
            known(self)
        }
    }

    /// The node of a stack's innermost frame.
    fn leaf(&mut self, process: u32, native: &[u64], python: &[u8], complete: bool) -> Option<u32> {
        let image = &self.images.get(&self.keys[process as usize])?.image;
        let native: Vec<Frame> = native.iter().map(|address| native_frame(image, *address)).collect();
        let mut words = Words(python);
        let (mut frames, mut entries) = (Vec::new(), Vec::new());
        while let Some([code, word]) = words.take() {
            let frame = PythonFrame::from_word(word);
            frames.push(self.codes.frame(process, code, frame));
            entries.push(frame.entry);
        }
        let evaluates = |frame: &Frame| match *frame {
            Frame::Native { binary, offset } if !frames.is_empty() => {
                self.binaries[binary as usize].evaluates(offset)
            }
            _ => false,
        };
        let evaluates: Vec<bool> = native.iter().map(evaluates).collect();
        let steps = merge(&evaluates, &entries, complete);
        let mut node = (!complete).then(|| self.tree.child(None, Frame::Unknown, &[]));
        for step in steps.into_iter().rev() {
            let frame = match step {
                Step::Native(index) => native[index],
                Step::Python(index) => frames[index],
            };
            let identity = match frame {
                Frame::Native { binary, .. } => vec![self.binaries[binary as usize].identity()],
                Frame::Python { function, .. } => {
                    let function = &self.codes.functions[function as usize];
                    vec![function.file.as_str(), function.name.as_str()]
                }
                Frame::Unknown => Vec::new(),
            };
            node = Some(self.tree.child(node, frame, &identity));
        }
        node
    }

    /// The linker's name of a native frame's function.
    fn name(&self, frame: Frame) -> Option<&str> {
        match frame {
            Frame::Native { binary, offset } => self.binaries[binary as usize].function(offset),
            _ => None,
        }
    }

    /// A module by a path that only its process can resolve (or the kernel's own page, linux-vdso). If the
    /// process is no longer there to be asked, its directory may have been ours, from which it was started.
    fn relative(&mut self, process: u32, path: &str, start: u64, end: u64) {
        self.look(process);
        let key = self.keys[process as usize];
        let known = self.images.get(&key).is_some_and(|process| process.image.find(start).is_some());
        if let Ok(path) = std::fs::canonicalize(path)
            && !known
        {
            self.open(process, path.to_string_lossy().into_owned(), start, end);
        }
    }

    /// A file was mapped after its process had started.
    fn open(&mut self, process: u32, path: String, start: u64, end: u64) {
        if let Some(number) = self.map(self.keys[process as usize], &path, start, end) {
            let build_id = self.binaries[number as usize].build_id.clone();
            self.opened.push(ModuleRow { process, path, start, end, build_id });
        }
    }

    /// Reads again what is mapped into a process, if it is there and was not just asked.
    fn look(&mut self, index: u32) {
        let key = self.keys[index as usize];
        let process = self.images.entry(key).or_default();
        if process.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY)
            || !launch::is_ours(key.0, &self.token)
        {
            return;
        }
        process.looked = Some(Instant::now());
        let maps = std::fs::read(format!("/proc/{}/maps", key.0)).unwrap_or_default();
        for module in modules::parse(&String::from_utf8_lossy(&maps)) {
            if self.map(key, &module.path, module.start, module.end).is_some() {
                self.opened.push(ModuleRow { process: index, ..module });
            }
        }
    }

    /// Notes that a file is mapped. Its binary's number if that was news.
    fn map(&mut self, key: ImageKey, path: &str, start: u64, end: u64) -> Option<u32> {
        let file = (path.to_string(), FileId::of(path));
        let known = self.by_file.get(&file).copied();
        let number = known.unwrap_or_else(|| {
            let number = Binary::read(path).map(|binary| {
                self.binaries.push(Rc::new(binary));
                self.binaries.len() as u32 - 1
            });
            self.by_file.insert(file, number);
            number
        });
        let number = number?;
        let binary = self.binaries[number as usize].clone();
        let process = self.images.entry(key).or_default();
        let bias = binary.bias(start);
        let news = process.image.add(Mapped { start: start & !4095, end, bias, binary, number });
        if news {
            // An address may mean another function now.
            process.known.clear();
        }
        news.then_some(number)
    }
}

fn native_frame(image: &Image, address: u64) -> Frame {
    match image.find(address.wrapping_sub(1)) {
        Some(module) => Frame::Native { binary: module.number, offset: address.wrapping_sub(module.bias) },
        None => Frame::Unknown,
    }
}
