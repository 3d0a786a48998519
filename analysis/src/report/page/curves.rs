//! Memory over time, by process: live bytes from the rows of blocks, what of mappings was touched
//! and what was resident from the timeline.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::{ProcessRow, TimelineRow};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::blocks::Blocks;
use super::groups::by_curve;
use super::{TEXT_MAX, clipped};
use crate::error::Error;

/// Processes with a curve of their own.
const PROCESSES_MAX: usize = 11;

/// Curves at the times of the page.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// Nanoseconds since the trace started, in order.
    pub times: Vec<i64>,
    /// Those of the processes with the largest peaks; the last is the sum of all others, if there
    /// are any.
    pub curves: Vec<Curve>,
    /// Processes in that sum.
    pub others: usize,
}

/// Memory of a process at each of the times.
#[derive(Debug, Default, Serialize)]
pub struct Curve {
    /// Index of the process; null for several.
    pub process: Option<u32>,
    /// Its pid and command line.
    pub name: String,
    /// Heap bytes.
    pub heap: Vec<u64>,
    /// What of its mappings counts as live.
    pub touched: Vec<u64>,
    /// What of that no row of a block accounts for: touched parts of large mappings.
    pub large: Vec<u64>,
    /// Bytes mapped by the program itself.
    pub mapped: Vec<u64>,
    /// Resident bytes, as last sampled; null before the first sample.
    pub resident: Vec<Option<u64>>,
    /// Pages of files among them.
    pub file: Vec<Option<u64>>,
    /// Driver bytes on devices.
    pub device: Vec<Option<u64>>,
}

/// Memory of all processes together at each of the times.
#[derive(Debug, Serialize)]
pub struct Together {
    /// `live`, `resident`, `mapped` or `device`.
    pub name: &'static str,
    /// Bytes; null before the first sample.
    pub bytes: Vec<Option<u64>>,
}

impl Timeline {
    /// The curves of all processes together; resident, mapped and device bytes where there are any.
    pub fn together(&self) -> Vec<Together> {
        let sum = |name, of: &dyn Fn(&Curve, usize) -> Option<u64>| {
            let at = |at| self.curves.iter().filter_map(|curve| of(curve, at)).reduce(u64::saturating_add);
            Together { name, bytes: (0..self.times.len()).map(at).collect() }
        };
        let live = sum("live", &|curve, at| curve.heap[at].checked_add(curve.touched[at]));
        let others = [
            sum("resident", &|curve, at| curve.resident[at]),
            sum("mapped", &|curve, at| Some(curve.mapped[at])),
            sum("device", &|curve, at| curve.device[at]),
        ];
        let some = |curve: &Together| curve.bytes.iter().flatten().any(|bytes| *bytes > 0);
        [live].into_iter().chain(others.into_iter().filter(some)).collect()
    }
}

/// Which processes have a curve of their own.
pub struct Busiest {
    /// Indices of processes and what to call them, the largest peak first.
    processes: Vec<(u32, String)>,
    /// How many others there are.
    others: usize,
    /// When each process of the trace stopped to count.
    parted: Vec<i64>,
}

/// The processes with the largest peaks of live bytes.
pub fn busiest(trace: &Trace) -> Result<Busiest, Error> {
    let rows = trace.processes()?;
    let parted = rows.iter().map(|row| row.parted_ns.or(row.end_ns).unwrap_or(i64::MAX)).collect();
    let mut largest: Vec<&ProcessRow> = rows.iter().collect();
    largest
        .sort_by_key(|row| Reverse((row.peak_live_bytes.max(row.peak_resident_bytes), Reverse(row.process))));
    let others = largest.len().saturating_sub(PROCESSES_MAX);
    largest.truncate(PROCESSES_MAX);
    let named = |row: &ProcessRow| {
        let name = format!("{} {}", row.pid, clipped(&row.command, TEXT_MAX));
        (row.process, name)
    };
    Ok(Busiest { processes: largest.into_iter().map(named).collect(), others, parted })
}

impl Busiest {
    /// How many curves there are.
    pub fn rows(&self) -> usize {
        self.processes.len() + usize::from(self.others > 0)
    }

    /// The curve of a process: its own, else that of all others, if there is one.
    pub fn row(&self, process: u32) -> Option<usize> {
        let own = self.processes.iter().position(|(known, _)| *known == process);
        own.or_else(|| (self.others > 0).then_some(self.processes.len()))
    }

    /// True if a process has a curve of its own.
    pub fn is_apart(&self, process: u32) -> bool {
        self.processes.iter().any(|(known, _)| *known == process)
    }

    fn curve(&self, row: usize, length: usize) -> Curve {
        Curve {
            process: self.processes.get(row).map(|(process, _)| *process),
            name: self.processes.get(row).map_or("all others".into(), |(_, name)| name.clone()),
            heap: vec![0; length],
            touched: vec![0; length],
            large: vec![0; length],
            mapped: vec![0; length],
            resident: vec![None; length],
            file: vec![None; length],
            device: vec![None; length],
        }
    }
}

/// Reads the timeline at these times.
pub fn read(
    trace: &Trace,
    times: Vec<i64>,
    busiest: &Busiest,
    blocks: Option<&Blocks>,
) -> Result<Timeline, Error> {
    let mut curves: Vec<Curve> = (0..busiest.rows()).map(|row| busiest.curve(row, times.len())).collect();
    let courses = blocks.map(|blocks| by_curve(&blocks.courses, busiest.rows(), times.len()));
    let known: Vec<Known> = courses.iter().flatten().map(|course| Known::of(course)).collect();
    samples(trace, &times, busiest, |process, sampled_at, at, sample| {
        let Some(row) = busiest.row(process) else { return };
        curves[row].add(at, sample);
        // What was mapped since the sample; of several processes that is not known apart.
        if let Some(known) = known.get(row).filter(|_| curves[row].process.is_some()) {
            let touched = &mut curves[row].touched[at];
            *touched = touched.saturating_add(known.whole[at]).saturating_sub(known.whole[sampled_at]);
        }
    })?;
    curves.iter_mut().zip(known).for_each(|(curve, known)| curve.correct(known));
    Ok(Timeline { times, curves, others: busiest.others })
}

/// Passes what each process had to `each`, from its first row on until it parted: the process, the
/// time at or before which it was sampled, the time, and the row.
fn samples(
    trace: &Trace,
    times: &[i64],
    busiest: &Busiest,
    mut each: impl FnMut(u32, usize, usize, &TimelineRow),
) -> Result<(), Error> {
    // By process, the last row before each of the times.
    let mut last: FxHashMap<u32, BTreeMap<usize, TimelineRow>> = FxHashMap::default();
    trace.each_timeline(|row| {
        let at = times.partition_point(|time| *time < row.time_ns);
        let known = last.entry(row.process).or_default();
        match known.get_mut(&at) {
            Some(before) if row.time_ns < before.time_ns => {}
            Some(before) => *before = since(before, row),
            None => drop(known.insert(at, row)),
        }
    })?;
    for (process, rows) in last {
        let parted = busiest.parted.get(process as usize).copied().unwrap_or(i64::MAX);
        let gone = times.partition_point(|time| *time < parted);
        let ends: Vec<usize> = rows.keys().skip(1).copied().chain([times.len()]).collect();
        let mut last: Option<TimelineRow> = None;
        for ((at, row), until) in rows.into_iter().zip(ends) {
            let row = last.as_ref().map_or_else(|| row.clone(), |before| since(before, row.clone()));
            (at..until.min(gone)).for_each(|held| each(process, at, held, &row));
            last = Some(row);
        }
    }
    Ok(())
}

/// A later row of a process. Resident memory is not sampled with every row: what is not is as it was.
fn since(before: &TimelineRow, row: TimelineRow) -> TimelineRow {
    TimelineRow {
        resident_bytes: row.resident_bytes.or(before.resident_bytes),
        pages: row.pages.or(before.pages),
        device_bytes: row.device_bytes.or(before.device_bytes),
        ..row
    }
}

impl Curve {
    fn add(&mut self, at: usize, sample: &TimelineRow) {
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        let add_known = |sum: &mut Option<u64>, bytes: Option<u64>| {
            if let Some(bytes) = bytes {
                *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
            }
        };
        add(&mut self.heap[at], sample.heap_bytes);
        add(&mut self.touched[at], sample.live_bytes.saturating_sub(sample.heap_bytes));
        add(&mut self.mapped[at], sample.mapped_bytes);
        add_known(&mut self.resident[at], sample.resident_bytes);
        add_known(&mut self.file[at], sample.pages.map(|pages| pages.file));
        add_known(&mut self.device[at], sample.device_bytes);
    }

    /// Heap bytes are known from the rows of blocks at every time.
    fn correct(&mut self, known: Known) {
        let large = |(touched, whole): (&u64, u64)| touched.saturating_sub(whole);
        self.large = self.touched.iter().zip(known.whole).map(large).collect();
        self.heap = known.heap;
    }
}

/// What rows of blocks say of a process at each time.
struct Known {
    heap: Vec<u64>,
    /// Mappings that count whole.
    whole: Vec<u64>,
}

impl Known {
    fn of(changes: &[[i64; 2]]) -> Known {
        let sums = |which: usize| {
            let mut now = 0i64;
            let next = |change: &[i64; 2]| {
                now = now.wrapping_add(change[which]);
                now.max(0) as u64
            };
            changes.iter().map(next).collect()
        };
        Known { heap: sums(0), whole: sums(1) }
    }
}
