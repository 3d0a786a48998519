//! Page faults where no BPF program reports them: one in some is sampled. They show what is touched
//! of large mappings between two samples of /proc.

use memtrace_wire::arch::page::bytes as page_bytes;
use rustc_hash::FxHashMap;

/// What counts faults: the ring of a processor, for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counter {
    /// The ring.
    pub ring: u32,
    /// The thread's kernel id.
    pub tid: u32,
}

/// Pages in a row that samples have touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Index of the process.
    pub process: u32,
    first: u64,
    end: u64,
    /// After this the first of them was touched.
    pub begun: u64,
    /// The last of them was touched then.
    pub stamp: u64,
}

impl Touched {
    /// Address of the first.
    pub fn address(&self) -> u64 {
        self.first * page_bytes()
    }

    /// Length.
    pub fn bytes(&self) -> u64 {
        (self.end - self.first) * page_bytes()
    }
}

/// Joins the samples of faults to runs of pages.
#[derive(Debug, Default)]
pub struct FaultRuns {
    /// The page and the stamp of the last sample of each counter.
    last: FxHashMap<Counter, (u64, u64)>,
    /// The run that the next sample may go on with.
    open: Option<Touched>,
}

impl FaultRuns {
    /// A sample of one in `period` faults. Returns the run that it does not go on with, if there
    /// was one.
    pub fn add(
        &mut self,
        process: u32,
        counter: Counter,
        address: u64,
        period: u64,
        stamp: u64,
    ) -> Option<Touched> {
        let page = address / page_bytes();
        let last = self.last.insert(counter, (page, stamp));
        let pages = run(last.map(|(page, _)| page), page, period);
        // Those in between were touched after the last sample.
        let begun = last.filter(|_| pages > 1).map_or(stamp, |(_, stamp)| stamp);
        let first = page + 1 - pages;
        match &mut self.open {
            Some(open) if open.process == process && open.end == first => {
                (open.end, open.stamp) = (page + 1, stamp);
                None
            }
            open => open.replace(Touched { process, first, end: page + 1, begun, stamp }),
        }
    }

    /// The run that is open, which ends by that.
    pub fn take(&mut self) -> Option<Touched> {
        self.open.take()
    }
}

/// Pages that are taken to be touched up to the one of this sample. If it lies just as many pages
/// behind the last one as there were faults between them, those in between are taken to be touched
/// too; else it stands for itself. So no more pages are ever counted than there were faults.
fn run(last: Option<u64>, page: u64, period: u64) -> u64 {
    match last {
        Some(last) if last + period == page => period,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_in_a_row_are_one_run() {
        let counter = Counter { ring: 0, tid: 7 };
        let mut runs = FaultRuns::default();
        assert_eq!(runs.add(1, counter, 100 * page_bytes(), 4, 10), None);
        assert_eq!(runs.add(1, counter, 104 * page_bytes(), 4, 20), None);
        let before = runs.add(2, counter, 104 * page_bytes(), 4, 30).unwrap();
        assert_eq!(
            (before.process, before.address(), before.bytes()),
            (1, 100 * page_bytes(), 5 * page_bytes())
        );
        assert_eq!((before.begun, before.stamp), (10, 20));
        assert_eq!(runs.take().map(|run| run.bytes()), Some(page_bytes()));
        assert_eq!(runs.take(), None);
    }

    proptest! {
        /// Whatever a thread touches, what is taken to be touched is no more than its faults; and
        /// of what it touches from front to back nothing is missing but less than a period at both
        /// ends.
        #[test]
        fn never_more_pages_than_faults(
            runs in prop::collection::vec((0..1u64 << 36, 1..200u64, 1..4u64), 1..20),
            period in 1..32u64,
        ) {
            let (mut faults, mut last, mut counted) = (0, None, 0);
            for (first, length, stride) in &runs {
                let before = counted;
                for page in (0..*length).map(|at| first + at * stride) {
                    faults += 1;
                    if faults % period == 0 {
                        counted += run(last, page, period);
                        last = Some(page);
                    }
                }
                if *stride == 1 {
                    prop_assert!(counted - before + 2 * period > *length);
                }
            }
            prop_assert!(counted <= faults);
        }
    }
}
