//! Call stacks: merged, interned, and what each held at the peak.

mod account;
mod binary;
mod image;
mod lines;
mod live;
mod merge;
mod python;
mod rows;
mod tree;
mod words;

use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use memtrace_trace::rows::{ModuleRow, Untouched};
use memtrace_trace::weights::SiteWeights;
use memtrace_wire::event::STACK_BITS;
use memtrace_wire::stack::{FramesHead, PythonFrame};
use rustc_hash::FxHashMap;

use self::account::{Account, Bytes};
use self::binary::Binary;
use self::image::{Image, Mapped};
use self::merge::{Step, merge};
use self::python::Codes;
use self::tree::{Frame, Tree};
use self::words::Words;
use super::text::RECORDER_FILE;
use super::{launch, modules};
use crate::symbols::perf_map;

/// A site, by its number plus one.
pub type Site = NonZeroU32;

/// The pid and first stamp of a process image.
type ImageKey = (u32, u64);

/// Stacks of a process that are remembered as they were described: half a KiB each.
const KNOWN_MAX: usize = 16 * 1024;

/// /proc is not asked more often about one process.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All sites of a recording.
#[derive(Default)]
pub struct Sites {
    /// The recording's token, by which its processes are known in /proc.
    pub token: String,
    /// When the recording began, in seconds since 1970.
    pub begun: i64,
    images: FxHashMap<ImageKey, Process>,
    /// By process.
    keys: Vec<ImageKey>,
    binaries: Vec<Binary>,
    /// By path and what the file is; `None` for what is no binary.
    by_file: FxHashMap<(String, FileId), Option<u32>>,
    codes: Codes,
    tree: Tree,
    by_id: FxHashMap<u64, Site>,
    /// Leaf node and what the site holds, by number.
    sites: Vec<(u32, Account)>,
    /// By thread and number: the stacks that it has described.
    described: Vec<Vec<Option<Site>>>,
    /// What a block that has one counts for.
    pub weights: SiteWeights,
    /// New peaks of all live bytes so far.
    peaks: u64,
    /// Used bytes of devices, by site.
    devices: FxHashMap<u32, Bytes>,
    /// New peaks of all of them so far.
    device_peaks: u64,
    /// Return addresses in generated code, by process.
    generated: FxHashMap<u32, perf_map::Names>,
    /// There is a kernel side, which tells what is touched.
    pub sees_touches: bool,
    /// What of large blocks was never touched, by site.
    untouched: FxHashMap<u32, Untouched>,
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
    /// Sites of stacks seen before, by what described them.
    known: FxHashMap<Box<[u8]>, Site>,
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
        self.name_generated(process, None);
        self.images.remove(&self.keys[process as usize]);
        self.codes.forget(process);
    }

    /// Names the code that a process has generated, which is over, or nearly so: then /proc shows it as `shown`.
    pub fn name_generated(&mut self, process: u32, shown: Option<u32>) {
        let (pid, _) = self.keys[process as usize];
        let names = self.generated.get_mut(&process);
        if let Some(names) = names.filter(|names| names.values().any(Option::is_none)) {
            perf_map::name(names, pid, shown, self.begun);
        }
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

    /// A stack was described, and is meant by this number from now on.
    pub fn describe(&mut self, process: u32, thread: u32, number: u64, text: &[u8]) {
        let site = self.site_of(process, text);
        let thread = thread as usize;
        if self.described.len() <= thread {
            self.described.resize_with(thread + 1, Vec::new);
        }
        let described = &mut self.described[thread];
        let number = number as usize % (1 << STACK_BITS);
        if described.len() <= number {
            described.resize(number + 1, None);
        }
        described[number] = site;
    }

    /// A thread is gone, and with it the numbers of its stacks.
    pub fn thread_gone(&mut self, thread: u32) {
        if let Some(described) = self.described.get_mut(thread as usize) {
            *described = Vec::new();
        }
    }

    /// The site of a heap block that `thread` acquired, with the number of its stack.
    #[inline]
    pub fn acquired(&mut self, thread: u32, number: u16, bytes: u64) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.sites[site.get() as usize - 1].1.acquired(self.weights.blocks(bytes), self.weights.bytes(bytes));
        Some(site)
    }

    /// The site of a mapping that `thread` made: one that has a stack was not sampled, even if it is a small part
    /// of a large one that was moved.
    pub fn mapped(&mut self, thread: u32, number: u16, bytes: u64) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.sites[site.get() as usize - 1].1.acquired(1, bytes);
        Some(site)
    }

    /// The site of a block of a device.
    pub fn on_device(&mut self, thread: u32, number: u16) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.devices.entry(site.get()).or_default();
        Some(site)
    }

    #[inline]
    fn described(&self, thread: u32, number: u16) -> Option<Site> {
        if number == 0 {
            return None;
        }
        *self.described.get(thread as usize)?.get(usize::from(number))?
    }

    /// A block of a site is live (bytes > 0), or no longer.
    #[inline]
    pub fn count_block(&mut self, site: Option<Site>, bytes: i64) {
        if site.is_some() {
            let weight = self.weights.bytes(bytes.unsigned_abs()) as i64;
            self.change(site, weight * bytes.signum());
        }
    }

    /// Live bytes of a site change.
    #[inline]
    pub fn change(&mut self, site: Option<Site>, bytes: i64) {
        if let Some(site) = site {
            self.sites[site.get() as usize - 1].1.change(bytes, self.peaks);
        }
    }

    /// A part of a block was never touched.
    pub fn untouched(&mut self, site: Option<Site>, of_bytes: u64, bytes: u64) {
        if let Some(site) = site {
            let sum = self.untouched.entry(site.get()).or_default();
            sum.blocks += 1;
            sum.of_bytes += of_bytes;
            sum.bytes += bytes;
        }
    }

    /// All live bytes together have reached a new peak.
    pub fn new_peak(&mut self) {
        self.peaks += 1;
    }

    /// Used bytes of devices of a site change.
    pub fn change_on_devices(&mut self, site: Option<Site>, bytes: i64) {
        if let Some(site) = site {
            self.devices.entry(site.get()).or_default().change(bytes, self.device_peaks);
        }
    }

    /// All used bytes of devices together have reached a new peak.
    pub fn new_device_peak(&mut self) {
        self.device_peaks += 1;
    }

    /// The site's id in the trace.
    pub fn id(&self, site: Site) -> u64 {
        let (leaf, _) = self.sites[site.get() as usize - 1];
        self.tree.nodes[leaf as usize].hash
    }

    fn site_of(&mut self, process: u32, text: &[u8]) -> Option<Site> {
        let key = self.keys[process as usize];
        if let Some(site) = self.images.get(&key).and_then(|process| process.known.get(text)) {
            return Some(*site);
        }
        let mut words = Words(text);
        let [head] = words.take()?;
        let head = FramesHead::from_word(head);
        let native = words.bytes(head.native * 8)?;
        let python = words.bytes(head.python * 16)?;
        let native: Vec<u64> = native
            .chunks_exact(8)
            .filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?)))
            .collect();
        self.look_if_unknown(process, &native);
        let leaf = self.leaf(process, &native, python, head.complete)?;
        // Two images may know one file under two paths, and generated code lies anywhere: the same stack all the same.
        let id = self.tree.nodes[leaf as usize].hash;
        let site = *self.by_id.entry(id).or_insert_with(|| {
            self.sites.push((leaf, Account::default()));
            NonZeroU32::new(self.sites.len() as u32).unwrap_or(NonZeroU32::MIN)
        });
        let known = &mut self.images.entry(key).or_default().known;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(text.into(), site);
        Some(site)
    }

    /// Looks which modules there are, if a stack leads through one that was not announced.
    fn look_if_unknown(&mut self, process: u32, native: &[u64]) {
        let image = &self.images.entry(self.keys[process as usize]).or_default().image;
        if native.iter().any(|address| image.find(address.wrapping_sub(1)).is_none()) {
            self.look(process);
        }
    }

    /// The node of a stack's innermost frame.
    fn leaf(&mut self, process: u32, native: &[u64], python: &[u8], complete: bool) -> Option<u32> {
        let image = &self.images.get(&self.keys[process as usize])?.image;
        let native: Vec<Frame> =
            native.iter().map(|address| native_frame(image, process, *address)).collect();
        for frame in &native {
            if let Frame::Generated { process, address } = *frame {
                self.generated.entry(process).or_default().entry(address).or_default();
            }
        }
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
                    // What stands in front of the program's own functions is no part of its stacks.
                    if function.file == RECORDER_FILE {
                        continue;
                    }
                    vec![function.file.as_str(), function.name.as_str()]
                }
                Frame::Generated { .. } => vec!["generated"],
                Frame::Unknown => Vec::new(),
            };
            node = Some(self.tree.child(node, frame, &identity));
        }
        node
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
                self.binaries.push(binary);
                self.binaries.len() as u32 - 1
            });
            self.by_file.insert(file, number);
            number
        });
        let number = number?;
        let bias = self.binaries[number as usize].bias(start);
        let process = self.images.entry(key).or_default();
        let news = process.image.add(Mapped { start: start & !4095, end, bias, number });
        if news {
            // An address may mean another function now.
            process.known.clear();
        }
        news.then_some(number)
    }
}

fn native_frame(image: &Image, process: u32, address: u64) -> Frame {
    match image.find(address.wrapping_sub(1)) {
        Some(module) => Frame::Native { binary: module.number, offset: address.wrapping_sub(module.bias) },
        None => Frame::Generated { process, address },
    }
}
