//! From live bytes to resident ones: the resident peak of a process that runs an operator at a shape.
//!
//! `resident = base + touched · heap model(inputs + sequence) + residual`. The sequence of allocations at that shape is
//! played through [`super::heap`] twice, since what the first call leaves in the heap the second finds there. `base` is
//! what the recorded peaks held beyond that: interpreter, libraries, once bytes, stacks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heap::{Heap, MAX_DYNAMIC, Settings};
use super::{Point, Size};
use crate::model::{ArrayLaw, Body, Law};

/// Less than this share untouched is what had not been written to yet when the peak was reached: up to 4 % in small
/// runs of operators that write to all they allocate.
const LEAST_UNTOUCHED: f64 = 0.1;
/// A run must hold so much before its untouched share says anything: small blocks are not watched.
const WATCHED: u64 = 8 << 20;

/// A run that holds so many times the largest block of a growing heap has most of its memory mapped.
const TELLING: u64 = 4;

/// What turns a law's live bytes into resident ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Resident {
    /// What the environment of the recorded processes told the allocator; empty: nothing.
    pub settings: String,
    /// Resident beside the inputs and the operator's blocks, bytes: median over the shapes.
    pub base_bytes: u64,
    /// The largest of them.
    pub base_upper_bytes: u64,
    /// Share of the operator's memory that is ever written to.
    pub touched: f64,
    /// Worst relative error among the recorded peaks.
    pub error: f64,
    /// Shapes it rests on.
    pub shapes: usize,
    /// True if the kernel told the peaks to the page; false if they were sampled, and may have been missed.
    pub exact: bool,
}

/// A recorded resident peak.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// One length per variable.
    pub shape: Vec<u64>,
    /// Bytes of the whole process.
    pub resident: u64,
    /// Live bytes that nobody had written to then, where the kernel told.
    pub untouched: Option<u64>,
    /// What the process's environment told the allocator.
    pub settings: String,
}

/// Fits the law to the recorded peaks; `None` without any. If they were recorded under several allocator settings, those
/// that were met most often are taken.
pub fn fit(law: &Law, looks: &[Look]) -> Option<Resident> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    looks.iter().for_each(|look| *counts.entry(&look.settings).or_default() += 1);
    let settings = counts.into_iter().max_by_key(|&(_, count)| count)?.0;
    let exact = looks.iter().any(|look| look.settings == settings && look.untouched.is_some());
    let fitting = looks.iter().filter(|look| look.settings == settings);
    let fitting: Vec<&Look> = fitting.filter(|look| look.untouched.is_some() == exact).collect();
    // A process's peak is that of its largest call.
    let mut peaks: BTreeMap<&Point, u64> = BTreeMap::new();
    for look in &fitting {
        let peak = peaks.entry(&look.shape).or_default();
        *peak = look.resident.max(*peak);
    }
    let mut found = Resident { settings: settings.to_owned(), touched: 1.0, exact, ..Resident::default() };
    let shares = fitting.iter().filter_map(|look| {
        let held = found.held(law, &look.shape, false).filter(|&held| held >= WATCHED)?;
        Some((held, look.untouched? as f64 / held as f64))
    });
    let shares: Vec<(u64, f64)> = shares.collect();
    // What comes from the heap has been written to by those who had it before; only blocks too large for it tell.
    let mapped = |held: u64| !Settings::parse(settings).dynamic || held >= TELLING * MAX_DYNAMIC;
    let any_mapped = shares.iter().any(|&(held, _)| mapped(held));
    let telling = shares.iter().filter(|&&(held, _)| mapped(held) || !any_mapped);
    let untouched = telling.map(|&(_, share)| share).fold(f64::INFINITY, f64::min);
    if (LEAST_UNTOUCHED..=1.0).contains(&untouched) {
        found.touched = 1.0 - untouched;
    }
    let base = |(shape, peak): (&&Point, &u64)| Some(peak.saturating_sub(found.held(law, shape, false)?));
    let mut bases: Vec<u64> = peaks.iter().filter_map(base).collect();
    bases.sort_unstable();
    found.shapes = bases.len();
    found.base_bytes = *bases.get(bases.len() / 2)?;
    found.base_upper_bytes = *bases.last()?;
    let error = |(shape, &peak): (&&Point, &u64)| {
        Some((found.at(law, shape)? as f64 - peak as f64).abs() / peak.max(1) as f64)
    };
    found.error = peaks.iter().filter_map(error).fold(0.0, f64::max);
    Some(found)
}

impl Resident {
    /// Estimate at a shape, bytes; `None` where it does not fit.
    pub fn at(&self, law: &Law, shape: &Point) -> Option<u64> {
        self.held(law, shape, false)?.checked_add(self.base_bytes)
    }

    /// Every block at its upper bound and touched, the largest base, and where thresholds grow by themselves
    /// the most that the rest of the program may have left in the heap without its being trimmed.
    pub fn upper(&self, law: &Law, shape: &Point) -> Option<u64> {
        let whole = Resident { touched: 1.0, ..self.clone() };
        let held = whole.held(law, shape, true)?;
        let left = if Settings::parse(&self.settings).dynamic { 2 * MAX_DYNAMIC } else { 0 };
        // Other contents may need more, in blocks that are not in the sequence.
        let worst = match law.worst {
            Some(_) => law.bytes(shape).ok().map(|task| task.working_upper.saturating_add(task.input))?,
            None => 0,
        };
        let held = held.max(worst);
        Some(held.checked_add(self.base_upper_bytes)?.checked_add(left)?.max(self.at(law, shape)?))
    }

    /// Resident bytes of the inputs and of what the operator allocates.
    fn held(&self, law: &Law, shape: &Point, upper: bool) -> Option<u64> {
        let bytes = |size: &Size| if upper { size.upper(shape) } else { size.at(shape) };
        let mut heap = Heap::new(Settings::parse(&self.settings));
        for input in law.inputs_at(false) {
            heap.alloc(u64::try_from(ArrayLaw::bytes(input, shape)?).ok()?);
        }
        match &law.body {
            Body::Symbolic(sequence) => {
                let sizes = sequence.sizes.iter().map(|size| u64::try_from(bytes(size)?).ok());
                let sizes = sizes.collect::<Option<Vec<u64>>>()?;
                for _ in 0..2 {
                    let mut live = vec![0i64; sizes.len()];
                    for (index, allocates) in sequence.steps.iter().filter_map(|&step| sequence.step(step)) {
                        live[index] += if allocates { 1 } else { -1 };
                        if allocates { heap.alloc(sizes[index]) } else { heap.release(sizes[index]) }
                    }
                    // Results are dropped before the next call.
                    let left = live.iter().zip(&sizes).flat_map(|(&n, &size)| (0..n).map(move |_| size));
                    heap.release_all(left);
                }
            }
            Body::Regression(_) => {
                let task = law.bytes(shape).ok()?;
                heap.alloc(if upper { task.working_upper } else { task.working });
            }
        }
        let peak = (heap.peak() as f64 * self.touched) as u64;
        let residual = u64::try_from(bytes(&law.residual)?).ok()?;
        peak.checked_add(residual)
    }
}
