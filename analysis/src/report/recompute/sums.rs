//! What is added up row by row, whatever their order: counts, and what was live at the peak.

use memtrace_trace::AllocationRecord;
use memtrace_trace::rows::Kind;

use super::events::{NONE, Owner, Owners};

/// Mapping calls distinguished at most: a mapping that was cut has a row for each piece.
const CALLS_MAX: usize = 4 << 20;

/// Counts of one process, site or span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Blocks and mapping calls.
    pub blocks: u64,
    /// Sum of their bytes.
    pub requested: u64,
    /// Heap bytes live at the peak.
    pub at_peak: u64,
    /// Less those whose place in the nanosecond of the peak is not known, and with them.
    pub at_peak_bounds: (u64, u64),
    /// Bytes of mappings there at the peak: the touched part of them was live too.
    pub mapped_at_peak: u64,
    /// Bytes of all mappings; the touched part of some of them may have been live.
    pub mapped: u64,
}

impl Count {
    /// Adds a heap block, or as many as it counts for.
    #[inline]
    fn add_heap(&mut self, blocks: u64, bytes: u64, there: There) {
        self.blocks = self.blocks.wrapping_add(blocks);
        self.requested = self.requested.wrapping_add(bytes);
        if there.perhaps {
            let (least, most) = &mut self.at_peak_bounds;
            *most = most.wrapping_add(bytes);
            *least = least.wrapping_add(if there.surely { bytes } else { 0 });
            self.at_peak = self.at_peak.wrapping_add(if there.last { bytes } else { 0 });
        }
    }

    /// Adds a mapping, or a piece of one, whose bytes may count as live.
    fn add_mapping(&mut self, bytes: u64, mapped: u64, there: There) {
        self.requested = self.requested.wrapping_add(bytes);
        self.mapped = self.mapped.wrapping_add(mapped);
        self.mapped_at_peak = self.mapped_at_peak.wrapping_add(if there.perhaps { mapped } else { 0 });
    }

    fn add(&mut self, other: &Count) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.requested = self.requested.wrapping_add(other.requested);
        self.at_peak = self.at_peak.wrapping_add(other.at_peak);
        self.at_peak_bounds.0 = self.at_peak_bounds.0.wrapping_add(other.at_peak_bounds.0);
        self.at_peak_bounds.1 = self.at_peak_bounds.1.wrapping_add(other.at_peak_bounds.1);
        self.mapped_at_peak = self.mapped_at_peak.wrapping_add(other.mapped_at_peak);
        self.mapped = self.mapped.wrapping_add(other.mapped);
    }
}

/// Whether a block was there in the nanosecond of the peak.
#[derive(Clone, Copy)]
struct There {
    /// At some time in it.
    perhaps: bool,
    /// At its end.
    last: bool,
    /// All the time.
    surely: bool,
}

/// A call that made a mapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    process: u32,
    thread: u32,
    kind: Kind,
    time: i64,
    /// What its first piece counts for.
    owner: Owner,
}

impl Call {
    /// True for two pieces of one mapping.
    fn is_of_one(&self, other: &Call) -> bool {
        (self.process, self.thread, self.kind, self.time)
            == (other.process, other.thread, other.kind, other.time)
    }
}

/// Sums over rows.
pub struct Sums {
    /// By process.
    pub processes: Vec<Count>,
    /// By site.
    pub sites: Vec<Count>,
    /// By innermost span; of those around them too after [`Sums::finish`].
    pub spans: Vec<Count>,
    /// Blocks of spans that went on after those around them, by each span that they are of.
    apart: Vec<u64>,
    calls: Vec<Call>,
    /// Too many mapping calls to distinguish them.
    pub uncounted: bool,
    peak: i64,
}

impl Sums {
    /// Nothing added; `peak` is when live bytes peaked.
    pub fn new(owners: &Owners, peak: i64) -> Sums {
        Sums {
            processes: vec![Count::default(); owners.parted.len()],
            sites: vec![Count::default(); owners.sites],
            spans: vec![Count::default(); owners.parents.len()],
            apart: vec![0; owners.parents.len()],
            calls: Vec::new(),
            uncounted: false,
            peak,
        }
    }

    /// Adds a row that counts for `owner`.
    #[inline]
    pub fn add(&mut self, owners: &Owners, record: &AllocationRecord, owner: Owner) {
        // Memory of devices is in no figure of the host's.
        if record.kind.is_of_driver() {
            return;
        }
        let end = record.free_ns.unwrap_or(i64::MAX).min(owners.parted[record.process as usize]);
        let there = There {
            perhaps: record.alloc_ns <= self.peak && self.peak <= end,
            last: record.alloc_ns <= self.peak && self.peak < end,
            surely: record.alloc_ns < self.peak && self.peak < end,
        };
        let process = &mut self.processes[record.process as usize];
        let of_site = self.sites.get_mut(owner.site as usize); // None for NONE
        if record.kind.is_heap() {
            process.add_heap(1, record.bytes, there);
            if let Some(of_site) = of_site {
                of_site.add_heap(
                    owners.weights.blocks(record.bytes),
                    owners.weights.bytes(record.bytes),
                    there,
                );
            }
            self.count_for_span(owners, owner.span, record.alloc_ns);
        } else {
            let counts = record.kind.may_be_live();
            let mapped = if counts { record.bytes } else { 0 };
            [Some(process), of_site]
                .into_iter()
                .flatten()
                .for_each(|of| of.add_mapping(record.bytes, mapped, there));
            let (process, thread, kind, time) = (record.process, record.thread, record.kind, record.alloc_ns);
            self.call(Call { process, thread, kind, time, owner });
        }
    }

    /// Counts a block for the innermost span it is of, if that suffices to know the others.
    #[inline]
    fn count_for_span(&mut self, owners: &Owners, span: u32, time: i64) {
        match owners.outlived.get(span as usize) {
            None => {}
            Some(false) => self.spans[span as usize].blocks += 1,
            Some(true) => owners.running(span, time).for_each(|span| self.apart[span] += 1),
        }
    }

    fn call(&mut self, call: Call) {
        if self.calls.len() == CALLS_MAX {
            self.calls.sort_unstable();
            self.calls.dedup();
            if self.calls.len() > CALLS_MAX / 2 {
                self.calls.clear();
                self.uncounted = true;
            }
        }
        if !self.uncounted {
            self.calls.push(call);
        }
    }

    /// Adds what another thread has added up.
    pub fn join(&mut self, other: Sums) {
        let mine = [&mut self.processes, &mut self.sites, &mut self.spans];
        for (mine, others) in mine.into_iter().zip([&other.processes, &other.sites, &other.spans]) {
            mine.iter_mut().zip(others).for_each(|(mine, other)| mine.add(other));
        }
        self.apart.iter_mut().zip(&other.apart).for_each(|(mine, others)| *mine += others);
        self.uncounted |= other.uncounted;
        self.calls.extend(other.calls);
    }

    /// Counts the mapping calls, and for each span those inside it.
    pub fn finish(&mut self, owners: &Owners) {
        self.calls.sort_unstable();
        self.calls.dedup_by(|later, first| later.is_of_one(first));
        for Call { process, time, owner: Owner { site, span }, .. } in std::mem::take(&mut self.calls) {
            self.processes[process as usize].blocks += 1;
            if site != NONE {
                self.sites[site as usize].blocks += 1;
            }
            self.count_for_span(owners, span, time);
        }
        // Outer spans come before those inside them.
        for span in (0..self.spans.len()).rev() {
            let (blocks, outer) = (self.spans[span].blocks, owners.parents[span]);
            if outer != NONE {
                self.spans[outer as usize].blocks += blocks;
            }
        }
        for (span, blocks) in self.spans.iter_mut().zip(&self.apart) {
            span.blocks += blocks;
        }
    }
}
