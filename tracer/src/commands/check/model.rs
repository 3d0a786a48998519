//! Budgets of a model: what its laws say of a shape, and how they grow.

use std::path::Path;

use anyhow::Result;
use memtrace_analysis::shape::joined;
use memtrace_analysis::{Law, Model, predict};

use super::budget::{Budget, Budgets};
use super::outcome::{Checked, Figure, Subject};

/// Compares the laws of a model with the budgets of their operators.
pub fn check(model: &Model, file: &Path, budgets: &Budgets) -> Result<Checked> {
    let mut checked = Checked::new(file.display().to_string());
    for (number, budget) in budgets.numbered().filter(|(_, budget)| budget.operator.is_some()) {
        let laws: Vec<&Law> = model.laws.iter().filter(|law| is_named(budget, law)).collect();
        for law in &laws {
            compare(&mut checked, number, budget, law)?;
        }
        // One of a command may be of another program's operator.
        if laws.is_empty() && budget.command.is_none() {
            checked.lacks((number, budget), "model", model.laws.iter().map(|law| law.key.operator.as_str()));
        }
    }
    Ok(checked)
}

fn is_named(budget: &Budget, law: &Law) -> bool {
    let lengths = budget.shape.as_ref().is_none_or(|shape| shape.len() == law.variables.len());
    budget.is_of(&law.key.operator) && lengths
}

/// At the shape that the budget names, or else at the largest that the law rests on.
fn compare(checked: &mut Checked, number: usize, budget: &Budget, law: &Law) -> Result<()> {
    let volume = |shape: &[u64]| shape.iter().map(|length| *length as f64).product::<f64>();
    let largest = law.shapes().max_by(|a, b| volume(a).total_cmp(&volume(b))).map(<[u64]>::to_vec);
    let Some(shape) = budget.shape.clone().or(largest) else { return Ok(()) };
    let prediction = predict(law, &shape)?;
    let what = format!("{} at {}", law.key, joined(&shape));
    let of = Subject::new(number, what).at(prediction.model.set_at.clone());
    checked.compare(Figure::Peak, budget.peak, Some(prediction.upper_bytes), &of);
    checked.compare(Figure::Resident, budget.resident, prediction.resident_upper_bytes, &of);
    checked.compare(Figure::OneTime, budget.one_time, Some(prediction.one_time_bytes), &of);
    let on_devices = prediction.device.as_ref().map_or(0, |device| device.upper_bytes);
    checked.compare(Figure::Device, budget.device, Some(on_devices), &of);
    if let Some(limit) = budget.bytes_per_element {
        let grown = predict(law, &doubled(&shape))?.peak_bytes as f64 - prediction.peak_bytes as f64;
        checked.add(Figure::BytesPerElement, "bytes per element", limit, grown / volume(&shape), &of);
    }
    Ok(())
}

/// Twice as many elements: the first axis is twice as long.
fn doubled(shape: &[u64]) -> Vec<u64> {
    let mut doubled = shape.to_vec();
    if let Some(first) = doubled.first_mut() {
        *first = first.saturating_mul(2);
    }
    doubled
}
