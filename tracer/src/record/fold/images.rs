//! Which process image an event belongs to. An image is named by its pid, in its own namespace, and its first
//! stamp; one that began by exec has said hello, a forked one has not.

use std::sync::mpsc::Receiver;

use memtrace_trace::rows::{ModuleRow, ProcessRow};
use rustc_hash::FxHashMap;

use super::Fold;
use crate::record::drain::Writer;
use crate::record::handshake::Arrival;
use crate::record::launch;
use crate::record::modules;
use crate::record::process::Process;

/// Pid in the image's own namespace, and first stamp.
type Image = (u32, u64);

struct Met {
    command: String,
    allocator_settings: String,
    host_pid: u32,
}

/// The images that are known.
pub struct Images {
    arrivals: Receiver<Arrival>,
    met: FxHashMap<Image, Met>,
    /// First stamp of the last image that said hello, by pid.
    latest: FxHashMap<u32, u64>,
    index: FxHashMap<Image, u32>,
    modules: Vec<(Image, ModuleRow)>,
}

impl Images {
    /// None yet.
    pub fn new(arrivals: Receiver<Arrival>) -> Images {
        let (met, latest, index) = Default::default();
        Images { arrivals, met, latest, index, modules: Vec::new() }
    }

    /// Executables and libraries of the processes.
    pub fn modules(&self) -> impl Iterator<Item = ModuleRow> {
        let row = |(image, module): &(Image, ModuleRow)| {
            Some(ModuleRow { process: *self.index.get(image)?, ..module.clone() })
        };
        self.modules.iter().filter_map(row)
    }

    /// True if a program has said hello under this pid (in its own namespace) since.
    pub fn arrived_since(&self, pid: u32, stamp: u64) -> bool {
        self.latest.get(&pid).is_some_and(|latest| *latest >= stamp)
    }
}

impl Fold {
    /// Takes in who has said hello since.
    pub fn greet(&mut self) {
        while let Ok(arrival) = self.images.arrivals.try_recv() {
            let image = (arrival.pid, arrival.image);
            let modules = modules::parse(&arrival.maps);
            self.sites.arrived(image, &modules);
            self.images.modules.extend(modules.into_iter().map(|module| (image, module)));
            self.launched.arrived(arrival.pid);
            self.cgroups.watch(arrival.cgroup);
            self.images.latest.insert(arrival.pid, arrival.image);
            let Arrival { command, allocator_settings, host_pid, .. } = arrival;
            self.kernel_joined(host_pid, arrival.image, &command);
            self.images.met.insert(image, Met { command, allocator_settings, host_pid });
        }
    }

    /// The process an image is, made when its first thread is met. A probe waits for its welcome before it writes,
    /// so its hello is there.
    pub(super) fn process_of(&mut self, writer: Writer) -> u32 {
        let image = (writer.pid, writer.image);
        if let Some(process) = self.images.index.get(&image) {
            return *process;
        }
        self.greet();
        let index = self.processes.len() as u32;
        let mut process = match self.images.met.get(&image) {
            Some(met) => {
                let row = ProcessRow {
                    pid: met.host_pid,
                    command: met.command.clone(),
                    allocator_settings: Some(met.allocator_settings.clone()),
                    ..Default::default()
                };
                Process::new(row, writer.claimed)
            }
            None => self.forked(writer),
        };
        process.row.process = index;
        process.row.ppid = writer.ppid;
        process.row.origin = if writer.forked { "fork" } else { "exec" }.into();
        process.namespaced |= process.row.pid != writer.pid;
        // Another image under its pid: exec ended the older one, whose last events are still to come.
        let exec = !writer.forked;
        let other = self.processes.iter_mut().rev().find(|old| {
            old.end.is_none() && old.row.pid == process.row.pid && old.namespaced == process.namespaced
        });
        match other {
            Some(older) if exec && older.start <= process.start => {
                process.replaces = Some(older.row.process);
                self.replaced.push(older.row.process);
            }
            Some(newer) if newer.row.origin == "exec" && newer.start > process.start => {
                newer.replaces.get_or_insert(index);
                self.replaced.push(index);
            }
            _ => {}
        }
        self.processes.push(process);
        if let Some(garbage) = &mut self.garbage {
            garbage.process(writer.claimed, |ns| self.clock.ticks(ns));
        }
        self.images.index.insert(image, index);
        let process = &self.processes[index as usize];
        // A child forked in a pid namespace is known by its pid in there only.
        let pid = match process.namespaced && writer.forked {
            true => launch::shown_pid(process.row.pid, &self.sites.token),
            false => Some(process.row.pid),
        };
        self.samples_met(index, pid, writer.claimed);
        if let Some(pid) = pid {
            self.kernel_met(pid, index, writer.claimed);
        }
        self.sites.begin(image, writer.forked.then_some(writer.parent_image));
        index
    }

    /// A forked child says no hello: it runs what its parent runs, where its parent runs.
    fn forked(&self, writer: Writer) -> Process {
        let mut images = self.images.index.iter();
        let parent = images.find(|((_, image), _)| writer.forked && *image == writer.parent_image);
        let parent = parent.map(|(_, index)| &self.processes[*index as usize]);
        let command = parent.map(|parent| parent.row.command.clone()).unwrap_or_default();
        let allocator_settings = parent.and_then(|parent| parent.row.allocator_settings.clone());
        let row = ProcessRow { pid: writer.pid, command, allocator_settings, ..Default::default() };
        let mut process = Process::new(row, writer.claimed);
        process.namespaced = parent.is_some_and(|parent| parent.namespaced);
        process
    }
}
