//! From what was live to what was resident, by process, where its resident memory peaked.

use std::cmp::Reverse;

use serde::Serialize;

use super::{TEXT_MAX, clipped};
use crate::report::document::{Process, Report, ResidentParts};

/// Processes that are shown.
const PROCESSES_MAX: usize = 11;

/// What the resident memory of a process was made of.
#[derive(Debug, Serialize)]
pub struct Waterfall {
    /// Index of the process.
    pub process: u32,
    /// Its pid and command line.
    pub name: String,
    /// When its resident memory peaked.
    pub seconds: Option<f64>,
    /// The peak.
    pub resident_bytes: u64,
    /// Its parts.
    #[serde(flatten)]
    pub parts: ResidentParts,
}

/// Those of the processes with the largest resident peaks of which the parts are known.
pub fn of(report: &Report) -> Vec<Waterfall> {
    let of = |(process, of): (u32, &Process)| {
        let at_peak = of.resident_at_peak.as_ref()?;
        at_peak.parts.live_bytes?;
        Some(Waterfall {
            process,
            name: format!("{} {}", of.pid, clipped(&of.command, TEXT_MAX)),
            seconds: at_peak.seconds,
            resident_bytes: of.peak_resident_bytes,
            parts: at_peak.parts.clone(),
        })
    };
    let mut all: Vec<Waterfall> = (0..).zip(&report.processes).filter_map(of).collect();
    all.sort_by_key(|waterfall| (Reverse(waterfall.resident_bytes), waterfall.process));
    all.truncate(PROCESSES_MAX);
    all
}
