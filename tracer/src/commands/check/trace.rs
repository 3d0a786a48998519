//! Budgets of a trace: of whole recordings, and of operators by the shapes of their inputs.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use memtrace_analysis::report::composition::{Place, composition, labels, places_of};
use memtrace_analysis::report::document::Report;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_analysis::report::shapes::{Shape, shapes};
use memtrace_trace::Trace;

use super::budget::{Budget, Budgets};
use super::outcome::{Checked, Figure, Subject};

/// Compares a trace with the budgets that are of its command.
pub fn check(trace: &Trace, budgets: &Budgets) -> Result<Checked> {
    let report = report(trace, Listed::spans_of(trace)?)?;
    let shapes = shapes(&report);
    let places = places_of(trace, &shapes.iter().filter_map(|shape| shape.site).collect::<HashSet<_>>())?;
    let command = report.command.join(" ");
    let mut checked = Checked::new(trace.directory().display().to_string());
    if !report.complete {
        checked.unmatched.push(format!("{}: its recording was cut short", checked.subject));
    }
    for (number, budget) in budgets.numbered().filter(|(_, budget)| budget.is_of_command(&command)) {
        if budget.operator.is_some() {
            of_operators(&mut checked, number, budget, &shapes, &places);
        } else {
            whole(&mut checked, number, budget, trace, &report)?;
        }
    }
    Ok(checked)
}

/// A budget of the whole recording. The line that set the peak is the one with most of it.
fn whole(
    checked: &mut Checked,
    number: usize,
    budget: &Budget,
    trace: &Trace,
    report: &Report,
) -> Result<()> {
    let parts = composition(trace)?.parts;
    let label = labels(parts.iter().take(1).map(|part| &part.place)).pop();
    let of = Subject::new(number, report.command.join(" "));
    let of = of.at_place(parts.first().map(|part| &part.place), label);
    let peak = &report.peak;
    let resident = peak.resident_sum_bytes.max(peak.resident_bytes);
    checked.compare(Figure::Peak, budget.peak, Some(peak.live_bytes), &of);
    let measured = Some(resident).filter(|bytes| *bytes > 0);
    checked.compare(Figure::Resident, budget.resident, measured, &of);
    let used = Some(peak.device_used_bytes.unwrap_or(0));
    checked.compare(Figure::Device, budget.device, used, &of);
    Ok(())
}

/// A budget of operators: of each that it names, at each shape that it names.
fn of_operators(
    checked: &mut Checked,
    number: usize,
    budget: &Budget,
    shapes: &[Shape],
    places: &HashMap<u64, Place>,
) {
    let is_named = |shape: &&Shape| {
        budget.is_of(&shape.operator) && budget.shape.as_ref().is_none_or(|wanted| *wanted == shape.lengths)
    };
    let mut any = false;
    for shape in shapes.iter().filter(is_named) {
        any = true;
        let what = format!("{} at {}", shape.operator, shape.inputs);
        let what = if shape.inputs.is_empty() { shape.operator.clone() } else { what };
        let place = shape.site.and_then(|site| places.get(&site));
        let of = Subject::new(number, what).at_place(place, labels(place.into_iter()).pop());
        checked.compare(Figure::Peak, budget.peak, Some(shape.working_peak.1), &of);
        checked.compare(Figure::Resident, budget.resident, shape.resident_growth, &of);
        checked.compare(Figure::OneTime, budget.one_time, Some(shape.one_time), &of);
        checked.compare(Figure::Device, budget.device, Some(shape.device_peak.unwrap_or(0)), &of);
    }
    if !any {
        checked.lacks((number, budget), "trace", shapes.iter().map(|shape| shape.operator.as_str()));
    }
}
