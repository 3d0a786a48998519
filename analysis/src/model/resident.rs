//! From live bytes to resident ones: the resident peak of a process that runs an operator at a
//! shape.
//!
//! `resident = base + touched · heap model(inputs + sequence) + residual`. The sequence of
//! allocations at that shape is played through [`crate::law::heap`] twice, since what the first
//! call leaves in the heap the second finds there. `base` is what the recorded peaks had beyond
//! that: interpreter, libraries, one-time bytes, stacks. A process has at least what the law says
//! of its operator, which observations or other data values may have raised above the sequence's.

use super::law::{Law, Resident};
use super::parts::{ArrayLaw, Body};
use crate::law::Size;
use crate::law::heap::{Heap, MAX_DYNAMIC, Settings};
use crate::shape::Point;

impl Resident {
    /// Estimate at a shape, bytes; `None` where it does not fit.
    pub fn at(&self, law: &Law, shape: &Point) -> Option<u64> {
        let task = law.bytes(shape).ok()?;
        let written = task.working.saturating_add(task.input) as f64 * self.touched;
        self.bytes(law, shape, false)?.max(written as u64).checked_add(self.base_bytes)
    }

    /// Every block at its upper bound and touched, the largest base, and where thresholds grow by
    /// themselves the most that the rest of the program may have left in the heap without its being
    /// trimmed. Never below the bounds of the operator, its inputs and its one-time bytes together.
    pub fn upper(&self, law: &Law, shape: &Point) -> Option<u64> {
        let whole = Resident { touched: 1.0, ..self.clone() };
        let task = law.bytes(shape).ok()?;
        let operator = task.working_upper.saturating_add(task.input);
        let most = whole.bytes(law, shape, true)?.max(operator);
        let base = self.base_upper_bytes.max(law.one_time_bytes(shape));
        let left = if Settings::parse(&self.settings).dynamic { 2 * MAX_DYNAMIC } else { 0 };
        Some(most.checked_add(base)?.checked_add(left)?.max(self.at(law, shape)?))
    }

    /// Resident bytes of the inputs and of what the operator allocates.
    pub(crate) fn bytes(&self, law: &Law, shape: &Point, upper: bool) -> Option<u64> {
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
