//! Which process image an event belongs to. An image is named by its pid, in its own namespace, and
//! its first stamp; one that began by exec has said hello, a forked one has not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Receiver;

use memtrace_trace::rows::{ModuleRow, ProcessRow, split_command};
use rustc_hash::FxHashMap;

use super::Fold;
use crate::record::procfs::whereabouts::{Whereabouts, host};
use crate::record::procfs::{environment, modules};
use crate::record::state::process::Process;
use crate::record::transport::drain::Writer;
use crate::record::transport::handshake::Arrival;

/// Pid in the image's own namespace, and first stamp.
type Image = (u32, u64);

/// What a forked child has of its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Inherited {
    command: String,
    host: String,
    job: Option<String>,
    rank: Option<u32>,
    allocator_settings: Option<String>,
    namespaced: bool,
}

impl Inherited {
    fn of(process: &Process) -> Inherited {
        let ProcessRow { command, host, job, rank, allocator_settings, .. } = process.row.clone();
        Inherited { command, host, job, rank, allocator_settings, namespaced: process.namespaced }
    }
}

/// Images that have left and may yet have children that are not known: these say so when they first
/// allocate.
const FORMER_MAX: usize = 8192;

/// What is known of an image that has said hello, until its first thread is met.
struct Greeted {
    command: String,
    allocator_settings: String,
    whereabouts: Whereabouts,
    host_pid: u32,
}

/// The images that are known.
pub struct ImageIndex {
    arrivals: Receiver<Arrival>,
    greeted: FxHashMap<Image, Greeted>,
    /// First stamp of the last image that said hello, by pid.
    latest: FxHashMap<u32, u64>,
    /// By first stamp, all that a forked child knows of its parent, and pid.
    processes: BTreeMap<(u64, u32), u32>,
    /// By image, those that began first before others.
    modules: BTreeMap<(u64, u32), Vec<Loaded>>,
    /// Paths and build ids, each one time: most processes load what others have loaded.
    files: Vec<File>,
    by_file: FxHashMap<File, u32>,
    /// By first stamp, of images that have left.
    former: FxHashMap<u64, Inherited>,
    /// Their first stamps, in the order in which they left.
    left: VecDeque<u64>,
}

/// A path and a build id.
type File = (String, String);

/// A file that an image has mapped.
struct Loaded {
    /// Position among the files.
    file: u32,
    start: u64,
    end: u64,
}

impl ImageIndex {
    /// None yet.
    pub fn new(arrivals: Receiver<Arrival>) -> ImageIndex {
        let (greeted, latest, processes) = Default::default();
        let (modules, files, by_file) = Default::default();
        let (former, left) = Default::default();
        ImageIndex { arrivals, greeted, latest, processes, modules, files, by_file, former, left }
    }

    /// Executables and libraries of the processes.
    pub fn modules(&self) -> impl Iterator<Item = ModuleRow> {
        let of_images = self.modules.iter().filter_map(|(&(stamp, pid), loaded)| {
            let process = self.process((pid, stamp))?;
            Some(self.rows(process, loaded))
        });
        of_images.flatten()
    }

    fn rows<'a>(&'a self, process: u32, loaded: &'a [Loaded]) -> impl Iterator<Item = ModuleRow> + 'a {
        loaded.iter().map(move |&Loaded { file, start, end }| {
            let (path, build_id) = self.files[file as usize].clone();
            ModuleRow { process, path, start, end, build_id }
        })
    }

    /// The process that an image is leaves. Its modules.
    pub fn retire(&mut self, (pid, stamp): Image, process: &Process) -> Vec<ModuleRow> {
        let key = (stamp, pid);
        self.former.insert(stamp, Inherited::of(process));
        self.left.push_back(stamp);
        if self.left.len() > FORMER_MAX
            && let Some(first) = self.left.pop_front()
        {
            self.former.remove(&first);
        }
        if self.latest.get(&pid) == Some(&stamp) {
            self.latest.remove(&pid);
        }
        let (process, loaded) = (self.processes.remove(&key), self.modules.remove(&key));
        process.zip(loaded).map_or_else(Vec::new, |(process, loaded)| self.rows(process, &loaded).collect())
    }

    /// An image that has said hello has mapped this.
    fn loaded(&mut self, image: Image, module: ModuleRow) {
        let ModuleRow { path, build_id, start, end, .. } = module;
        let file = *self.by_file.entry((path, build_id)).or_insert_with_key(|file| {
            self.files.push(file.clone());
            self.files.len() as u32 - 1
        });
        let (pid, stamp) = image;
        self.modules.entry((stamp, pid)).or_default().push(Loaded { file, start, end });
    }

    /// True if a program has said hello under this pid (in its own namespace) since.
    pub fn arrived_since(&self, pid: u32, stamp: u64) -> bool {
        self.latest.get(&pid).is_some_and(|latest| *latest >= stamp)
    }

    fn insert(&mut self, (pid, stamp): Image, process: u32) {
        self.processes.insert((stamp, pid), process);
    }

    /// The process that an image is, if a thread of it was met.
    fn process(&self, (pid, stamp): Image) -> Option<u32> {
        self.processes.get(&(stamp, pid)).copied()
    }

    /// The process that an image was forked from, by its first stamp.
    fn parent(&self, image: u64) -> Option<u32> {
        self.processes.range((image, 0)..=(image, u32::MAX)).next().map(|(_, process)| *process)
    }
}

impl Fold {
    /// Programs that said hello and then sent nothing: they had no memory or no descriptor for what
    /// they were to map.
    pub fn note_silent_images(&mut self) {
        let ImageIndex { greeted, .. } = &self.images;
        for ((pid, _), greeted) in greeted {
            self.unrecorded.unmet(*pid, split_command(&greeted.command).0);
        }
    }

    /// Takes in the processes that have said hello since.
    pub(super) fn greet(&mut self) {
        while let Ok(arrival) = self.images.arrivals.try_recv() {
            let image = (arrival.pid, arrival.image);
            let modules = modules::parse(&arrival.maps);
            self.sites.arrived(image, &modules);
            modules.into_iter().for_each(|module| self.images.loaded(image, module));
            self.unrecorded.arrived(arrival.pid);
            self.cgroups.watch(arrival.cgroup);
            self.images.latest.insert(arrival.pid, arrival.image);
            let Arrival { command, allocator_settings, whereabouts, host_pid, .. } = arrival;
            self.kernel_joined(host_pid, arrival.image, &command);
            self.images.greeted.insert(image, Greeted { command, allocator_settings, whereabouts, host_pid });
        }
    }

    /// The process an image is, made when its first thread is met. A probe waits for its welcome
    /// before it writes, so its hello is there.
    pub(super) fn process_of_image(&mut self, writer: Writer) -> u32 {
        let image = (writer.pid, writer.image);
        if let Some(process) = self.images.process(image) {
            return process;
        }
        self.greet();
        let index = self.processes.met();
        let mut process = self.new_process(writer, image);
        process.row.process = index;
        process.image = Some(image);
        process.row.ppid = writer.ppid;
        process.row.origin = if writer.forked { "fork" } else { "exec" }.into();
        process.namespaced |= process.row.pid != writer.pid;
        self.note_replaced(&mut process, !writer.forked);
        self.processes.push(process);
        if let Some(garbage) = &mut self.garbage {
            garbage.process(writer.claimed, |ns| self.clock.ticks(ns));
        }
        // At once: what follows may make rows of other processes.
        self.sites.begin(image, writer.forked.then_some(writer.parent_image));
        self.images.insert(image, index);
        let process = &self.processes[index];
        // A child forked in a pid namespace is known by its pid in there only.
        let pid = match process.namespaced && writer.forked {
            true => environment::shown_pid(process.row.pid, &self.token),
            false => Some(process.row.pid),
        };
        self.sampled_process(index, pid, writer.claimed);
        if let Some(pid) = pid {
            self.kernel_met(pid, index, writer.claimed);
        }
        index
    }

    fn new_process(&mut self, writer: Writer, image: Image) -> Process {
        let Some(greeted) = self.images.greeted.remove(&image) else { return self.forked(writer) };
        let Whereabouts { host, job, rank } = greeted.whereabouts;
        let row = ProcessRow {
            pid: greeted.host_pid,
            host,
            job,
            rank,
            command: greeted.command,
            allocator_settings: Some(greeted.allocator_settings),
            ..Default::default()
        };
        Process::new(row, writer.claimed)
    }

    /// A forked child says no hello: it runs what its parent runs, where its parent runs.
    fn forked(&self, writer: Writer) -> Process {
        let inherited = if writer.forked { self.inherited(writer.parent_image) } else { None };
        let unknown = || Inherited { host: host().into(), ..Inherited::default() };
        let Inherited { command, host, job, rank, allocator_settings, namespaced } =
            inherited.unwrap_or_else(unknown);
        let row = ProcessRow {
            pid: writer.pid,
            command,
            host,
            job,
            rank,
            allocator_settings,
            ..Default::default()
        };
        let mut process = Process::new(row, writer.claimed);
        process.namespaced = namespaced;
        process
    }

    fn inherited(&self, image: u64) -> Option<Inherited> {
        let parent = self.images.parent(image).and_then(|index| self.processes.get(index));
        parent.map(Inherited::of).or_else(|| self.images.former.get(&image).cloned())
    }

    /// Another image under the pid of a new one: exec ended the older one, whose last events are
    /// still to come.
    fn note_replaced(&mut self, process: &mut Process, exec: bool) {
        let index = process.row.process;
        let has_pid = |old: &&Process| old.row.pid == process.row.pid && old.namespaced == process.namespaced;
        let Some(other) = self.processes.running().rev().find(has_pid) else { return };
        let other = other.row.process;
        let old = &mut self.processes[other];
        if exec && old.start <= process.start {
            process.replaces = Some(other);
            self.lifecycle.replaced(other);
        } else if old.row.origin == "exec" && old.start > process.start {
            old.replaces.get_or_insert(index);
            self.lifecycle.replaced(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn modules_belong_to_the_process_that_their_image_is() {
        let mut images = ImageIndex::new(channel().1);
        let module =
            ModuleRow { process: 0, path: "/bin/x".into(), start: 0, end: 1, build_id: String::new() };
        images.loaded((7, 100), module);
        assert_eq!(images.modules().count(), 0, "no thread of it was met");
        images.insert((7, 100), 3);
        let row = images.modules().next().unwrap();
        assert_eq!((row.process, row.path.as_str(), row.end), (3, "/bin/x", 1));
        assert_eq!((images.parent(100), images.parent(101)), (Some(3), None));
        let process = Process::new(ProcessRow { command: "x".into(), ..ProcessRow::default() }, 100);
        assert_eq!(images.retire((7, 100), &process), [row]);
        assert_eq!(images.former.get(&100).map(|former| former.command.as_str()), Some("x"));
        assert_eq!((images.modules().count(), images.parent(100)), (0, None));
    }

    #[test]
    fn only_a_later_hello_counts() {
        let mut images = ImageIndex::new(channel().1);
        images.latest.insert(7, 100);
        assert!(images.arrived_since(7, 100) && !images.arrived_since(7, 101) && !images.arrived_since(8, 0));
    }
}
