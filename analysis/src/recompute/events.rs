//! Rows of `allocations` as changes of live bytes, each with whom it counts for.

use std::collections::HashMap;

use memtrace_trace::Life;
use memtrace_trace::rows::{Kind, ProcessRow, SiteRow, SpanRow};
use memtrace_trace::weights::SiteWeights;
use rustc_hash::FxHashMap;

use crate::error::Error;

/// Stands for no process, no site, no span.
pub const NONE: u32 = u32::MAX;

/// What happens to a block, in the order of what happens in one nanosecond.
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
    /// Bits that tell turns apart.
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

/// A trace can be so long: a year.
pub const DURATION_MAX: i64 = 1 << 55;

/// Bytes, and whose.
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
    /// Hands it over, or two of it if it counts for more than its bytes for its site: there were others like it.
    #[inline(always)]
    fn weighed(self, of_site: i64, mut each: impl FnMut(Share)) {
        let is_more = self.site != NONE && of_site != self.bytes;
        each(Share { site: if is_more { NONE } else { self.site }, ..self });
        if is_more {
            each(Share { bytes: of_site, process: NONE, span: NONE, together: false, ..self });
        }
    }

    /// True for the second of those two.
    pub fn is_of_site_alone(&self) -> bool {
        !self.together && self.process == NONE && self.span == NONE
    }
}

/// Whom blocks can be counted for: processes, sites and spans by their place in their tables.
pub struct Cast {
    /// When each process stopped to count for all together.
    pub parted: Vec<i64>,
    /// Length of the trace. Times that a damaged row has outside of it are taken to be at its ends.
    pub duration: i64,
    /// The span each one ran inside of.
    pub parents: Vec<u32>,
    /// When each span ended: later blocks do not count for it, though a span that began in it may go on.
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

impl Cast {
    /// From the tables.
    pub fn new(
        processes: &[ProcessRow],
        sites: &[SiteRow],
        spans: &[SpanRow],
        weights: SiteWeights,
        duration: i64,
    ) -> Result<Cast, Error> {
        let expected = (0..).zip(processes).all(|(index, row): (u32, _)| row.process == index);
        if !expected {
            return Err(Error::Trace("the processes of the trace are not numbered from 0".into()));
        }
        if !(0..=DURATION_MAX).contains(&duration) {
            return Err(Error::Trace("it is longer than a year".into()));
        }
        let ended = |row: &ProcessRow| row.parted_ns.or(row.end_ns).unwrap_or(i64::MAX);
        let numbers: FxHashMap<u32, u32> = spans.iter().map(|row| row.span).zip(0..).collect();
        // Only what began earlier can be outside: anything else is damaged, and no circle may come of it.
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
        Ok(Cast {
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

    /// A row in terms of places in tables: the site, and the span.
    #[inline(always)] // so that rows stay in registers, as for what follows
    pub fn places(&self, life: &Life) -> Result<(u32, u32), Error> {
        if life.process as usize >= self.parted.len() {
            return Err(missing("processes", u64::from(life.process)));
        }
        let site = match life.site {
            None => NONE,
            Some(id) => *self.by_id.get(&id).ok_or_else(|| missing("sites", id))?,
        };
        let span = match life.span {
            None => NONE,
            Some(span) => *self.spans.get(&span).ok_or_else(|| missing("spans", u64::from(span)))?,
        };
        Ok((site, span))
    }

    /// The span and those around it that ran at this time, innermost first: those that a block acquired then is of.
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

    /// The changes that a row at these [`Cast::places`] stands for; what is still there when its process parts is left
    /// to [`Cast::left`].
    #[inline(always)]
    pub fn events(&self, life: &Life, (site, span): (u32, u32), mut each: impl FnMut(Event)) {
        let heap = life.kind.is_heap();
        if !heap && (life.span.is_none() || !life.kind.is_own_memory()) {
            return;
        }
        let parted = self.parted[life.process as usize];
        let together = heap && life.alloc_ns <= parted;
        let acquired = Share {
            bytes: life.bytes as i64,
            process: if heap { life.process } else { NONE },
            site: if together { site } else { NONE },
            span,
            together,
        };
        let of_site =
            if acquired.site == NONE { acquired.bytes } else { self.weights.bytes(life.bytes) as i64 };
        let time = life.alloc_ns.clamp(0, self.duration);
        let turn = if life.kind == Kind::Realloc { Turn::Realloc } else { Turn::Acquire };
        acquired.weighed(of_site, |share| each(Event::new(time, turn, share)));
        if let Some(free) = life.free_ns {
            let alone = free > parted;
            let released = Share {
                site: if alone { NONE } else { acquired.site },
                together: together && !alone,
                ..acquired
            };
            let time = free.max(life.alloc_ns).clamp(0, self.duration);
            let turn = if free > life.alloc_ns { Turn::Release } else { Turn::AtOnce };
            released.weighed(of_site, |share| each(Event::new(time, turn, share)));
        }
    }

    /// The changes that processes made when they parted, by what they left.
    pub fn left(&self, left: &Left) -> Vec<Event> {
        let mut events = Vec::new();
        for (&(time, site), &(bytes, of_site)) in left {
            let all = Share { bytes: bytes as i64, process: NONE, site, span: NONE, together: true };
            let time = time.clamp(0, self.duration);
            all.weighed(of_site as i64, |share| events.push(Event::new(time, Turn::AtOnce, share)));
        }
        events
    }

    /// Notes what the row's block was, if it was still there when its process parted.
    pub fn note_left(&self, life: &Life, (site, _): (u32, u32), left: &mut Left) {
        let parted = self.parted[life.process as usize];
        let is_left = life.alloc_ns <= parted && life.free_ns.is_none_or(|free| free > parted);
        if life.kind.is_heap() && is_left && parted != i64::MAX {
            let of_site = if site == NONE { life.bytes } else { self.weights.bytes(life.bytes) };
            let sum = left.entry((parted, site)).or_default();
            *sum = (sum.0.wrapping_add(life.bytes), sum.1.wrapping_add(of_site));
        }
    }
}

/// What processes left behind when they parted, by that time and the site: bytes, and what they count for at the site.
pub type Left = HashMap<(i64, u32), (u64, u64)>;

#[cold]
fn missing(table: &str, what: u64) -> Error {
    Error::Trace(format!("`allocations` names {what}, which the table `{table}` does not have"))
}
