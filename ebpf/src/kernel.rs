//! Programs loaded and attached, and what they report.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use aya_obj::generated::bpf_insn;
use memtrace_wire::arch::page::bytes as page_bytes;

use crate::btf::Types;
use crate::event::{Counters, Event, What};
use crate::object;
use crate::perf_event;
use crate::ring::Ring;
use crate::sys::{self, Map, Target};
use crate::uprobe::{self, Function};
use crate::{BUILT, Error};

/// What is to be recorded in addition to resident memory, the life of processes,
/// faults and lack of memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts {
    /// System calls that map memory. They cost every process of the machine.
    pub calls: bool,
    /// Processes are watched that run already ([`Kernel::watch`]).
    pub running: bool,
}

/// Programs that may come a little later, so that a command is started without waiting for them.
#[derive(Default)]
pub struct Rest {
    /// Keeps maps open: programs name them by their descriptors until they are loaded.
    _maps: Vec<Map>,
    pressure: Vec<Waiting>,
    calls: Vec<Waiting>,
}

struct Waiting {
    name: &'static str,
    tracepoint: u32,
    instructions: Vec<bpf_insn>,
}

/// Programs at work until this is dropped.
#[derive(Default)]
pub struct Attached {
    /// A link keeps its program.
    links: Vec<OwnedFd>,
}

impl Attached {
    fn add(&mut self, program: &Waiting) -> Result<(), Error> {
        let loaded = sys::load(program.name, &program.instructions, &Target::Tracepoint(program.tracepoint))?;
        self.links.push(sys::attach_tracepoint(&loaded)?);
        Ok(())
    }

    /// The verifier takes a millisecond for each, and works on several at once.
    fn add_all(&mut self, programs: &[Waiting]) -> Result<(), Error> {
        let (first, second) = programs.split_at(programs.len() / 2);
        let add = |programs: &[Waiting]| {
            let mut attached = Attached::default();
            programs.iter().try_for_each(|program| attached.add(program))?;
            Ok(attached)
        };
        let (one, other) = std::thread::scope(|scope| {
            // There may be no more threads: one does it all then.
            let one = std::thread::Builder::new().spawn_scoped(scope, || add(first));
            let other = add(second);
            let one = one.map_or_else(|_| add(first), |one| one.join().unwrap_or(Err(Error::GaveUp)));
            (one, other)
        });
        for attached in [one?, other?] {
            self.links.extend(attached.links);
        }
        Ok(())
    }

    /// Attaches the one that stands in for those at [`FAULTS`].
    fn faults_on_event(&mut self, program: Option<Vec<bpf_insn>>) -> Result<(), Error> {
        let instructions = program.ok_or_else(|| Error::Missing("program page_fault".into()))?;
        let loaded = sys::load("page_fault", &instructions, &Target::PerfEvent)?;
        self.links.extend(perf_event::attach_to_page_faults(&loaded)?);
        Ok(())
    }

    /// Attaches those on system calls, unless [`Parts::calls`] has attached them at once.
    pub fn calls(&mut self, rest: &mut Rest) -> Result<(), Error> {
        std::mem::take(&mut rest.calls).iter().try_for_each(|program| self.add(program))
    }

    /// Attaches those that report lack of memory.
    pub fn pressure(&mut self, rest: &mut Rest) -> Result<(), Error> {
        std::mem::take(&mut rest.pressure).iter().try_for_each(|program| self.add(program))
    }
}

const ALWAYS: [&str; 4] = ["sched_process_exec", "sched_process_exit", "sched_process_fork", "rss_stat"];
/// Of x86-64 and RISC-V: Arm's kernels have none.
const FAULTS: [&str; 2] = ["page_fault_user", "page_fault_kernel"];
const PRESSURE: [&str; 6] = [
    "mark_victim",
    "signal_generate",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_memcg_reclaim_end",
];
const CALLS: [&str; 1] = ["sys_exit"];

/// `CPUS_MAX` of `bpf/resident.h`.
const PROCESSORS_MAX: usize = 512;
/// Bytes of the ring; `attach` reports every system call that maps memory.
const RING_BYTES: u32 = 1 << 20;
const RING_BYTES_WITH_CALLS: u32 = 1 << 23;

/// `struct task` of `bpf/logic.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Task {
    memory: u64,
    faults: u64,
    by_kernel: u64,
    thinned: u64,
    seed: u64,
}

/// `struct resident`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Resident {
    shown: u64,
    high: u64,
    high_ns: u64,
    peak: u64,
    peak_ns: u64,
    at_peak: [u64; 4],
    swapped: u64,
    anon: i64,
    threads: u64,
    central: [i64; 4],
    cpu: u32,
    pad: u32,
    owner: u32,
    ended: u32,
}

/// `struct cursor`: what a processor is at.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    first: u64,
    next: u64,
    ns: u64,
    faults: u32,
    pid: u32,
    tid: u32,
    by_kernel: u32,
    allowance: [u64; 2],
    view: [u64; 6],
}

/// Memory of a process that still runs, or whose end could not be reported.
#[derive(Debug, Clone, Copy)]
pub struct Leftover {
    /// Whose.
    pub pid: u32,
    /// Peak of resident bytes, exact.
    pub peak: u64,
    /// When, CLOCK_MONOTONIC.
    pub peak_ns: u64,
    /// Of what.
    pub at_peak: Counters,
    /// Its process has ended.
    pub ended: bool,
}

/// What could not be reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events for which the ring had no room.
    pub events: u64,
    /// Processes for which the tables had no room.
    pub processes: u64,
}

/// The kernel side of a recording. Dropping it detaches everything.
pub struct Kernel {
    attached: Attached,
    /// The program for functions.
    function: Vec<bpf_insn>,
    tasks: Map,
    memories: Map,
    lost: Map,
    cursors: Map,
    ring: Ring,
    processors: usize,
    /// Tracepoints that this kernel does not have and nothing stands in for.
    pub missing: Vec<&'static str>,
    /// Why page faults are not reported, if they are not.
    pub faults_missing: Option<Error>,
}

impl Kernel {
    /// Loads the programs and attaches those that must not miss the beginning;
    /// no process is watched yet.
    pub fn load(parts: Parts) -> Result<(Kernel, Rest), Error> {
        if !BUILT {
            return Err(Error::NotBuilt);
        }
        if !sys::may_load() {
            return Err(Error::NotAllowed);
        }
        if !sys::in_first_pid_namespace() {
            return Err(Error::Namespace);
        }
        if !sys::is_in_first_time_namespace() {
            return Err(Error::Time);
        }
        let file = "/sys/devices/system/cpu/possible";
        let unknown = |error| Error::Call { what: format!("cannot read {file}"), error };
        let processors = std::fs::read_to_string(file)
            .and_then(|text| possible_processors(&text).ok_or(ErrorKind::InvalidData.into()))
            .map_err(unknown)?;
        if processors > PROCESSORS_MAX {
            return Err(Error::Processors(processors));
        }
        let types = Types::of_the_kernel()?;
        let ring_bytes = if parts.calls { RING_BYTES_WITH_CALLS } else { RING_BYTES };
        let wanted = [FAULTS.as_slice(), &ALWAYS, &CALLS, &PRESSURE].concat();
        let tracepoints: HashMap<&str, Option<u32>> =
            wanted.iter().copied().zip(types.tracepoints(&wanted)).collect();
        let faults_on_event = FAULTS.iter().any(|name| tracepoints[name].is_none());
        let setting = object::Setting {
            processors: processors as u32,
            parts,
            ring_bytes,
            on_perf_events: parts.calls || faults_on_event,
        };
        let object::Relocated { mut maps, mut programs, is_split } = object::relocate(&types, &setting)?;
        let mut map = |name: &str| maps.remove(name).ok_or_else(|| Error::Missing(format!("map {name}")));
        let events = map("events")?;
        let mut kernel = Kernel {
            ring: Ring::open(&events, ring_bytes as usize)?,
            tasks: map("tasks")?,
            memories: map("memories")?,
            lost: map("lost")?,
            cursors: map("cursors")?,
            attached: Attached::default(),
            function: Vec::new(),
            processors,
            missing: Vec::new(),
            faults_missing: None,
        };
        if !is_split {
            let measure = programs.get("measure").ok_or_else(|| Error::Missing("program measure".into()))?;
            sys::run(&sys::load("measure", measure, &Target::Nothing)?)?;
        }
        let (mut first, mut rest) = (Vec::new(), Rest::default());
        for name in wanted.into_iter().filter(|name| !faults_on_event || !FAULTS.contains(name)) {
            let program = if name == "rss_stat" && is_split { "rss_stat_split" } else { name };
            let found = (tracepoints[name], programs.remove(program));
            let (Some(tracepoint), Some(instructions)) = found else {
                if ALWAYS.contains(&name) {
                    return Err(Error::Missing(format!("tracepoint {name}")));
                }
                kernel.missing.push(name);
                continue;
            };
            let program = Waiting { name, tracepoint, instructions };
            if PRESSURE.contains(&name) {
                rest.pressure.push(program);
            } else if CALLS.contains(&name) && !parts.calls {
                rest.calls.push(program);
            } else {
                first.push(program);
            }
        }
        kernel.attached.add_all(&first)?;
        if faults_on_event {
            let program = programs.remove("page_fault");
            kernel.faults_missing = kernel.attached.faults_on_event(program).err();
        }
        kernel.function = programs.remove("function").unwrap_or_default();
        rest._maps.push(events);
        rest._maps.extend(maps.into_values());
        Ok((kernel, rest))
    }

    /// Watches the children that a process will fork, but not itself.
    pub fn watch_children_of(&self, pid: u32) -> Result<(), Error> {
        self.tasks.set(&pid, &Task { seed: 1, ..Task::default() })
    }

    /// Watches no more children of it.
    pub fn untrack(&self, pid: u32) {
        self.tasks.delete(&pid);
    }

    /// Watches a process that runs already, and its children from now on. Its resident memory is
    /// known from its next fault on.
    pub fn watch(&self, pid: u32) -> Result<(), Error> {
        self.tasks.set(&pid, &Task::default())
    }

    /// True if it is watched.
    pub fn watches(&self, pid: u32) -> bool {
        self.tasks.get::<u32, Task>(&pid, 1).is_some()
    }

    /// Reports calls of a function, as [`What::Function`] with this `index`.
    pub fn probe(&mut self, function: &Function, index: u32) -> Result<(), Error> {
        let instructions = uprobe::numbered(&self.function, index);
        let program = sys::load("function", &instructions, &Target::Uprobe)?;
        self.attached.links.push(uprobe::attach(&program, function)?);
        Ok(())
    }

    /// Passes on the events that have come since.
    pub fn read(&mut self, each: impl FnMut(Event)) {
        self.ring.read(each);
    }

    /// Runs of faults that have not ended, one for each processor at most.
    pub fn unfinished(&self) -> Vec<Event> {
        let cursors = self.cursors.get::<u32, Cursor>(&0, self.processors).unwrap_or_default();
        let runs = cursors.into_iter().filter(|cursor| cursor.pid != 0 && cursor.next > cursor.first);
        runs.map(|run| Event {
            ns: run.ns,
            pid: run.pid,
            tid: run.tid,
            what: What::Faults {
                address: run.first * page_bytes(),
                bytes: (run.next - run.first) * page_bytes(),
                faults: u64::from(run.faults),
                by_kernel: run.by_kernel != 0,
            },
        })
        .collect()
    }

    /// Peaks of processes that still run, and of those whose end found no room in the ring.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let keys: Vec<u64> = self.memories.keys();
        let values = keys.iter().filter_map(|key| self.memories.get::<u64, Resident>(key, 1)?.pop());
        values
            .map(|resident| Leftover {
                pid: resident.owner,
                peak: resident.peak * page_bytes(),
                peak_ns: resident.peak_ns,
                at_peak: Counters::of_pages(&resident.at_peak),
                ended: resident.ended != 0,
            })
            .collect()
    }

    /// What could not be reported so far.
    pub fn lost(&self) -> Lost {
        let sum =
            |why: u32| self.lost.get::<u32, u64>(&why, self.processors).unwrap_or_default().iter().sum();
        Lost { events: sum(0), processes: sum(1) }
    }
}

/// A map per processor has a value for each that there can ever be. Where fewer are expected, the
/// kernel writes beyond the end of what it is given.
fn possible_processors(text: &str) -> Option<usize> {
    text.trim().rsplit([',', '-']).next()?.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_never_assumed() {
        assert_eq!(possible_processors("0-3\n"), Some(4));
        assert_eq!(possible_processors("0,2-7\n"), Some(8));
        assert_eq!(possible_processors("0\n"), Some(1));
        assert_eq!(possible_processors(""), None);
    }
}
