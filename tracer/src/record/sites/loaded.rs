//! The executables and libraries that are mapped into each process image.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use memtrace_perf::Operand;
use memtrace_trace::rows::ModuleRow;
use rustc_hash::FxHashMap;

use super::binary::Binary;
use super::image::{Image, Mapped};
use super::tree::Frame;
use crate::record::procfs::{environment, modules};
use crate::record::state::blocks::Site;
use crate::record::state::sparse::Sparse;

/// The pid and first stamp of a process image.
pub type ImageKey = (u32, u64);

/// Stacks of a process that are remembered as they were described: half a KiB each.
const KNOWN_MAX: usize = 16 * 1024;

/// /proc is not read more often for one process.
const READ_EVERY: Duration = Duration::from_millis(100);

/// Distinguishes a file from another one that took its path (stat(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct FileId {
    device: u64,
    inode: u64,
    size: u64,
    changed_ns: i64,
}

impl FileId {
    fn of(path: &str) -> FileId {
        let about = std::fs::metadata(path);
        about.map_or(FileId::default(), |about| FileId {
            device: about.dev(),
            inode: about.ino(),
            size: about.size(),
            changed_ns: about.mtime() * 1_000_000_000 + about.mtime_nsec(),
        })
    }
}

#[derive(Clone, Default)]
struct Process {
    image: Image,
    /// Sites of stacks seen before, by what described them.
    known: FxHashMap<Box<[u8]>, Site>,
    read: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub struct Loaded {
    /// The recording's token, which its processes have in their environment.
    token: String,
    images: FxHashMap<ImageKey, Process>,
    /// By process.
    keys: Sparse<ImageKey>,
    binaries: Vec<Binary>,
    /// By path and what the file is; `None` for what is no binary.
    by_file: FxHashMap<(String, FileId), Option<u32>>,
    /// Modules that were mapped after their process had started, by process.
    opened: BTreeMap<u32, Vec<ModuleRow>>,
}

impl Loaded {
    /// Nothing yet, in a recording with this token.
    pub fn new(token: String) -> Loaded {
        Loaded { token, ..Loaded::default() }
    }

    /// Modules that were mapped after their process had started.
    pub fn opened(&self) -> impl Iterator<Item = &ModuleRow> {
        self.opened.values().flatten()
    }

    /// Those of one process.
    pub fn opened_by(&self, process: u32) -> &[ModuleRow] {
        self.opened.get(&process).map_or(&[], Vec::as_slice)
    }

    /// A process leaves. The modules that were mapped after it had started.
    pub fn retire(&mut self, process: u32) -> Vec<ModuleRow> {
        if let Some(key) = self.keys.remove(process) {
            self.images.remove(&key);
        }
        self.opened.remove(&process).unwrap_or_default()
    }

    /// The file with this number.
    pub fn binary(&self, number: u32) -> &Binary {
        &self.binaries[number as usize]
    }

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

    /// A process ended: its modules are not needed any more.
    pub fn end(&mut self, process: u32) {
        self.images.remove(&self.keys[process]);
    }

    /// The pid of a process in its own namespace.
    pub fn pid(&self, process: u32) -> u32 {
        self.keys[process].0
    }

    /// The site of a stack that was described before.
    pub fn known(&self, process: u32, text: &[u8]) -> Option<Site> {
        self.images.get(&self.keys[process])?.known.get(text).copied()
    }

    /// Remembers it.
    pub fn remember(&mut self, process: u32, text: &[u8], site: Site) {
        let known = &mut self.images.entry(self.keys[process]).or_default().known;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(text.into(), site);
    }

    /// The frames of return addresses.
    pub fn frames(&mut self, process: u32, addresses: &[u64]) -> Vec<Frame> {
        let unknown =
            |image: &Image| addresses.iter().any(|address| image.find(address.wrapping_sub(1)).is_none());
        let key = self.keys[process];
        // A stack leads through a module that was not announced.
        if unknown(&self.images.entry(key).or_default().image) {
            self.read_modules(process);
        }
        let image = &self.images.entry(key).or_default().image;
        addresses.iter().map(|address| native_frame(image, process, *address)).collect()
    }

    /// What the instruction does that a process executed before the one at `ip`, and what is added to
    /// addresses in its file.
    pub fn operand_before(&mut self, process: u32, ip: u64) -> Option<(Operand, u64)> {
        let key = self.keys[process];
        let find = |loaded: &Loaded| {
            let mapped = loaded.images.get(&key)?.image.find(ip)?;
            Some((mapped.number, mapped.bias))
        };
        let (number, bias) = find(self).or_else(|| {
            self.read_modules(process);
            find(self)
        })?;
        let operand = self.binaries[number as usize].operand_before(ip.wrapping_sub(bias))?;
        Some((operand, bias))
    }

    /// A file was mapped after its process had started.
    pub fn open(&mut self, process: u32, path: String, start: u64, end: u64) {
        if let Some(number) = self.map(self.keys[process], &path, start, end) {
            let build_id = self.binaries[number as usize].build_id.clone();
            self.opened.entry(process).or_default().push(ModuleRow { process, path, start, end, build_id });
        }
    }

    /// The same by a path that only its process can resolve (or the kernel's own page, linux-vdso). If the process is no
    /// longer there, its directory may have been ours, from which it was started.
    pub fn open_relative(&mut self, process: u32, path: &str, start: u64, end: u64) {
        self.read_modules(process);
        let key = self.keys[process];
        let known = self.images.get(&key).is_some_and(|process| process.image.find(start).is_some());
        if let Ok(path) = std::fs::canonicalize(path)
            && !known
        {
            self.open(process, path.to_string_lossy().into_owned(), start, end);
        }
    }

    /// Reads again what is mapped into a process, if it is there and was not just read.
    fn read_modules(&mut self, index: u32) {
        let key = self.keys[index];
        let process = self.images.entry(key).or_default();
        if process.read.is_some_and(|read| read.elapsed() < READ_EVERY)
            || !environment::is_ours(key.0, &self.token)
        {
            return;
        }
        process.read = Some(Instant::now());
        let maps = std::fs::read(format!("/proc/{}/maps", key.0)).unwrap_or_default();
        for module in modules::parse(&String::from_utf8_lossy(&maps)) {
            if self.map(key, &module.path, module.start, module.end).is_some() {
                self.opened.entry(index).or_default().push(ModuleRow { process: index, ..module });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn own_executable() -> String {
        std::env::current_exe().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn addresses_are_those_in_the_files_that_a_forked_child_has_too() {
        let mut loaded = Loaded::new("no process has this token".into());
        loaded.begin((1, 100), None);
        loaded.open(0, own_executable(), 0x7000_0000, 0x7100_0000);
        loaded.begin((2, 200), Some(100));
        for process in [0, 1] {
            let frames = loaded.frames(process, &[0x7000_1001, 0x10]);
            assert!(matches!(frames[0], Frame::Native { binary: 0, .. }));
            assert_eq!(frames[1], Frame::Generated { process, address: 0x10 });
        }
        assert_eq!(loaded.opened().count(), 1);
        assert_eq!((loaded.retire(0).len(), loaded.opened_by(0).len()), (1, 0));
    }

    #[test]
    fn stacks_are_forgotten_where_a_file_is_mapped() {
        let mut loaded = Loaded::default();
        loaded.begin((1, 100), None);
        loaded.remember(0, b"stack", Site::MIN);
        assert_eq!(loaded.known(0, b"stack"), Some(Site::MIN));
        loaded.open(0, own_executable(), 0x7000_0000, 0x7100_0000);
        assert_eq!(loaded.known(0, b"stack"), None);
    }
}
