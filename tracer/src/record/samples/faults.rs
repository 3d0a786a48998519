//! Page faults where no BPF program tells of them: one in some is sampled. They tell what is touched of
//! large mappings between two looks at /proc.

use crate::record::fold::Fold;

const PAGE: u64 = 4096;

/// Pages in a row, up to `end`, the first of them after `begun`, the last at `stamp`.
pub(super) struct Touched {
    process: u32,
    first: u64,
    end: u64,
    begun: u64,
    stamp: u64,
}

impl Fold {
    /// A sample of one in `period` faults of a thread, which counts on each processor for itself.
    pub(super) fn touched_by_faults(
        &mut self,
        process: u32,
        counter: (u32, u32),
        address: u64,
        period: u64,
        stamp: u64,
    ) {
        let page = address / PAGE;
        let last = self.samples.last_pages.insert(counter, (page, stamp));
        let pages = run(last.map(|(page, _)| page), page, period);
        // Those in between were touched after the last sample.
        let begun = last.filter(|_| pages > 1).map_or(stamp, |(_, stamp)| stamp);
        let first = page + 1 - pages;
        match &mut self.samples.touched {
            Some(touched) if touched.process == process && touched.end == first => {
                (touched.end, touched.stamp) = (page + 1, stamp);
            }
            _ => {
                self.fold_touched();
                self.samples.touched = Some(Touched { process, first, end: page + 1, begun, stamp });
            }
        }
    }

    /// What samples in a row have touched.
    pub(super) fn fold_touched(&mut self) {
        if let Some(Touched { process, first, end, begun, stamp }) = self.samples.touched.take() {
            self.faulted(process, first * PAGE, (end - first) * PAGE, begun, stamp);
        }
    }
}

/// Pages that are taken to be touched up to the one of this sample. If it lies just as many pages behind the last one
/// as there were faults between them, those in between are taken to be touched too; else it stands for itself. So no more
/// pages are ever counted than there were faults.
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

    proptest! {
        /// Whatever a thread touches, what is taken to be touched is no more than its faults; and of what it touches
        /// from front to back nothing is missing but less than a period at both ends.
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
