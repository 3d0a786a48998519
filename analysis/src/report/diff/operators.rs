//! Operators by shape in both traces.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use memtrace_trace::Trace;

use super::document::{Change, Operator};
use crate::error::Error;
use crate::report::composition::{Place, labels, places_of};
use crate::report::document::Report;
use crate::report::shapes::{Shape, shapes};

/// What operators needed in one trace, and in the other.
pub fn changes(traces: [&Trace; 2], reports: [&Report; 2]) -> Result<Vec<Operator>, Error> {
    let shapes = reports.map(shapes);
    let mut pairs: BTreeMap<(&str, &str), [Option<&Shape>; 2]> = BTreeMap::new();
    for (side, shapes) in shapes.iter().enumerate() {
        for shape in shapes {
            pairs.entry((&shape.operator, &shape.inputs)).or_default()[side] = Some(shape);
        }
    }
    let mut operators: Vec<(Operator, usize, Option<u64>)> =
        pairs.values().filter_map(|pair| changed(*pair)).collect();
    operators.sort_by_key(|(operator, ..)| {
        let change = |change: Change| Reverse(change.difference().unsigned_abs());
        let name = (operator.operator.clone(), operator.inputs.clone());
        (change(operator.working_peak_bytes), change(operator.one_time_bytes), name)
    });
    let places: Vec<HashMap<u64, Place>> = (0..2)
        .map(|side| {
            let of_side = operators.iter().filter(|(_, of, _)| *of == side);
            places_of(traces[side], &of_side.filter_map(|(.., site)| *site).collect::<HashSet<_>>())
        })
        .collect::<Result<_, _>>()?;
    let at = |(mut operator, side, site): (Operator, usize, Option<u64>)| {
        if let Some(place) = site.and_then(|site| places[side].get(&site)) {
            operator.place = labels(std::iter::once(place)).pop();
            operator.file = place.source().map(|(file, _)| file.into());
            operator.line = place.source().map(|(_, line)| line);
        }
        operator
    };
    Ok(operators.into_iter().map(at).collect())
}

/// The operator, if it differs; which of the traces says where its peak was, and at which site.
fn changed([was, is]: [Option<&Shape>; 2]) -> Option<(Operator, usize, Option<u64>)> {
    let shown = is.or(was)?;
    let figure = |of: fn(&Shape) -> u64| Change::of(was, is, |shape: &Shape| of(shape));
    let known = |of: fn(&Shape) -> Option<u64>| Change::of_known(was, is, |shape: &Shape| of(shape));
    let operator = Operator {
        operator: shown.operator.clone(),
        inputs: shown.inputs.clone(),
        place: None,
        file: None,
        line: None,
        calls: figure(|shape| shape.calls as u64),
        working_peak_bytes: figure(|shape| shape.working_peak.1),
        net_peak_bytes: figure(|shape| shape.net_peak),
        temporary_peak_bytes: figure(|shape| shape.temporary_peak),
        output_bytes: figure(|shape| shape.output),
        one_time_bytes: figure(|shape| shape.one_time),
        resident_growth_bytes: known(|shape| shape.resident_growth),
        device_peak_bytes: known(|shape| shape.device_peak),
    };
    (!operator.is_same()).then_some((operator, usize::from(is.is_some()), shown.site))
}
