//! Bytes, or blocks, by call stack: at the peak, at the end, on devices, at the working peaks of
//! operators, and of temporary blocks.

use std::collections::BTreeMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::SiteRow;
use serde::Serialize;

use super::blocks::{Blocks, Counted};
use super::spans::Spans;
use super::tree::Kept;
use super::{NAME_MAX, clipped};
use crate::error::Error;
use crate::report::flame::TEMPORARY_NS;
use crate::report::sites::{Live, Share, at_end, at_peak, enough, scaled_to};

/// A sum in parts by call stack. The parts and `unknown` add up to `total`.
#[derive(Debug, Serialize)]
pub struct Measure {
    /// `peak`, `span`, `end`, `device`, `untouched` or `temporary`.
    pub key: &'static str,
    /// Of `span`, the operator.
    pub operator: Option<String>,
    /// Of `span`, the operator's largest span.
    pub span: Option<u32>,
    /// What it is, in words.
    pub what: String,
    /// `bytes` or `blocks`.
    pub unit: &'static str,
    /// When it was, if it was at one time, ns.
    pub time: Option<i64>,
    /// The sum.
    pub total: u64,
    /// What no call stack accounts for.
    pub unknown: u64,
    /// Call stacks that have a part.
    pub site: Vec<u32>,
    /// Their parts.
    pub value: Vec<u64>,
}

impl Measure {
    fn new(key: &'static str, what: &str, total: u64, parts: impl Iterator<Item = u64>) -> Measure {
        let parts: Vec<(u32, u64)> = (0..).zip(parts).filter(|(_, value)| *value > 0).collect();
        let known = parts.iter().fold(0, |sum: u64, (_, value)| sum.saturating_add(*value));
        Measure {
            key,
            operator: None,
            span: None,
            what: what.into(),
            unit: "bytes",
            time: None,
            total: total.max(known),
            unknown: total.saturating_sub(known),
            site: parts.iter().map(|(site, _)| *site).collect(),
            value: parts.iter().map(|(_, value)| *value).collect(),
        }
    }

    /// Sites, and their parts.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.site.iter().copied().zip(self.value.iter().copied())
    }

    /// The same for the sites that the page has; the others are joined.
    pub fn kept(self, kept: &Kept) -> Measure {
        let mut joined = BTreeMap::new();
        for (site, value) in self.parts() {
            let sum: &mut u64 = joined.entry(kept.place(site)).or_default();
            *sum = sum.saturating_add(value);
        }
        Measure { site: joined.keys().copied().collect(), value: joined.into_values().collect(), ..self }
    }
}

/// All that the trace has, by the places of sites in their table.
pub fn of_sites(
    trace: &Trace,
    sites: &[SiteRow],
    spans: &Spans,
    blocks: Option<&Blocks>,
) -> Result<Vec<Measure>, Error> {
    let meta = trace.meta();
    let bytes = |shares: Vec<Share>| shares.into_iter().map(|share| share.bytes);
    let (peak, enough) = (meta.peak.live_bytes, enough(meta));
    let mut measures = vec![Measure {
        time: Some(meta.peak.peak_ns),
        ..Measure::new("peak", "live at the peak", peak, bytes(at_peak(trace)?))
    }];
    for (marked, counted) in spans.marked.iter().zip(blocks.iter().flat_map(|blocks| &blocks.spans)) {
        let operator: String = clipped(&marked.operator, NAME_MAX).into();
        let what = format!("allocated in {operator} (call {}) at its working peak", marked.call);
        measures.push(Measure {
            operator: Some(operator),
            span: Some(marked.span),
            time: Some(marked.peak_ns),
            ..Measure::new("span", &what, counted.all, scaled(counted, sites.len(), enough))
        });
    }
    let ends: u64 = trace.processes()?.iter().filter_map(|process| process.live_bytes_at_end).sum();
    measures.push(Measure::new("end", "live at the end of the program", ends, bytes(at_end(trace, ends)?)));
    if let Some(device) = meta.peak.device_used_bytes {
        let used = sites.iter().map(|row| row.device_bytes_at_peak.unwrap_or(0));
        measures.push(Measure::new("device", "used on devices at their peak", device, used));
    }
    let untouched: Vec<u64> = sites.iter().map(|row| row.untouched.unwrap_or_default().bytes).collect();
    let sum = untouched.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    measures.push(Measure::new("untouched", "requested and never touched", sum, untouched.into_iter()));
    if let Some(Blocks { temporary, .. }) = blocks {
        let what = format!("heap blocks released within {} µs", TEMPORARY_NS / 1000);
        let parts = scaled(temporary, sites.len(), 0);
        measures.push(Measure { unit: "blocks", ..Measure::new("temporary", &what, temporary.all, parts) });
    }
    measures.retain(|measure| measure.total > 0);
    Ok(measures)
}

/// What each site has of a sum: what sampled blocks stand for is scaled to it.
fn scaled(counted: &Counted, sites: usize, enough: u64) -> impl Iterator<Item = u64> {
    let mut live = vec![Live::default(); sites];
    for (site, of_site) in &counted.sites {
        live[*site as usize] = *of_site;
    }
    scaled_to(&live, counted.all, enough).into_iter().map(|(exact, estimated)| exact + estimated)
}
