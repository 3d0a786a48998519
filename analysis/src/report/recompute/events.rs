//! Rows of `allocations` as changes of live bytes, each with whom it counts for.

use std::collections::HashMap;

use memtrace_trace::AllocationRecord;
use memtrace_trace::rows::{Kind, ProcessRow, SiteRow, SpanRow};
use memtrace_trace::weights::SiteWeights;
use rustc_hash::FxHashMap;

use crate::error::Error;

/// Stands for no process, no site, no span.
pub const NONE: u32 = u32::MAX;

/// What happens to a block, in the order of what happens at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// The release of an older block: `realloc` releases and acquires at one time.
    Release,
    /// Blocks come after that.
    Acquire,
    /// What `realloc` gives comes after what it released.
    Realloc,
    /// The release of a block that came at the same time.
    AtOnce,
}

impl Turn {
    /// Bits that distinguish turns.
    pub const BITS: u32 = 2;

    /// The turn that is this number.
    #[inline]
    pub fn of(bits: u64) -> Turn {
        match bits & 3 {
            0 => Turn::Release,
            1 => Turn::Acquire,
            2 => Turn::Realloc,
            _ => Turn::AtOnce,
        }
    }

    /// True for those that make live bytes more.
    #[inline]
    pub fn is_acquire(self) -> bool {
        matches!(self, Turn::Acquire | Turn::Realloc)
    }
}

/// A change of live bytes, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time and turn, in one number that is in their order.
    moment: u64,
    /// What.
    pub share: Share,
}

impl Event {
    /// At a time from 0 to [`DURATION_MAX`].
    #[inline]
    pub fn new(time: i64, turn: Turn, share: Share) -> Event {
        Event { moment: (time as u64) << Turn::BITS | turn as u64, share }
    }

    /// When.
    #[inline]
    pub fn time(&self) -> i64 {
        (self.moment >> Turn::BITS) as i64
    }

    /// When, and its place among others of the same time.
    #[inline]
    pub fn moment(&self) -> u64 {
        self.moment
    }
}

/// The longest a trace can be: a year.
pub const DURATION_MAX: i64 = 1 << 55;

/// What a row counts for besides its process, by places in tables; [`NONE`] for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The site.
    pub site: u32,
    /// The innermost span.
    pub span: u32,
}

/// Bytes, and what they count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub bytes: i64,
    /// The process whose own heap bytes these are.
    pub process: u32,
    /// The site they are of, by its place in the table.
    pub site: u32,
    /// The innermost span they are of.
    pub span: u32,
    /// Counts for all processes together.
    pub together: bool,
}

impl Share {
    /// Passes it on, in two parts if it counts for more than its bytes at its site: there were
    /// others like it.
    #[inline(always)]
    fn with_site_weight(self, of_site: i64, mut each: impl FnMut(Share)) {
        let is_more = self.site != NONE && of_site != self.bytes;
        each(Share { site: if is_more { NONE } else { self.site }, ..self });
        if is_more {
            each(Share { bytes: of_site, process: NONE, span: NONE, together: false, ..self });
        }
    }

    /// True for the second of those two.
    pub fn is_only_of_site(&self) -> bool {
        !self.together && self.process == NONE && self.span == NONE
    }
}

/// Processes, sites and spans that blocks count for, by their place in their tables.
pub struct Owners {
    /// When each process stopped to count for all together.
    pub parted: Vec<i64>,
    /// Length of the trace. Times that a damaged row has outside of it are taken to be at its ends.
    pub duration: i64,
    /// The span each one ran inside of.
    pub parents: Vec<u32>,
    /// When each span ended: later blocks do not count for it, though a span that began in it may
    /// go on.
    pub ended: Vec<i64>,
    /// Spans that went on after one around them had ended.
    pub outlived: Vec<bool>,
    /// Number of sites.
    pub sites: usize,
    /// What heap blocks count for in the sums of their sites.
    pub weights: SiteWeights,
    by_id: FxHashMap<u64, u32>,
    spans: FxHashMap<u32, u32>,
}

impl Owners {
    /// From the tables.
    pub fn new(
        processes: &[ProcessRow],
        sites: &[SiteRow],
        spans: &[SpanRow],
        weights: SiteWeights,
        duration: i64,
    ) -> Result<Owners, Error> {
        let expected = (0..).zip(processes).all(|(index, row): (u32, _)| row.process == index);
        if !expected {
            return Err(Error::Trace("the processes of the trace are not numbered from 0".into()));
        }
        if !(0..=DURATION_MAX).contains(&duration) {
            return Err(Error::Trace("it is longer than a year".into()));
        }
        let ended = |row: &ProcessRow| row.parted_ns.or(row.end_ns).unwrap_or(i64::MAX);
        let numbers: FxHashMap<u32, u32> = spans.iter().map(|row| row.span).zip(0..).collect();
        // Only what began earlier can be outside: anything else is damaged, and no circle may come
        // of it.
        let outer = |(place, row): (usize, &SpanRow)| {
            let place_of = row.parent.and_then(|parent| numbers.get(&parent).copied());
            place_of.filter(|outer| (*outer as usize) < place).unwrap_or(NONE)
        };
        let parents: Vec<u32> = spans.iter().enumerate().map(outer).collect();
        let ended_at = |row: &SpanRow| row.end_ns.unwrap_or(i64::MAX);
        let mut outlived: Vec<bool> = Vec::with_capacity(parents.len());
        for (row, parent) in spans.iter().zip(&parents) {
            let around = spans.get(*parent as usize);
            let longer = around.is_some_and(|around| ended_at(around) < ended_at(row));
            outlived.push(longer || outlived.get(*parent as usize).copied().unwrap_or(false));
        }
        Ok(Owners {
            duration,
            parted: processes.iter().map(ended).collect(),
            ended: spans.iter().map(ended_at).collect(),
            outlived,
            parents,
            sites: sites.len(),
            weights,
            by_id: sites.iter().map(|row| row.site).zip(0..).collect(),
            spans: numbers,
        })
    }

    /// What a row counts for.
    #[inline(always)] // so that rows stay in registers, as for what follows
    pub fn owner(&self, record: &AllocationRecord) -> Result<Owner, Error> {
        if record.process as usize >= self.parted.len() {
            return Err(missing("processes", u64::from(record.process)));
        }
        let site = match record.site {
            None => NONE,
            Some(id) => *self.by_id.get(&id).ok_or_else(|| missing("sites", id))?,
        };
        let span = match record.span {
            None => NONE,
            Some(span) => *self.spans.get(&span).ok_or_else(|| missing("spans", u64::from(span)))?,
        };
        Ok(Owner { site, span })
    }

    /// The span and those around it that ran at this time, innermost first: those that a block
    /// acquired then is of.
    #[inline]
    pub fn running(&self, span: u32, time: i64) -> impl Iterator<Item = usize> {
        let all = !self.outlived.get(span as usize).copied().unwrap_or(false);
        self.around(span).filter(move |place| all || time <= self.ended[*place])
    }

    /// The span and those around it, innermost first.
    fn around(&self, span: u32) -> impl Iterator<Item = usize> {
        let mut next = span;
        std::iter::from_fn(move || {
            let place = next as usize;
            next = *self.parents.get(place)?;
            Some(place)
        })
    }

    /// The changes that a row at these [`Owners::owner`] stands for; what is still there when its
    /// process parts is left to [`Owners::left`].
    #[inline(always)]
    pub fn events(&self, record: &AllocationRecord, owner: Owner, mut each: impl FnMut(Event)) {
        let heap = record.kind.is_heap();
        if !heap && (record.span.is_none() || !record.kind.is_own_memory()) {
            return;
        }
        let parted = self.parted[record.process as usize];
        let together = heap && record.alloc_ns <= parted;
        let acquired = Share {
            bytes: record.bytes as i64,
            process: if heap { record.process } else { NONE },
            site: if together { owner.site } else { NONE },
            span: owner.span,
            together,
        };
        let of_site =
            if acquired.site == NONE { acquired.bytes } else { self.weights.bytes(record.bytes) as i64 };
        let time = record.alloc_ns.clamp(0, self.duration);
        let turn = if record.kind == Kind::Realloc { Turn::Realloc } else { Turn::Acquire };
        acquired.with_site_weight(of_site, |share| each(Event::new(time, turn, share)));
        if let Some(free) = record.free_ns {
            let after_parting = free > parted;
            let released = Share {
                site: if after_parting { NONE } else { acquired.site },
                together: together && !after_parting,
                ..acquired
            };
            let time = free.max(record.alloc_ns).clamp(0, self.duration);
            let turn = if free > record.alloc_ns { Turn::Release } else { Turn::AtOnce };
            released.with_site_weight(of_site, |share| each(Event::new(time, turn, share)));
        }
    }

    /// The changes that processes made when they parted, by what they left.
    pub fn left(&self, left: &Left) -> Vec<Event> {
        let mut events = Vec::new();
        for (&LeftAt { time, site }, left) in left {
            let all = Share { bytes: left.bytes as i64, process: NONE, site, span: NONE, together: true };
            let time = time.clamp(0, self.duration);
            all.with_site_weight(left.of_site as i64, |share| {
                events.push(Event::new(time, Turn::AtOnce, share))
            });
        }
        events
    }

    /// Notes what the row's block was, if it was still there when its process parted.
    pub fn note_left(&self, record: &AllocationRecord, owner: Owner, left: &mut Left) {
        let parted = self.parted[record.process as usize];
        let is_left = record.alloc_ns <= parted && record.free_ns.is_none_or(|free| free > parted);
        if record.kind.is_heap() && is_left && parted != i64::MAX {
            let of_site = if owner.site == NONE { record.bytes } else { self.weights.bytes(record.bytes) };
            let at = LeftAt { time: parted, site: owner.site };
            left.entry(at).or_default().add(LeftBytes { bytes: record.bytes, of_site });
        }
    }
}

/// What processes left behind when they parted.
pub type Left = HashMap<LeftAt, LeftBytes>;

/// When a process parted, and the site of what it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeftAt {
    time: i64,
    site: u32,
}

/// Bytes that a process left.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftBytes {
    bytes: u64,
    /// What they count for at their site.
    of_site: u64,
}

impl LeftBytes {
    /// Adds others of the same time and site.
    pub fn add(&mut self, other: LeftBytes) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.of_site = self.of_site.wrapping_add(other.of_site);
    }
}

#[cold]
fn missing(table: &str, what: u64) -> Error {
    Error::Trace(format!("`allocations` names {what}, which the table `{table}` does not have"))
}
