//! Processes in both traces: the n-th image of one program is one process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::document::{Change, Process};
use crate::profile::stacks::base_name;
use crate::report::document::{Process as Image, Report};

/// What processes needed in one trace, and in the other.
pub fn changes(before: &Report, after: &Report) -> Vec<Process> {
    let mut pairs: BTreeMap<(String, usize), [Option<&Image>; 2]> = BTreeMap::new();
    for (side, report) in [before, after].iter().enumerate() {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for image in &report.processes {
            let program = program(&image.command).to_owned();
            let number = seen.entry(program.clone()).or_default();
            pairs.entry((program, *number)).or_default()[side] = Some(image);
            *number += 1;
        }
    }
    let mut processes: Vec<Process> = pairs.values().filter_map(|pair| changed(*pair)).collect();
    processes.sort_by_key(|process| Reverse(process.peak_live_bytes.difference().unsigned_abs()));
    processes
}

/// The program of a command line: its arguments may have changed.
fn program(command: &str) -> &str {
    base_name(command.split(' ').next().unwrap_or_default())
}

fn changed([was, is]: [Option<&Image>; 2]) -> Option<Process> {
    let shown = is.or(was)?;
    let figure = |of: fn(&Image) -> u64| Change::of(was, is, |image: &Image| of(image));
    let sampled = |image: &Image| Some(image.peak_resident_bytes).filter(|bytes| *bytes > 0);
    let process = Process {
        command: shown.command.clone(),
        peak_live_bytes: figure(|image| image.peak_live_bytes),
        peak_heap_bytes: figure(|image| image.peak_heap_bytes),
        peak_mapped_bytes: figure(|image| image.peak_mapped_bytes),
        peak_resident_bytes: Change::of_known(was, is, sampled),
        allocations: figure(|image| image.allocations),
    };
    (!process.is_same()).then_some(process)
}
