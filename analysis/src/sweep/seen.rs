//! A law seen from the command: its variables as functions of the shape that the command is given.

use std::collections::BTreeSet;

use memtrace_trace::rows::SpanRow;

use crate::law::search::Search;
use crate::law::{Form, Size};
use crate::model::{self, Body, Law};
use crate::profile::{Profile, THREADS};

/// A law and how its variables follow from the command's shape.
pub(super) struct Seen<'a> {
    law: &'a Law,
    /// One form per variable.
    variables: Vec<Form>,
}

impl<'a> Seen<'a> {
    /// `None` if some variable is no function of the command's shape.
    pub(super) fn new(law: &'a Law, runs: &[(&[u64], &Profile)]) -> Option<Seen<'a>> {
        let mut shapes: Vec<Vec<u64>> = Vec::new();
        let mut points: Vec<Vec<u64>> = Vec::new();
        for (shape, profile) in runs {
            let of_law = profile.runs.iter().map(|run| &run.span).filter(|span| is_of(law, span));
            // A command may call it at several shapes: memory is for the one that needs most.
            let largest = of_law.max_by_key(|span| span.working_peak_bytes.saturating_add(span.input_bytes));
            if let Some(point) = largest.and_then(|span| model::point(&law.variables, &span.inputs)) {
                shapes.push(shape.to_vec());
                points.push(point);
            }
        }
        let search = Search::new(&shapes);
        let form = |variable: usize| {
            let lengths: Vec<u64> = points.iter().map(|point| point[variable]).collect();
            search.lengths(&lengths).into_iter().next()
        };
        let variables = (0..law.variables.len()).map(form).collect::<Option<Vec<_>>>()?;
        Some(Seen { law, variables })
    }

    fn point(&self, shape: &[u64]) -> Option<Vec<u64>> {
        self.variables.iter().map(|form| u64::try_from(form.at(shape)?).ok()).collect()
    }

    /// Upper bound of what a process needs for one call at this shape of the command, bytes.
    pub(super) fn needs(&self, shape: &[u64]) -> Option<f64> {
        let point = self.point(shape)?;
        let bytes = self.law.bytes(&point).ok()?;
        let baseline = self.law.baseline.as_ref();
        let before = baseline.map_or(0, |before| before.resident_bytes.unwrap_or(before.heap_bytes));
        Some(
            bytes.working_upper as f64
                + bytes.input as f64
                + self.law.one_time_bytes(&point) as f64
                + before as f64,
        )
    }

    /// How many values the forms of undetermined sizes would show at this shape, less one each.
    pub(super) fn distinguished(&self, shape: &[u64]) -> u64 {
        let (Body::Symbolic(sequence), Some(point)) = (&self.law.body, self.point(shape)) else { return 0 };
        let distinguished = |size: &Size| match size {
            Size::Exact { form, others } => {
                let values = others.iter().chain([form]).map(|form| form.at(&point));
                values.collect::<BTreeSet<_>>().len() as u64 - 1
            }
            _ => 0,
        };
        sequence.sizes.iter().map(distinguished).sum()
    }
}

/// True if a call belongs to those that a law was fitted to.
fn is_of(law: &Law, span: &SpanRow) -> bool {
    let threads = span.params.get(THREADS).and_then(|threads| threads.as_u64());
    span.operator == law.key.operator && law.is_of(&span.inputs, &span.params, threads)
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::ArrayInfo;

    use super::*;
    use crate::model::{ArrayLaw, Key, Variable};
    use crate::profile::Run;

    fn call(shape: &[u64], dtype: &str) -> Run {
        let input = ArrayInfo { shape: shape.to_vec(), dtype: dtype.into(), ..ArrayInfo::default() };
        let bytes = 4 * shape.iter().product::<u64>();
        let (inputs, operator) = ([input].into(), "op".into());
        let span = SpanRow { operator, inputs, working_peak_bytes: bytes, ..SpanRow::default() };
        Run { span, ..Run::default() }
    }

    /// A command may call the operator on other element types first, and on less than its shape.
    #[test]
    fn variables_come_from_the_largest_call_that_the_law_is_of() {
        let variable = |name: &str| Variable { name: name.into(), min: 30, max: 60 };
        let axis = |axis| Size::Exact { form: Form::variable(axis), others: vec![] };
        let (dtype, shape) = ("<f4".into(), vec![axis(0), axis(1)]);
        let input = ArrayLaw { dtype, item_bytes: 4, shape, ..ArrayLaw::default() };
        let law = Law {
            key: Key { operator: "op".into(), dtype: "<f4".into(), ..Key::default() },
            variables: vec![variable("n0"), variable("n1")],
            inputs: vec![input],
            ..Law::default()
        };
        for others in [vec!["<f8"], vec!["<f4"], vec!["<f8", "<f4"]] {
            let shapes = [[61, 64], [77, 81], [97, 106], [113, 90]];
            let profile = |shape: &[u64; 2]| {
                let half = [shape[0] / 2, shape[1]];
                let small = others.iter().map(|dtype| call(&half, dtype));
                Profile::of_runs(small.chain([call(shape, "<f4")]).collect())
            };
            let profiles: Vec<Profile> = shapes.iter().map(profile).collect();
            let runs: Vec<(&[u64], &Profile)> =
                shapes.iter().map(|shape| shape.as_slice()).zip(&profiles).collect();
            let seen = Seen::new(&law, &runs).unwrap();
            assert_eq!(seen.point(&[200, 301]), Some(vec![200, 301]), "{others:?}");
        }
    }
}
