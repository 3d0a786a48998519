//! The machine-readable report of a trace: what `memtrace report --json` prints. Its keys are a contract.

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::{ProcessRow, SpanRow};
use memtrace_trace::{Meta, OutOfMemory, SiteShare, Trace};
use serde_json::{Value, json};

use crate::accesses;
use crate::devices;
use crate::error::Error;
use crate::resident::{AtPeak, growth};
use crate::sites::{self, Site};
use crate::varying::{Varying, varying};

/// Spans listed per operator unless all are asked for.
const SPANS_MAX: usize = 1000;

/// Sites listed.
const SITES_MAX: usize = 1000;

/// The report of a trace as JSON: the 1,000 largest spans of each operator, or all of them.
///
/// # Errors
/// A table cannot be read.
pub fn json(trace: &Trace, all_spans: bool) -> Result<Value, Error> {
    let unreadable = |error: memtrace_trace::Error| Error::Trace(error.to_string());
    let meta = trace.meta();
    let processes = trace.processes().map_err(unreadable)?;
    let spans = trace.span_figures().map_err(unreadable)?;
    let mut operators = by_operator(&spans);
    let calls: Vec<usize> = operators.iter().map(|(_, spans)| spans.len()).collect();
    if !all_spans {
        operators.iter_mut().for_each(|(_, spans)| keep_largest(spans));
    }
    let listed = operators.iter().flat_map(|(_, spans)| spans.iter().map(|span| span.span)).collect();
    let described = trace.spans_of(&listed).map_err(unreadable)?;
    let described: HashMap<u32, &SpanRow> = described.iter().map(|row| (row.span, row)).collect();
    let places = sites::places(trace, described.values().filter_map(|span| span.peak_site))?;
    let operators: Vec<Value> = operators
        .into_iter()
        .zip(calls)
        .map(|((name, spans), calls)| {
            let spans: Vec<&SpanRow> =
                spans.iter().filter_map(|row| described.get(&row.span).copied()).collect();
            json!({
                "name": name,
                "calls": calls,
                "data_dependent": varying(spans.iter().copied()).iter().map(varies).collect::<Vec<_>>(),
                "spans": spans.iter().map(|row| span(row, &places)).collect::<Vec<_>>(),
            })
        })
        .collect();
    Ok(json!({
        "schema_version": meta.schema_version,
        "command": meta.command,
        "exit": meta.exit,
        "complete": meta.complete,
        "seconds": meta.duration_ns as f64 / 1e9,
        "peak": {
            "live_bytes": meta.peak.live_bytes,
            "heap_bytes": meta.peak.heap_bytes,
            "mapped_bytes": meta.peak.mapped_bytes,
            "resident_bytes": meta.peak.resident_bytes,
            "resident_sum_bytes": meta.peak.resident_sum_bytes,
            "gc_independent_bytes": meta.peak.gc_independent_bytes,
            // Live bytes bound it from above even where garbage was not told apart.
            "gc_independent_upper_bytes": meta.peak.gc_independent_upper_bytes.unwrap_or(meta.peak.live_bytes),
            "garbage_at_peak_bytes": meta.peak.garbage_at_peak_bytes,
            "device_driver_bytes": meta.peak.device_driver_bytes,
            "device_used_bytes": meta.peak.device_used_bytes,
            "seconds": meta.peak.peak_ns as f64 / 1e9,
        },
        "totals": {
            "allocations": meta.totals.allocations,
            "requested_bytes": meta.totals.requested_bytes,
        },
        "lost": {
            "events": meta.lost.events,
            "late_events": meta.lost.late_events,
            "unseen_releases": meta.lost.unseen_releases,
        },
        "recorded": meta.recorded,
        "lost_kernel_events": meta.lost.kernel_events,
        "accesses": accesses::json(trace)?,
        "lost_samples": meta.lost.samples,
        "out_of_memory": out_of_memory(trace)?,
        "rows": meta.rows,
        "notes": meta.notes.iter().cloned().chain(row_notes(meta)).collect::<Vec<_>>(),
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
        "devices": devices::json(trace)?,
        "operators": operators,
        "sites": sites::largest(trace, SITES_MAX)?.iter().map(site).collect::<Vec<_>>(),
        "device_sites": sites::largest_on_devices(trace, SITES_MAX)?.iter().map(device_site).collect::<Vec<_>>(),
        "untouched": untouched(trace)?,
    }))
}

/// Spans by operator, the operator with the largest working peak first.
pub fn by_operator(spans: &[SpanRow]) -> Vec<(&str, Vec<&SpanRow>)> {
    let mut groups: BTreeMap<&str, Vec<&SpanRow>> = BTreeMap::new();
    for span in spans {
        groups.entry(&span.operator).or_default().push(span);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups
        .sort_by_key(|(_, spans)| std::cmp::Reverse(spans.iter().map(|span| span.working_peak_bytes).max()));
    groups
}

/// Leaves the largest, in their order.
fn keep_largest(spans: &mut Vec<&SpanRow>) {
    if spans.len() > SPANS_MAX {
        let size = |span: &&SpanRow| (std::cmp::Reverse(span.working_peak_bytes), span.span);
        spans.select_nth_unstable_by_key(SPANS_MAX, size);
        spans.truncate(SPANS_MAX);
        spans.sort_by_key(|span| span.span);
    }
}

/// Calls of one shape that needed different memory.
fn varies(group: &Varying) -> Value {
    json!({
        "inputs": group.span.inputs,
        "params": group.span.params,
        "calls": group.calls,
        "working_peak_bytes": { "min": group.least, "max": group.most },
    })
}

fn span(span: &SpanRow, places: &HashMap<u64, String>) -> Value {
    json!({
        "span": span.span,
        "parent": span.parent,
        "process": span.process,
        "call": span.call,
        "inputs": span.inputs,
        "outputs": span.outputs,
        "params": span.params,
        "input_bytes": span.input_bytes,
        "working_peak_bytes": span.working_peak_bytes,
        "net_peak_bytes": span.net_peak_bytes,
        "once_bytes": span.once_bytes,
        "output_bytes": span.output_bytes,
        "resident_peak_bytes": span.resident_peak_bytes,
        "resident_start_bytes": span.at_resident_peak.map(|then| then.start),
        "resident_growth_bytes": growth(span),
        "resident_at_peak": AtPeak::of_span(span).as_ref().map(at_peak),
        "gc_independent_bytes": span.gc_independent_bytes,
        "gc_independent_upper_bytes": span.gc_independent_upper_bytes,
        "garbage_at_peak_bytes": span.garbage_at_peak_bytes,
        "device_peak_bytes": span.device_peak_bytes,
        "device_driver_peak_bytes": span.device_driver_peak_bytes,
        "allocations": span.allocations,
        "peak_site": span.peak_site,
        "peak_place": span.peak_site.and_then(|site| places.get(&site)),
        "temporaries": span.temporaries,
        "temporary_bytes": span.temporary_bytes,
        "temporary_peak_bytes": span.temporary_peak_bytes,
        "kept_bytes": span.kept_bytes,
        "pinned_bytes": span.pinned_bytes,
        "start_seconds": span.start_ns as f64 / 1e9,
        "seconds": span.end_ns.map(|end| (end - span.start_ns) as f64 / 1e9),
    })
}

/// The part of a process's time that collections took; `None` if it was not seen to end.
pub fn collect_share(process: &ProcessRow) -> Option<f64> {
    let time = process.end_ns.filter(|end| *end > process.start_ns)? - process.start_ns;
    Some(process.collect_ns as f64 / time as f64)
}

fn site(site: &Site) -> Value {
    json!({
        "site": site.row.site,
        "stack": site.stack.iter().map(sites::text).collect::<Vec<_>>(),
        "live_bytes_at_peak": site.row.live_bytes_at_peak,
        "peak_live_bytes": site.row.peak_live_bytes,
        "requested_bytes": site.row.requested_bytes,
        "blocks": site.row.blocks,
    })
}

fn device_site(site: &Site) -> Value {
    json!({
        "site": site.row.site,
        "stack": site.stack.iter().map(sites::text).collect::<Vec<_>>(),
        "device_bytes_at_peak": site.row.device_bytes_at_peak,
    })
}

/// Who was killed for lack of memory, with what it held: sites by the place they are in.
fn out_of_memory(trace: &Trace) -> Result<Vec<Value>, Error> {
    let killed = &trace.meta().out_of_memory;
    let places =
        sites::places(trace, killed.iter().flat_map(|victim| &victim.sites).map(|share| share.site))?;
    let victim = |victim: &OutOfMemory| {
        let site = |share: &SiteShare| {
            json!({
                "site": share.site,
                "place": places.get(&share.site),
                "bytes": share.bytes,
            })
        };
        json!({
            "pid": victim.pid,
            "command": victim.command,
            "live_bytes": victim.live_bytes,
            "resident_bytes": victim.resident_bytes,
            "limit_bytes": victim.limit_bytes,
            "operators": victim.operators,
            "sites": victim.sites.iter().map(site).collect::<Vec<_>>(),
        })
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
            "{} blocks below {} bytes have no rows of their own (--min-size): they are summed up by call stack.",
            rows.folded, rows.min_size_bytes
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

/// What resident memory was made of.
fn at_peak(parts: &AtPeak) -> Value {
    json!({
        "memory_bytes": parts.memory,
        "file_bytes": parts.file,
        "live_bytes": parts.held.map(|held| held.live),
        "untouched_bytes": parts.held.map(|held| held.untouched),
        "mapped_bytes": parts.held.map(|held| held.mapped),
        "stack_bytes": parts.image.map(|image| image.stack),
        "data_bytes": parts.image.map(|image| image.data),
        "unexplained_bytes": parts.unexplained(),
    })
}

/// What was asked for and never touched; null where no kernel side tells of it.
fn untouched(trace: &Trace) -> Result<Option<Value>, Error> {
    let Some((sum, sites)) = sites::untouched(trace, SITES_MAX)? else { return Ok(None) };
    let site = |site: &Site| {
        let part = site.row.untouched.unwrap_or_default();
        json!({
            "site": site.row.site,
            "stack": site.stack.iter().map(sites::text).collect::<Vec<_>>(),
            "blocks": part.blocks,
            "of_bytes": part.of_bytes,
            "bytes": part.bytes,
        })
    };
    Ok(Some(json!({
        "blocks": sum.blocks,
        "of_bytes": sum.of_bytes,
        "bytes": sum.bytes,
        "sites": sites.iter().map(site).collect::<Vec<_>>(),
    })))
}

fn process(process: &ProcessRow) -> Value {
    json!({
        "pid": process.pid,
        "ppid": process.ppid,
        "command": process.command,
        "origin": process.origin,
        "exit": process.exit,
        "peak_live_bytes": process.peak_live_bytes,
        "peak_heap_bytes": process.peak_heap_bytes,
        "peak_mapped_bytes": process.peak_mapped_bytes,
        "peak_resident_bytes": process.peak_resident_bytes,
        "resident_at_peak": AtPeak::of(process).map(|parts| {
            let mut value = at_peak(&parts);
            value["seconds"] = process.resident_peak_ns.map(|ns| ns as f64 / 1e9).into();
            value
        }),
        "page_faults": process.page_faults,
        "page_table_bytes": process.page_table_bytes,
        "allocator_settings": process.allocator_settings,
        "probe_bytes": process.probe_bytes,
        "allocations": process.allocations,
        "requested_bytes": process.requested_bytes,
        "lost_events": process.lost_events,
        "inherited_releases": process.inherited_releases,
        "unseen_releases": process.unseen_releases,
        "unattributed_allocations": process.unattributed_allocations,
        "unattributed_bytes": process.unattributed_bytes,
        "gc_independent_bytes": process.gc_independent_bytes,
        "gc_independent_upper_bytes": process.gc_independent_upper_bytes,
        "garbage_at_peak_bytes": process.garbage_at_peak_bytes,
        "collections": process.collections,
        "collect_seconds": process.collect_ns as f64 / 1e9,
        "collect_share": collect_share(process),
        "start_seconds": process.start_ns as f64 / 1e9,
        "end_seconds": process.end_ns.map(|end| end as f64 / 1e9),
    })
}
