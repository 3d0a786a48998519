//! One run of a program, as its trace has it: large blocks as objects, and what the clock met of them.
//!
//! An object is a call stack, a size and an ordinal: blocks of one call stack and size that are live
//! at one time are different objects, those that follow each other are one. So an object has one
//! live block at most, always of the same size, and the same name in every run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use memtrace_trace::rows::{AllocationRow, ProcessRow};
use memtrace_trace::{AllocationFilter, Trace};

use super::error::Error;
use super::placed::Placed;
use super::plan::Program;

/// An object's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Id of its call stack in `sites`; `None` if it was not recorded.
    pub site: Option<u64>,
    /// Bytes of its block.
    pub bytes: u64,
    /// How many blocks of this call stack and size are live when it is allocated, those that were
    /// released before not counted.
    pub ordinal: u32,
}

/// A block of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Position among the objects.
    pub object: usize,
    /// When it was allocated.
    pub alloc_ns: i64,
    /// When it was released.
    pub free_ns: Option<i64>,
    /// Where it begins.
    pub address: u64,
}

/// A sample of the program's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time_ns: i64,
    /// Position of the object that it met; `None` for anything else.
    pub object: Option<usize>,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The program whose blocks these are: the one that most samples are of.
    pub program: Program,
    /// Its number in the trace.
    pub process: u32,
    /// CPU seconds of the whole command's own code.
    pub user_seconds: f64,
    /// CPU seconds of the kernel on its behalf.
    pub system_seconds: f64,
    /// Of the program.
    pub objects: Vec<Key>,
    /// Of the program, in the order in which it allocated them.
    pub blocks: Vec<Block>,
    /// Of the program, in their order.
    pub samples: Vec<Sample>,
    /// Samples of the whole command.
    pub all_samples: usize,
    /// Samples of the program that touched memory.
    pub touching: usize,
    /// Of them, those whose address is gone, as in a chain of pointers.
    pub without_address: usize,
}

/// Names a block: the thread that allocated it, and when.
type BlockName = (u32, i64);

impl Observed {
    /// Reads a trace that `place learn` has made: of the program that is wanted, or else of the one
    /// that most samples are of.
    ///
    /// # Errors
    /// A table cannot be read, or the trace was not recorded with what it takes.
    pub fn read(trace: &Trace, wanted: Option<&Program>) -> Result<Observed, Error> {
        let meta = trace.meta();
        let times = meta.user_ns.zip(meta.system_ns);
        let is_clock = meta.recorded.get("accesses").is_some_and(|source| source == "clock");
        let (Some((user_ns, system_ns)), true, true) = (times, is_clock, meta.is_whole()) else {
            return Err(Error::Learned(
                "the trace was not made by memtrace place learn, or not to its end".into(),
            ));
        };
        let mut counts: HashMap<u32, usize> = HashMap::new();
        trace.accesses(|row| *counts.entry(row.process).or_default() += 1)?;
        let mut of_program = None;
        for process in counts.keys().copied().filter(|_| wanted.is_some()) {
            // A forked child executed no file.
            let Ok(found) = program(trace, process) else { continue };
            if wanted.is_some_and(|wanted| (&found.path, found.before) == (&wanted.path, wanted.before)) {
                of_program = Some(process);
            }
        }
        let busiest =
            counts.iter().max_by_key(|(process, samples)| (**samples, std::cmp::Reverse(**process)));
        let Some(process) = of_program.or(busiest.map(|(process, _)| *process)) else {
            return Err(Error::Learned(
                "no sample was taken, as the command ran too short a time: give it more to do".into(),
            ));
        };
        let mut observed = Observed {
            program: program(trace, process)?,
            process,
            user_seconds: user_ns as f64 / 1e9,
            system_seconds: system_ns as f64 / 1e9,
            objects: Vec::new(),
            blocks: Vec::new(),
            samples: Vec::new(),
            all_samples: counts.values().sum(),
            touching: 0,
            without_address: 0,
        };
        let names = observed.read_blocks(trace, process)?;
        observed.read_samples(trace, process, &names)?;
        Ok(observed)
    }

    /// CPU seconds that a sample stands for.
    pub fn seconds_per_sample(&self) -> f64 {
        self.user_seconds / self.all_samples as f64
    }

    fn read_blocks(&mut self, trace: &Trace, process: u32) -> Result<HashMap<BlockName, usize>, Error> {
        let placed = Placed::read(trace, |row| row.process == process)?;
        let mut rows: Vec<AllocationRow> = Vec::new();
        let filter =
            AllocationFilter { process: Some(process), min_bytes: super::LEAST_BYTES, ..Default::default() };
        trace.allocations(filter, |row| {
            if placed.has(&row) {
                rows.push(row);
            }
        })?;
        rows.sort_by_key(|row| (row.alloc_ns, row.thread));
        let mut objects = Objects::default();
        let mut names = HashMap::new();
        for row in rows {
            let object = objects.allocated(&row);
            names.insert((row.thread, row.alloc_ns), object);
            let address = row.address.unwrap_or(0);
            self.blocks.push(Block { object, alloc_ns: row.alloc_ns, free_ns: row.free_ns, address });
        }
        self.objects = objects.keys;
        Ok(names)
    }

    fn read_samples(
        &mut self,
        trace: &Trace,
        process: u32,
        names: &HashMap<BlockName, usize>,
    ) -> Result<(), Error> {
        trace.accesses(|row| {
            if row.process != process {
                return;
            }
            let touching = row.access == "load" || row.access == "store";
            self.touching += usize::from(touching);
            self.without_address += usize::from(touching && row.address.is_none());
            let block = row.block_thread.zip(row.block_ns);
            let object = block.and_then(|name| names.get(&name).copied());
            self.samples.push(Sample { time_ns: row.time_ns, object });
        })?;
        self.samples.sort_by_key(|sample| sample.time_ns);
        Ok(())
    }
}

/// Objects as their blocks come and go.
#[derive(Default)]
struct Objects {
    keys: Vec<Key>,
    by_key: HashMap<Key, usize>,
    by_kind: HashMap<(Option<u64>, u64), Ordinals>,
}

/// The ordinals of the blocks of one call stack and size.
#[derive(Default)]
struct Ordinals {
    /// How many there are.
    count: u32,
    free: BTreeSet<u32>,
    /// Those of live blocks, by when they are released.
    taken: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Ordinals {
    /// The least that is free at a time, taken until another one.
    fn take(&mut self, now: i64, until: Option<i64>) -> u32 {
        while let Some(Reverse((released, ordinal))) = self.taken.peek().copied()
            && released <= now
        {
            self.taken.pop();
            self.free.insert(ordinal);
        }
        let ordinal = self.free.pop_first().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        if let Some(until) = until {
            self.taken.push(Reverse((until, ordinal)));
        }
        ordinal
    }
}

impl Objects {
    /// The object of a block, which is allocated later than all before.
    fn allocated(&mut self, row: &AllocationRow) -> usize {
        let ordinals = self.by_kind.entry((row.site, row.bytes)).or_default();
        let ordinal = ordinals.take(row.alloc_ns, row.free_ns);
        let key = Key { site: row.site, bytes: row.bytes, ordinal };
        *self.by_key.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }
}

/// The file that a process executed, and how often it was executed before.
fn program(trace: &Trace, process: u32) -> Result<Program, Error> {
    let processes = trace.processes()?;
    let Some(row) = processes.iter().find(|row| row.process == process) else {
        return Err(Error::Learned(format!("the trace has no process {process}")));
    };
    if row.origin == "fork" {
        let why = "most of the time goes to a forked child, whose blocks are left alone";
        return Err(Error::Request(format!("{why}: there is nothing to place")));
    }
    // An executable lies below its libraries.
    let mut files: HashMap<u32, (u64, String)> = HashMap::new();
    for module in trace.modules()? {
        let file = files.entry(module.process).or_insert((module.start, module.path.clone()));
        if module.start < file.0 {
            *file = (module.start, module.path);
        }
    }
    let path = |process: u32| files.get(&process).map(|(_, path)| path.clone());
    let Some(file) = path(process) else {
        return Err(Error::Learned(format!("the trace does not say which file process {process} executed")));
    };
    let is_before = |other: &&ProcessRow| {
        other.origin == "exec" && (other.start_ns, other.process) < (row.start_ns, row.process)
    };
    let before =
        processes.iter().filter(is_before).filter(|other| path(other.process).as_ref() == Some(&file));
    Ok(Program { before: before.count() as u32, path: file, command: row.command.clone() })
}
