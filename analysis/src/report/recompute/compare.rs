//! Folded figures next to those from the rows.

use memtrace_trace::rows::{ProcessRow, SiteRow, SpanRow};
use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{Meta, Trace};

use super::events::Owners;
use super::peaks::{Course, Courses};
use super::sums::{Count, Sums};
use super::sweep::{Limits, sweep};
use crate::error::Error;

/// What a figure describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// All processes together.
    All,
    /// A process, by its index; and its pid.
    Process(u32, u32),
    /// A site, by its id.
    Site(u64),
    /// A span, by its index.
    Span(u32),
}

/// A figure that was folded while recording, and derived from the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Whom it is of.
    pub whom: Whom,
    /// Its name in the report.
    pub name: &'static str,
    /// As it was folded.
    pub folded: u64,
    /// As the rows have it.
    pub rows: u64,
    /// The most that it may be where rows leave something open: the order of what happened in one
    /// nanosecond, and how much of a mapping was touched.
    pub most: u64,
    /// The least that it may be.
    pub least: u64,
}

impl Figure {
    /// False if the rows contradict what was folded.
    pub fn agrees(&self) -> bool {
        self.least <= self.folded && self.folded <= self.most
    }

    /// True if the rows leave nothing open, or what they leave open makes no difference.
    pub fn is_equal(&self) -> bool {
        self.folded == self.rows
    }
}

/// What [`recompute`] found.
#[derive(Debug)]
pub struct Recomputed {
    /// Rows that were read, as the files count them.
    pub rows: u64,
    /// Every figure.
    pub figures: Vec<Figure>,
    /// Processes with mappings whose touched part counts as live: it is not in the rows, so their
    /// live bytes are not compared.
    pub with_mappings: usize,
}

impl Recomputed {
    /// Figures that the rows contradict.
    pub fn differences(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| !figure.agrees())
    }
}

/// Derives the figures of a trace from its rows.
///
/// # Errors
/// A table cannot be read, or rows do not say: the trace is not complete, or has no row for every block.
pub fn recompute(trace: &Trace) -> Result<Recomputed, Error> {
    let meta = trace.meta();
    has_all_rows(meta)?;
    let processes = trace.processes()?;
    let sites = trace.sites()?;
    let spans = trace.span_figures()?;
    let groups = trace.block_groups()?;
    let owners = Owners::new(&processes, &sites, &spans, SiteWeights::of(meta), meta.duration_ns)?;
    let (sums, courses) = sweep(&groups, &owners, meta.peak.peak_ns, Limits::usual())?;
    let mut figures = Figures { all: Vec::new(), courses: &courses, sums: &sums };
    figures.together(meta);
    processes.iter().enumerate().for_each(|(place, row)| figures.process(place, row));
    sites.iter().enumerate().for_each(|(place, row)| figures.site(place, row));
    spans.iter().enumerate().for_each(|(place, row)| figures.span(place, row));
    Ok(Recomputed {
        rows: groups.iter().map(|group| group.rows).sum(),
        with_mappings: sums.processes.iter().filter(|count| count.mapped > 0).count(),
        figures: figures.all,
    })
}

/// Rows say all that was folded only if there is one for each block.
fn has_all_rows(meta: &Meta) -> Result<(), Error> {
    if !meta.is_whole() {
        return Err(Error::NoRows(
            "its recording was cut short, so its figures are older than its rows".into(),
        ));
    }
    meta.rows.missing(0).map_or(Ok(()), |why| Err(Error::NoRows(why.into())))
}

struct Figures<'a> {
    all: Vec<Figure>,
    courses: &'a Courses,
    sums: &'a Sums,
}

impl Figures<'_> {
    fn exact(&mut self, whom: Whom, name: &'static str, folded: u64, rows: u64) {
        self.all.push(Figure { whom, name, folded, rows, most: rows, least: rows });
    }

    /// A peak; `mapped` bytes may have been live in addition.
    fn peak(&mut self, whom: Whom, name: &'static str, folded: u64, course: Course, mapped: u64) {
        let rows = course.most.max(0) as u64;
        let most = (course.bound.max(course.most).max(0) as u64).saturating_add(mapped);
        self.all.push(Figure { whom, name, folded, rows, most, least: rows });
    }

    fn counts(&mut self, whom: Whom, names: [&'static str; 2], [blocks, requested]: [u64; 2], count: &Count) {
        let most = if self.sums.uncounted { u64::MAX } else { count.blocks };
        let (name, rows) = (names[0], count.blocks);
        self.all.push(Figure { whom, name, folded: blocks, rows, most, least: rows });
        self.exact(whom, names[1], requested, count.requested);
    }

    fn together(&mut self, meta: &Meta) {
        let mut sum = Count::default();
        for count in &self.sums.processes {
            sum.blocks = sum.blocks.wrapping_add(count.blocks);
            sum.requested = sum.requested.wrapping_add(count.requested);
            sum.mapped = sum.mapped.saturating_add(count.mapped);
        }
        let course = self.courses.together();
        let totals = [meta.totals.allocations, meta.totals.requested_bytes];
        self.counts(Whom::All, ["totals.allocations", "totals.requested_bytes"], totals, &sum);
        self.peak(Whom::All, "peak.heap_bytes", meta.peak.heap_bytes, course, 0);
        if sum.mapped == 0 {
            self.peak(Whom::All, "peak.live_bytes", meta.peak.live_bytes, course, 0);
            self.time(Whom::All, "peak.peak_ns", meta.peak.peak_ns, course, meta.peak.live_bytes);
        }
    }

    /// When a peak was reached: to be compared only if it is the same peak.
    fn time(&mut self, whom: Whom, name: &'static str, folded: i64, course: Course, peak: u64) {
        if peak > 0 && course.most == peak as i64 {
            self.exact(whom, name, folded as u64, course.at as u64);
        }
    }

    fn process(&mut self, place: usize, row: &ProcessRow) {
        let (whom, count) = (Whom::Process(row.process, row.pid), self.sums.processes[place]);
        let course = self.courses.process(place);
        let folded = [row.allocations, row.requested_bytes];
        self.counts(whom, ["allocations", "requested_bytes"], folded, &count);
        self.peak(whom, "peak_heap_bytes", row.peak_heap_bytes, course, 0);
        if count.mapped == 0 {
            self.peak(whom, "peak_live_bytes", row.peak_live_bytes, course, 0);
            self.time(whom, "peak_ns", row.peak_ns, course, row.peak_live_bytes);
        }
    }

    fn site(&mut self, place: usize, row: &SiteRow) {
        let (whom, count) = (Whom::Site(row.site), self.sums.sites[place]);
        self.counts(whom, ["blocks", "requested_bytes"], [row.blocks, row.requested_bytes], &count);
        self.peak(whom, "peak_live_bytes", row.peak_live_bytes, self.courses.site(place), count.mapped);
        let (least, most) = count.at_peak_bounds;
        self.all.push(Figure {
            whom,
            name: "live_bytes_at_peak",
            folded: row.live_bytes_at_peak,
            rows: count.at_peak,
            most: most.saturating_add(count.mapped_at_peak),
            least,
        });
    }

    fn span(&mut self, place: usize, row: &SpanRow) {
        let (whom, count) = (Whom::Span(row.span), self.sums.spans[place]);
        let course = self.courses.span(place);
        let most = if self.sums.uncounted { u64::MAX } else { count.blocks };
        let (name, rows, least) = ("allocations", count.blocks, count.blocks);
        self.all.push(Figure { whom, name, folded: row.allocations, rows, most, least });
        self.peak(whom, "working_peak_bytes", row.working_peak_bytes, course, 0);
        self.time(whom, "peak_ns", row.peak_ns, course, row.working_peak_bytes);
    }
}
