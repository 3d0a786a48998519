//! Makes the report of a trace: what `memtrace report --json` prints. Its keys are a contract.

use std::cmp::Reverse;
use std::collections::HashMap;

use memtrace_trace::rows::{ProcessRow, SpanRow};
use memtrace_trace::{Meta, SpanRecord, Table, Trace};

use crate::error::Error;
use crate::profile::{places, stacks};
use crate::report::composition::{Part, composition, labels};
use crate::report::data_dependence::{Varying, varying};
use crate::report::document::{
    DataDependent, DeviceSite, Lost, MinMax, Operator, OutOfMemory, Peak, PlaceAtPeak, Process,
    ProcessResident, Report, ResidentParts, Site, SiteShare, Span, Untouched, UntouchedSite,
};
use crate::report::figures::figures;
use crate::report::resident::{AtPeak, growth};
use crate::report::{accesses, devices, refused, several, sites};
use crate::units::Bytes;

/// Spans listed per operator unless all are requested, …
const SPANS_MAX: usize = 1000;
/// … and of all operators together: each takes some kB. Of more operators than this, the largest
/// have one.
const ALL_SPANS_MAX: usize = 20_000;

/// Sites listed with their call stacks, and without.
const SITES_MAX: usize = 1000;
const PLACES_MAX: usize = 100;

/// What a report lists.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listed {
    /// Every span, not only the 1,000 largest of each operator and 20,000 in all.
    pub all_spans: bool,
    /// The call stacks of 1,000 sites, not only the places of 100.
    pub stacks: bool,
}

/// Spans that fit into memory all together.
const EVERY_SPAN_MAX: u64 = 200_000;

impl Listed {
    /// Every span, unless there are too many of them.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn spans_of(trace: &Trace) -> Result<Listed, Error> {
        let all_spans = trace.row_count(Table::Spans)? <= EVERY_SPAN_MAX;
        Ok(Listed { all_spans, ..Listed::default() })
    }

    fn sites(self) -> usize {
        if self.stacks { SITES_MAX } else { PLACES_MAX }
    }

    fn stack(self, site: &sites::Site) -> Option<Vec<String>> {
        self.stacks.then(|| site.stack.iter().map(stacks::text).collect())
    }
}

/// The report of a trace.
///
/// # Errors
/// A table cannot be read.
pub fn report(trace: &Trace, listed: Listed) -> Result<Report, Error> {
    let meta = trace.meta();
    Ok(Report {
        schema_version: meta.schema_version,
        command: meta.command.clone(),
        exit: meta.exit,
        complete: meta.complete,
        seconds: seconds(meta.duration_ns),
        peak: peak(meta),
        totals: meta.totals,
        lost: Lost {
            events: meta.lost.events,
            late_events: meta.lost.late_events,
            unseen_releases: meta.lost.unseen_releases,
        },
        recorded: meta.recorded.clone(),
        lost_kernel_events: meta.lost.kernel_events,
        accesses: accesses::document(trace)?,
        lost_samples: meta.lost.samples,
        out_of_memory: out_of_memory(trace)?,
        refused: refused::document(trace)?,
        rows: meta.rows,
        notes: meta.notes.iter().chain(&meta.remarks).cloned().chain(row_notes(meta)).collect(),
        processes: trace.processes()?.iter().map(process).collect(),
        ranks: several::ranks(trace)?,
        devices: devices::document(trace)?,
        operators: operators(trace, listed.all_spans)?,
        places: places_at_peak(trace)?,
        sites: sites::largest(trace, listed.sites())?.iter().map(|each| site(each, listed)).collect(),
        device_sites: sites::largest_on_devices(trace, listed.sites())?
            .iter()
            .map(|each| device_site(each, listed))
            .collect(),
        untouched: untouched(trace, listed)?,
    })
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn peak(meta: &Meta) -> Peak {
    let peak = &meta.peak;
    Peak {
        live_bytes: peak.live_bytes,
        heap_bytes: peak.heap_bytes,
        heap_bytes_at_peak: peak.heap_bytes_at_peak,
        mapped_bytes: peak.mapped_bytes,
        resident_bytes: peak.resident_bytes,
        resident_sum_bytes: peak.resident_sum_bytes,
        gc_independent_bytes: peak.gc_independent_bytes,
        gc_independent_upper_bytes: peak.gc_independent_upper_bytes.unwrap_or(peak.live_bytes),
        garbage_at_peak_bytes: peak.garbage_at_peak_bytes,
        device_driver_bytes: peak.device_driver_bytes,
        device_used_bytes: peak.device_used_bytes,
        seconds: seconds(peak.peak_ns),
    }
}

fn places_at_peak(trace: &Trace) -> Result<Vec<PlaceAtPeak>, Error> {
    let mut parts = composition(trace)?.parts;
    parts.truncate(PLACES_MAX);
    let labels = labels(parts.iter().map(|part| &part.place));
    let at_peak = |(part, place): (&Part, String)| PlaceAtPeak {
        place,
        file: part.place.source().map(|(file, _)| file.into()),
        line: part.place.source().map(|(_, line)| line),
        bytes: part.bytes,
        estimated_bytes: part.estimated,
    };
    Ok(parts.iter().zip(labels).map(at_peak).collect())
}

fn operators(trace: &Trace, all_spans: bool) -> Result<Vec<Operator>, Error> {
    let most = if all_spans { usize::MAX } else { SPANS_MAX };
    let add = |calls: &mut Calls, span: &SpanRecord| calls.add(span, most);
    let operators = figures(trace, add, |calls, later| calls.join(later, most))?;
    let mut operators: Vec<(String, Calls)> = operators.into_iter().collect();
    operators.sort_by_key(|(_, calls)| Reverse(calls.working_peak_bytes));
    operators.iter_mut().for_each(|(_, calls)| calls.keep(most));
    if !all_spans {
        let share = share(operators.iter().map(|(_, calls)| calls.largest.len()).collect());
        for (index, (_, calls)) in operators.iter_mut().enumerate() {
            calls.keep(share.max(usize::from(index < ALL_SPANS_MAX)));
        }
    }
    let listed =
        operators.iter().flat_map(|(_, calls)| calls.largest.iter().map(|(_, span)| *span)).collect();
    let described = trace.spans_of(&listed)?;
    let described: HashMap<u32, &SpanRow> = described.iter().map(|row| (row.span, row)).collect();
    let places = places::places(trace, described.values().filter_map(|span| span.peak_site))?;
    let operator = |(name, calls): (String, Calls)| {
        let spans = calls.largest.iter().filter_map(|(_, span)| described.get(span).copied());
        let spans: Vec<&SpanRow> = spans.collect();
        Operator {
            name,
            calls: calls.count,
            data_dependent: varying(spans.iter().copied()).iter().map(data_dependent).collect(),
            spans: spans.iter().map(|row| span(row, &places)).collect(),
        }
    };
    Ok(operators.into_iter().map(operator).collect())
}

/// How many spans an operator may have, if all together have so many at most.
fn share(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    let mut left = ALL_SPANS_MAX;
    for (index, count) in counts.iter().enumerate() {
        let each = left / (counts.len() - index);
        if *count > each {
            return each;
        }
        left -= count;
    }
    usize::MAX
}

/// The calls of an operator.
#[derive(Default)]
struct Calls {
    count: usize,
    working_peak_bytes: u64,
    /// Working peaks of the largest, with their spans.
    largest: Vec<(Reverse<u64>, u32)>,
}

impl Calls {
    fn add(&mut self, span: &SpanRecord, most: usize) {
        self.count += 1;
        self.working_peak_bytes = self.working_peak_bytes.max(span.working_peak_bytes);
        self.largest.push((Reverse(span.working_peak_bytes), span.span));
        self.shorten(most);
    }

    fn join(&mut self, later: Calls, most: usize) {
        self.count += later.count;
        self.working_peak_bytes = self.working_peak_bytes.max(later.working_peak_bytes);
        self.largest.extend(later.largest);
        self.shorten(most);
    }

    fn shorten(&mut self, most: usize) {
        if self.largest.len() / 2 > most {
            self.keep(most);
        }
    }

    /// Leaves the largest, in the order they began.
    fn keep(&mut self, most: usize) {
        if self.largest.len() > most {
            self.largest.select_nth_unstable(most);
            self.largest.truncate(most);
            self.largest.shrink_to_fit();
        }
        self.largest.sort_by_key(|(_, span)| *span);
    }
}

fn data_dependent(group: &Varying) -> DataDependent {
    DataDependent {
        inputs: group.span.inputs.clone(),
        params: group.span.params.clone(),
        calls: group.calls,
        working_peak_bytes: MinMax { min: group.least, max: group.most },
    }
}

fn span(span: &SpanRow, places: &HashMap<u64, String>) -> Span {
    Span {
        span: span.span,
        parent: span.parent,
        process: span.process,
        call: span.call,
        inputs: span.inputs.clone(),
        outputs: span.outputs.clone(),
        params: span.params.clone(),
        input_bytes: span.input_bytes,
        working_peak_bytes: span.working_peak_bytes,
        net_peak_bytes: span.net_peak_bytes,
        one_time_bytes: span.one_time_bytes,
        output_bytes: span.output_bytes,
        resident_peak_bytes: span.resident_peak_bytes,
        resident_start_bytes: span.at_resident_peak.map(|then| then.start),
        resident_growth_bytes: growth(span),
        resident_at_peak: AtPeak::of_span(span).as_ref().map(resident_parts),
        gc_independent_bytes: span.gc_independent_bytes,
        gc_independent_upper_bytes: span.gc_independent_upper_bytes,
        garbage_at_peak_bytes: span.garbage_at_peak_bytes,
        device_peak_bytes: span.device_peak_bytes,
        device_driver_peak_bytes: span.device_driver_peak_bytes,
        allocations: span.allocations,
        peak_site: span.peak_site,
        peak_place: span.peak_site.and_then(|site| places.get(&site).cloned()),
        temporaries: span.temporaries,
        temporary_bytes: span.temporary_bytes,
        temporary_peak_bytes: span.temporary_peak_bytes,
        kept_bytes: span.kept_bytes,
        pinned_bytes: span.pinned_bytes,
        start_seconds: seconds(span.start_ns),
        seconds: span.end_ns.map(|end| seconds(end - span.start_ns)),
    }
}

/// The part of a process's time that collections took; `None` if it was not seen to end.
pub fn collect_share(process: &ProcessRow) -> Option<f64> {
    let time = process.end_ns.filter(|end| *end > process.start_ns)? - process.start_ns;
    Some(process.collect_ns as f64 / time as f64)
}

fn site(site: &sites::Site, listed: Listed) -> Site {
    Site {
        site: site.row.site,
        place: site.place(),
        stack: listed.stack(site),
        live_bytes_at_peak: site.row.live_bytes_at_peak,
        peak_live_bytes: site.row.peak_live_bytes,
        requested_bytes: site.row.requested_bytes,
        blocks: site.row.blocks,
    }
}

fn device_site(site: &sites::Site, listed: Listed) -> DeviceSite {
    DeviceSite {
        site: site.row.site,
        place: site.place(),
        stack: listed.stack(site),
        device_bytes_at_peak: site.row.device_bytes_at_peak,
    }
}

fn out_of_memory(trace: &Trace) -> Result<Vec<OutOfMemory>, Error> {
    let killed = &trace.meta().out_of_memory;
    let places =
        places::places(trace, killed.iter().flat_map(|victim| &victim.sites).map(|share| share.site))?;
    let site = |share: &memtrace_trace::SiteShare| SiteShare {
        site: share.site,
        place: places.get(&share.site).cloned(),
        bytes: share.bytes,
    };
    let victim = |victim: &memtrace_trace::OutOfMemory| OutOfMemory {
        pid: victim.pid,
        command: victim.command.clone(),
        live_bytes: victim.live_bytes,
        resident_bytes: victim.resident_bytes,
        limit_bytes: victim.limit_bytes,
        operators: victim.operators.clone(),
        sites: victim.sites.iter().map(site).collect(),
    };
    Ok(killed.iter().map(victim).collect())
}

/// Sentences on blocks without rows of their own.
pub fn row_notes(meta: &Meta) -> Vec<String> {
    let rows = &meta.rows;
    let mut notes = Vec::new();
    if rows.aggregate {
        notes.push(format!(
            "No block has a row of its own (--aggregate): {} are summed up by call stack.",
            rows.folded
        ));
    } else if rows.folded > 0 {
        notes.push(format!(
            "{} blocks below {} have no rows of their own (--min-size): they are summed up by call stack.",
            rows.folded,
            Bytes(rows.min_size_bytes)
        ));
    }
    if rows.rotated > 0 {
        notes.push(format!(
            "{} rows of blocks were deleted to keep the trace small (--max-trace-size): from {:.3} s on they are complete. Peaks and sums are of the whole recording.",
            rows.rotated,
            rows.complete_from_ns as f64 / 1e9
        ));
    }
    if rows.rotated_timeline > 0 {
        notes.push(format!(
            "{} rows of the timeline, of kernel events and of accesses were deleted for the same reason.",
            rows.rotated_timeline
        ));
    }
    notes
}

fn resident_parts(parts: &AtPeak) -> ResidentParts {
    ResidentParts {
        memory_bytes: parts.memory,
        file_bytes: parts.file,
        live_bytes: parts.retained.map(|retained| retained.live),
        untouched_bytes: parts.retained.map(|retained| retained.untouched),
        mapped_bytes: parts.retained.map(|retained| retained.mapped),
        stack_bytes: parts.image.map(|image| image.stack),
        data_bytes: parts.image.map(|image| image.data),
        unexplained_bytes: parts.unexplained(),
    }
}

fn untouched(trace: &Trace, listed: Listed) -> Result<Option<Untouched>, Error> {
    let Some((sum, sites)) = sites::untouched(trace, listed.sites())? else { return Ok(None) };
    let site = |site: &sites::Site| {
        let part = site.row.untouched.unwrap_or_default();
        UntouchedSite {
            site: site.row.site,
            place: site.place(),
            stack: listed.stack(site),
            blocks: part.blocks,
            of_bytes: part.of_bytes,
            bytes: part.bytes,
        }
    };
    Ok(Some(Untouched {
        blocks: sum.blocks,
        of_bytes: sum.of_bytes,
        bytes: sum.bytes,
        sites: sites.iter().map(site).collect(),
    }))
}

fn process(process: &ProcessRow) -> Process {
    let resident = |parts: AtPeak| ProcessResident {
        parts: resident_parts(&parts),
        seconds: process.resident_peak_ns.map(seconds),
    };
    Process {
        pid: process.pid,
        ppid: process.ppid,
        command: process.command.clone(),
        host: process.host.clone(),
        job: process.job.clone(),
        rank: process.rank,
        origin: process.origin.clone(),
        exit: process.exit,
        peak_live_bytes: process.peak_live_bytes,
        peak_heap_bytes: process.peak_heap_bytes,
        peak_mapped_bytes: process.peak_mapped_bytes,
        peak_resident_bytes: process.peak_resident_bytes,
        resident_at_peak: AtPeak::of(process).map(resident),
        page_faults: process.page_faults,
        page_table_bytes: process.page_table_bytes,
        allocator_settings: process.allocator_settings.clone(),
        probe_bytes: process.probe_bytes,
        allocations: process.allocations,
        requested_bytes: process.requested_bytes,
        lost_events: process.lost_events,
        inherited_releases: process.inherited_releases,
        unseen_releases: process.unseen_releases,
        unattributed_allocations: process.unattributed_allocations,
        unattributed_bytes: process.unattributed_bytes,
        gc_independent_bytes: process.gc_independent_bytes,
        gc_independent_upper_bytes: process.gc_independent_upper_bytes,
        garbage_at_peak_bytes: process.garbage_at_peak_bytes,
        collections: process.collections,
        collect_seconds: process.collect_ns as f64 / 1e9,
        collect_share: collect_share(process),
        start_seconds: seconds(process.start_ns),
        end_seconds: process.end_ns.map(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_as_many_spans_as_there_is_room_for() {
        assert_eq!(share(vec![]), usize::MAX);
        assert_eq!(share(vec![1000; 20]), usize::MAX);
        assert_eq!(share(vec![1000; 40]), 500);
        // What some leave, others have.
        assert_eq!(share([vec![1; 199], vec![1000]].concat()), usize::MAX);
        assert_eq!(share([vec![10; 1000], vec![1000; 20]].concat()), 500);
        assert_eq!(share(vec![1; 30_000]), 0);
    }
}
