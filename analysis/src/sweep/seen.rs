//! A law seen from the command: its variables as functions of the shape that the command is given.

use std::collections::BTreeSet;

use memtrace_trace::rows::ArrayInfo;

use crate::law::search::Search;
use crate::law::{Form, Size};
use crate::model::{Body, Law};
use crate::profile::Profile;

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
            let spans = profile.runs.iter().map(|run| &run.span);
            let mut of_law = spans.filter(|span| span.operator == law.key.operator);
            if let Some(point) = of_law.find_map(|span| point(law, &span.inputs)) {
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
        let bytes = self.law.bytes(&self.point(shape)?).ok()?;
        let baseline = self.law.baseline.as_ref();
        let held = baseline.map_or(0, |held| held.resident_bytes.unwrap_or(held.heap_bytes));
        Some(bytes.working_upper as f64 + bytes.input as f64 + self.law.once.bytes as f64 + held as f64)
    }

    /// How many values the forms of undetermined sizes would show at this shape, less one each.
    pub(super) fn told_apart(&self, shape: &[u64]) -> u64 {
        let (Body::Symbolic(sequence), Some(point)) = (&self.law.body, self.point(shape)) else { return 0 };
        let told = |size: &Size| match size {
            Size::Exact { form, others } => {
                let values = others.iter().chain([form]).map(|form| form.at(&point));
                values.collect::<BTreeSet<_>>().len() as u64 - 1
            }
            _ => 0,
        };
        sequence.sizes.iter().map(told).sum()
    }
}

/// Where a call with these inputs is on a law: for each variable, the axis that is plainly it.
fn point(law: &Law, inputs: &[ArrayInfo]) -> Option<Vec<u64>> {
    if inputs.len() != law.inputs.len() {
        return None;
    }
    let length = |variable: usize| {
        let plain = Form::variable(variable);
        let is_plain = |size: &Size| matches!(size, Size::Exact { form, .. } if *form == plain);
        law.inputs.iter().zip(inputs).find_map(|(array, input)| {
            let axis = array.shape.iter().position(is_plain)?;
            input.shape.get(axis).copied()
        })
    };
    (0..law.variables.len()).map(length).collect()
}
