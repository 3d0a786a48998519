//! Call stacks: merged, interned, and the live bytes of each at the peak.

mod accounts;
mod binary;
mod code;
mod image;
pub mod lines;
mod live;
mod loaded;
mod merge;
mod python;
mod rows;
mod tree;
mod words;

use memtrace_perf::Operand;
use memtrace_trace::rows::ModuleRow;
use memtrace_trace::weights::SiteWeights;
use memtrace_wire::event::STACK_BITS;
use memtrace_wire::stack::{FramesHead, PythonFrame};
use rustc_hash::FxHashMap;

use self::accounts::Accounts;
use self::loaded::{ImageKey, Loaded};
use self::merge::{Step, merge};
use self::python::Codes;
use self::tree::{Frame, Tree};
use self::words::Words;
use crate::record::state::blocks::Site;
use crate::record::state::sparse::Sparse;
use crate::symbols::perf_map;

/// The file name of the recorder's code: its frames are no part of the program's stacks.
pub const RECORDER_FILE: &str = "<memtrace recorder>";

/// All sites of a recording.
#[derive(Default)]
pub struct Sites {
    /// When the recording began, in seconds since 1970.
    begun: i64,
    loaded: Loaded,
    codes: Codes,
    tree: Tree,
    by_id: FxHashMap<u64, Site>,
    /// Leaf node of each site, by number.
    leaves: Vec<u32>,
    accounts: Accounts,
    /// By thread and number: the stacks that it has described.
    described: Sparse<Vec<Option<Site>>>,
    /// Return addresses in generated code, by process.
    generated: FxHashMap<u32, perf_map::Names>,
}

impl Sites {
    /// None yet.
    pub fn new(token: String, begun: i64, weights: SiteWeights) -> Sites {
        let (loaded, accounts) = (Loaded::new(token), Accounts::new(weights));
        Sites { begun, loaded, accounts, ..Sites::default() }
    }

    /// From now on it is known what of large blocks was never touched.
    pub fn watch_touches(&mut self) {
        self.accounts.watch_touches();
    }

    /// Modules that were mapped after their process had started.
    pub fn opened(&self) -> impl Iterator<Item = &ModuleRow> {
        self.loaded.opened()
    }

    /// Those of one process.
    pub fn opened_by(&self, process: u32) -> &[ModuleRow] {
        self.loaded.opened_by(process)
    }

    /// A process leaves. The modules that were mapped after it had started.
    pub fn retire(&mut self, process: u32) -> Vec<ModuleRow> {
        self.loaded.retire(process)
    }

    /// What a block with a call stack counts for, in bytes.
    pub fn weight(&self, bytes: u64) -> u64 {
        self.accounts.weight(bytes)
    }

    /// A process image said hello; `modules` are mapped into it.
    pub fn arrived(&mut self, key: ImageKey, modules: &[ModuleRow]) {
        self.loaded.arrived(key, modules);
    }

    /// A process was met: it has the next index. A forked one has all that its parent has.
    pub fn begin(&mut self, key: ImageKey, parent_image: Option<u64>) {
        self.loaded.begin(key, parent_image);
    }

    /// A process ended: its modules are not needed any more.
    pub fn end(&mut self, process: u32) {
        self.name_generated(process, None);
        self.loaded.end(process);
        self.codes.forget(process);
    }

    /// Names the code that a process has generated, which is over, or nearly so: then /proc shows
    /// it as `shown`.
    pub fn name_generated(&mut self, process: u32, shown: Option<u32>) {
        let pid = self.loaded.pid(process);
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
        match path.starts_with('/') {
            true => self.loaded.open(process, path, start, end),
            false => self.loaded.open_relative(process, &path, start, end),
        }
    }

    /// What the instruction does that a process executed before the one at `ip`, and what is added to
    /// addresses in its file; `None` if that is not known.
    pub fn operand_before(&mut self, process: u32, ip: u64) -> Option<(Operand, u64)> {
        self.loaded.operand_before(process, ip)
    }

    /// A Python code object was announced by a process.
    pub fn code(&mut self, process: u32, text: &[u8]) {
        self.codes.define(process, text);
    }

    /// A stack was described, and is meant by this number from now on.
    pub fn describe(&mut self, process: u32, thread: u32, number: u64, text: &[u8]) {
        let site = self.site_of(process, text);
        let described = self.described.get_or_insert(thread);
        let number = number as usize % (1 << STACK_BITS);
        if described.len() <= number {
            described.resize(number + 1, None);
        }
        described[number] = site;
    }

    /// A thread is gone, and with it the numbers of its stacks.
    pub fn thread_gone(&mut self, thread: u32) {
        self.described.remove(thread);
    }

    /// The site of a heap block that `thread` acquired, with the number of its stack.
    #[inline]
    pub fn acquired(&mut self, thread: u32, number: u16, bytes: u64) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.accounts.acquired(site, bytes);
        Some(site)
    }

    /// The site of a mapping that `thread` made.
    pub fn mapped(&mut self, thread: u32, number: u16, bytes: u64) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.accounts.mapped(site, bytes);
        Some(site)
    }

    /// The site of a block of a device.
    pub fn on_device(&mut self, thread: u32, number: u16) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.accounts.on_device(site);
        Some(site)
    }

    /// The site of a call that was refused memory.
    pub fn refused(&mut self, thread: u32, number: u16) -> Option<Site> {
        let site = self.described(thread, number)?;
        self.accounts.refused(site);
        Some(site)
    }

    #[inline]
    fn described(&self, thread: u32, number: u16) -> Option<Site> {
        if number == 0 {
            return None;
        }
        *self.described.get(thread)?.get(usize::from(number))?
    }

    /// The bytes of sites.
    #[inline(always)]
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// The site's id in the trace.
    pub fn id(&self, site: Site) -> u64 {
        self.tree.nodes[self.leaves[site.get() as usize - 1] as usize].hash
    }

    fn site_of(&mut self, process: u32, text: &[u8]) -> Option<Site> {
        if let Some(site) = self.loaded.known(process, text) {
            return Some(site);
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
        let leaf = self.leaf(process, &native, python, head.complete)?;
        // Two images may know one file under two paths, and generated code lies anywhere: the same stack all the same.
        let id = self.tree.nodes[leaf as usize].hash;
        let site = *self.by_id.entry(id).or_insert_with(|| {
            self.leaves.push(leaf);
            self.accounts.add()
        });
        self.loaded.remember(process, text, site);
        Some(site)
    }

    /// The node of a stack's innermost frame.
    fn leaf(&mut self, process: u32, native: &[u64], python: &[u8], complete: bool) -> Option<u32> {
        let native = self.loaded.frames(process, native);
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
                self.loaded.binary(binary).evaluates(offset)
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
            node = self.child(node, frame).or(node);
        }
        node
    }

    /// The node of a frame below another one; `None` for frames of the recorder, which stand in front of the program's
    /// own functions.
    fn child(&mut self, parent: Option<u32>, frame: Frame) -> Option<u32> {
        Some(match frame {
            Frame::Native { binary, .. } => {
                self.tree.child(parent, frame, &[self.loaded.binary(binary).identity()])
            }
            Frame::Python { function, .. } => {
                let function = &self.codes.functions[function as usize];
                if function.file == RECORDER_FILE {
                    return None;
                }
                self.tree.child(parent, frame, &[function.file.as_str(), function.name.as_str()])
            }
            Frame::Generated { .. } => self.tree.child(parent, frame, &["generated"]),
            Frame::Unknown => self.tree.child(parent, frame, &[]),
        })
    }
}
