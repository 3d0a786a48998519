//! One span: its peaks, and the blocks that may outlive it.

use memtrace_analysis::learn::Tracker;
use memtrace_trace::rows::{Kind, SpanRow};

use super::Acquired;
use crate::record::state::blocks::Site;
use crate::record::state::curve::Curve;
use crate::record::state::devices::Used;
use crate::record::state::memory::{BlockKey, Memory};

/// Blocks below this size are not followed one by one beyond the end of their span.
pub(super) const LEFTOVER_MIN: u64 = 4096;

/// A block that may outlive its span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leftover {
    pub key: BlockKey,
    pub bytes: u64,
    pub kind: Kind,
    counts: bool,
    pub output: bool,
}

#[cfg(test)]
impl Leftover {
    pub(super) fn of_test(bytes: u64) -> Leftover {
        Leftover { key: (0, 0), bytes, kind: Kind::Malloc, counts: true, output: false }
    }
}

/// A site, and whether it is that of a block that may be left over.
type LastSite = Option<(Site, bool)>;

pub(super) struct Span {
    /// Its row; times are filled in when it is written.
    pub row: SpanRow,
    /// The number of its operator.
    pub operator: u32,
    /// Its id, until its end has come, or is not waited for any more.
    pub id: Option<u64>,
    pub start: u64,
    pub end: Option<u64>,
    pub peak: u64,
    pub live: i64,
    pub net: i64,
    /// Of `live`, what is too small for the leftovers; now and at the peak.
    small: i64,
    small_at_peak: i64,
    /// Where the last block came from of which that is known, a large one if there was any; now and
    /// at the peak.
    site: LastSite,
    site_at_peak: LastSite,
    pub ordinals: [u32; Kind::COUNT],
    pub leftovers: Vec<Leftover>,
    compact_at: usize,
    /// Of `live`, with `--gc`.
    pub curve: Option<Curve>,
    /// Garbage in it may yet be found.
    pub awaits_garbage: bool,
    /// Compares it with the law of its operator.
    pub tracker: Option<Box<Tracker>>,
    /// It named the context it began in: it ends by itself, whatever ends around it.
    pub contextual: bool,
    /// Used bytes of devices that were allocated in it.
    pub device: Used,
}

impl Span {
    pub(super) fn new(row: SpanRow, operator: u32, start: u64, contextual: bool) -> Span {
        Span {
            row,
            operator,
            id: None,
            start,
            end: None,
            peak: start,
            live: 0,
            net: 0,
            small: 0,
            small_at_peak: 0,
            site: None,
            site_at_peak: None,
            ordinals: [0; Kind::COUNT],
            leftovers: Vec::new(),
            compact_at: 1024,
            curve: None,
            awaits_garbage: false,
            tracker: None,
            contextual,
            device: Used::default(),
        }
    }

    /// The number of a block among those of its kind in it.
    #[inline]
    pub(super) fn next_ordinal(&mut self, kind: Kind) -> u32 {
        let ordinal = &mut self.ordinals[kind as usize];
        *ordinal += 1;
        *ordinal - 1
    }

    /// A block was allocated in it.
    #[inline]
    pub(super) fn acquired(&mut self, block: &Acquired, alive: &impl Fn(BlockKey) -> bool) {
        self.row.allocations += 1;
        let large = block.bytes >= LEFTOVER_MIN;
        if let Some(site) = block.site
            && (large || self.site.is_none_or(|(_, large)| !large))
        {
            self.site = Some((site, large));
        }
        if block.counts {
            self.small += if large { 0 } else { block.bytes as i64 };
            self.add(block.bytes, block.key.1);
            if let Some(tracker) = &mut self.tracker {
                tracker.allocated(block.bytes);
            }
        }
        if large {
            self.compact(alive);
            let Acquired { key, bytes, kind, counts, .. } = *block;
            self.leftovers.push(Leftover { key, bytes, kind, counts, output: false });
        }
    }

    #[inline]
    fn add(&mut self, bytes: u64, stamp: u64) {
        self.live += bytes as i64;
        self.net += bytes as i64;
        if let Some(curve) = &mut self.curve {
            curve.note(stamp, self.live.max(0) as u64);
        }
        if self.live > self.row.working_peak_bytes as i64 {
            self.row.working_peak_bytes = self.live as u64;
            self.peak = stamp;
            self.small_at_peak = self.small;
            self.site_at_peak = self.site;
        }
        self.row.net_peak_bytes = self.row.net_peak_bytes.max(self.net.max(0) as u64);
    }

    /// A block that was allocated in it was released while it ran.
    #[inline]
    pub(super) fn released(&mut self, bytes: u64) {
        self.live -= bytes as i64;
        self.net -= bytes as i64;
        self.small -= if bytes < LEFTOVER_MIN { bytes as i64 } else { 0 };
        self.row.temporaries += 1;
        self.row.temporary_bytes += bytes;
        if let Some(tracker) = &mut self.tracker {
            tracker.released(bytes);
        }
    }

    pub(super) fn close(&mut self, stamp: u64, memory: &impl Memory) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(stamp);
        self.tracker = None;
        self.curve.iter_mut().for_each(Curve::rest);
        self.compact_now(&|key| memory.is_alive(key));
        self.leftovers.shrink_to_fit();
        let stays = |left: &&Leftover| left.counts && left.key.1 <= self.peak;
        let stayed: u64 = self.leftovers.iter().filter(stays).map(|left| left.bytes).sum();
        // Small blocks are not followed one by one: as many of them stay as there were at both
        // times.
        let small = self.small_at_peak.min(self.small).max(0) as u64;
        let temporary = self.row.working_peak_bytes.saturating_sub(stayed + small);
        self.row.temporary_peak_bytes = Some(temporary);
        self.row.kept_bytes = Some(self.live.max(0) as u64);
        self.row.pinned_bytes = Some(0);
    }

    /// True if its row may change, as long as its process runs.
    pub(super) fn may_change(&self) -> bool {
        let is_first_call = self.row.call == 0;
        self.end.is_none() || self.id.is_some() || is_first_call || self.awaits_garbage
    }

    /// Its row as the trace has it, with stamps converted and sites by their ids.
    pub(super) fn row(&self, ns: &impl Fn(u64) -> i64, id: &impl Fn(Site) -> u64) -> SpanRow {
        self.completed(self.row.clone(), ns, id)
    }

    /// The same; the span goes.
    pub(super) fn into_row(mut self, ns: &impl Fn(u64) -> i64, id: &impl Fn(Site) -> u64) -> SpanRow {
        let row = std::mem::take(&mut self.row);
        self.completed(row, ns, id)
    }

    fn completed(&self, row: SpanRow, ns: &impl Fn(u64) -> i64, id: &impl Fn(Site) -> u64) -> SpanRow {
        let [gc_independent_bytes, gc_independent_upper_bytes, garbage_at_peak_bytes] =
            self.bounds(row.working_peak_bytes);
        SpanRow {
            start_ns: ns(self.start),
            end_ns: self.end.map(ns),
            peak_ns: ns(self.peak),
            peak_site: self.peak_site().map(id),
            gc_independent_bytes,
            gc_independent_upper_bytes,
            garbage_at_peak_bytes,
            device_peak_bytes: row.device_peak_bytes.map(|_| self.device.peak()),
            ..row
        }
    }

    /// Where the block came from that set the working peak.
    pub(super) fn peak_site(&self) -> Option<Site> {
        self.site_at_peak.map(|(site, _)| site)
    }

    /// Forgets blocks that are gone, whenever the list has doubled.
    fn compact(&mut self, alive: &impl Fn(BlockKey) -> bool) {
        if self.leftovers.len() >= self.compact_at {
            self.compact_now(alive);
            self.compact_at = (self.leftovers.len() * 2).max(1024);
        }
    }

    fn compact_now(&mut self, alive: &impl Fn(BlockKey) -> bool) {
        self.leftovers.retain(|left| alive(left.key));
    }
}
