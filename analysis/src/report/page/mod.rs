//! What the page of a trace shows (`memtrace report --html`): the figures of `report`, and beside
//! them what was live at chosen times, by call stack, and the call stacks themselves.
//!
//! All of it is bounded, however long the trace is: times, call stacks and spans beyond what a page
//! has room for are joined, and the page says how much that is.

mod blocks;
mod curves;
mod groups;
mod headline;
mod measures;
mod operators;
mod spans;
mod times;
mod tree;
mod waterfalls;

use std::borrow::Cow;

use memtrace_trace::Trace;
use memtrace_trace::rows::SiteRow;
use serde::Serialize;

pub use self::blocks::Moments;
pub use self::curves::{Curve, Timeline, Together};
pub use self::groups::Groups;
pub use self::headline::Headline;
pub use self::measures::Measure;
pub use self::operators::{Lanes, LeftOut};
pub use self::tree::{Frames, Lines, Sites, Tree};
pub use self::waterfalls::Waterfall;
use super::document::Report;
use super::histograms::Histograms;
use super::shapes::Shape;
use crate::error::Error;

/// Everything on the page, but for the text of source lines.
#[derive(Debug, Serialize)]
pub struct Page {
    /// The directory of the trace, for queries of it.
    pub trace: String,
    /// What the program was, and what came of it.
    pub headline: Headline,
    /// Memory over time, by process.
    pub timeline: Timeline,
    /// Frames and call stacks.
    pub tree: Tree,
    /// Bytes, or blocks, by call stack.
    pub measures: Vec<Measure>,
    /// Changes of live bytes by call stack between the times of the timeline; null where not every
    /// block has a row.
    pub moments: Option<Moments>,
    /// Operators by the shapes of their inputs.
    pub operators: Vec<Shape>,
    /// What that table leaves out.
    pub operators_left_out: LeftOut,
    /// Spans over time.
    pub lanes: Lanes,
    /// From live to resident bytes, by process; none without the kernel side.
    pub waterfalls: Vec<Waterfall>,
    /// Heap blocks by size and lifetime; null where not every block has a row.
    pub histograms: Option<Histograms>,
    /// Sentences on what could not be seen.
    pub notes: Vec<String>,
}

/// Bytes of a name, or of a path; longer ones are cut.
const TEXT_MAX: usize = 1000;
/// Bytes of the name of an operator, and of the shapes of its inputs.
const NAME_MAX: usize = 200;
/// Notes that the page has.
const NOTES_MAX: usize = 100;

/// A text that is no longer than that.
fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end]).into()
}

/// Collects the page of a trace whose report this is.
///
/// # Errors
/// A table cannot be read.
pub fn page(trace: &Trace, report: &Report) -> Result<Page, Error> {
    let sites = trace.sites()?;
    let spans = spans::Spans::read(trace)?;
    let read = Read::of(trace, &sites, &spans)?;
    let measures = measures::of_sites(trace, &sites, &spans, read.found.as_ref())?;
    let (tree, kept) = tree::build(trace, &sites, &measures, read.found.as_ref())?;
    let operator = spans.at_peak(read.found.as_ref().and_then(|found| found.last.as_ref()));
    let (operators, operators_left_out) = operators::shapes(report);
    let moments = |found: &blocks::Blocks| found.moments(trace.meta(), &kept, &read.grouping);
    Ok(Page {
        trace: trace.directory().display().to_string(),
        headline: headline::of(trace, report, operator)?,
        measures: measures.into_iter().map(|measure| measure.kept(&kept)).collect(),
        moments: read.found.as_ref().map(moments),
        operators,
        operators_left_out,
        lanes: operators::lanes(report),
        waterfalls: waterfalls::of(report),
        histograms: read.found.as_ref().map(|found| found.counts.histograms()),
        notes: notes(report),
        timeline: read.timeline(trace)?,
        tree,
    })
}

/// Memory over time, as the page draws it.
///
/// # Errors
/// A table cannot be read.
pub fn timeline(trace: &Trace) -> Result<Timeline, Error> {
    let sites = trace.sites()?;
    Read::of(trace, &sites, &spans::Spans::read(trace)?)?.timeline(trace)
}

/// What was read of blocks, and at which times.
struct Read<'a> {
    times: Vec<i64>,
    busiest: curves::Busiest,
    grouping: groups::Grouping<'a>,
    /// None where not every block has a row.
    found: Option<blocks::Blocks>,
}

impl<'a> Read<'a> {
    fn of(trace: &Trace, sites: &[SiteRow], spans: &'a spans::Spans) -> Result<Read<'a>, Error> {
        let times = times::choose(trace, spans, sites.len())?;
        let busiest = curves::busiest(trace)?;
        let grouping = groups::Grouping::of(trace, &busiest, spans)?;
        let read = || blocks::read(trace, &times, sites, spans, &busiest, &grouping);
        let has_rows = trace.meta().rows.missing(0).is_none();
        let found = has_rows.then(read).transpose()?;
        Ok(Read { times, busiest, grouping, found })
    }

    fn timeline(self, trace: &Trace) -> Result<Timeline, Error> {
        curves::read(trace, self.times, &self.busiest, self.found.as_ref())
    }
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> =
        report.notes.iter().take(NOTES_MAX).map(|note| clipped(note, TEXT_MAX).into()).collect();
    if report.notes.len() > NOTES_MAX {
        notes.push(format!("{} more notes are in meta.json.", report.notes.len() - NOTES_MAX));
    }
    notes
}
