//! Laws of figures that were measured elsewhere: a table of shapes and bytes, no trace.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::law::MIN_SHAPES;
use crate::law::heap::MAX_DYNAMIC;
use crate::law::{Form, Size};
use crate::model::{ArrayLaw, Body, Key, Law, Model, Proof, TrainingRun, Variable};
use crate::stats::regression;

/// Fits a law to `bytes` measured at `shapes` of one array whose elements have `item_bytes` bytes
/// and the NumPy dtype `dtype`. The bytes may be working peaks or resident sizes; the law predicts
/// what it was given.
///
/// # Errors
/// Fewer than three shapes, shapes of several ranks or with an empty axis, or another number of bytes.
pub fn fit_table(
    operator: &str,
    dtype: &str,
    item_bytes: u64,
    shapes: &[Vec<u64>],
    bytes: &[u64],
) -> Result<Model, Error> {
    let refuse = |why: &str| Err(Error::Shape(format!("no law can be fitted to this table: {why}")));
    if shapes.len() != bytes.len() {
        return refuse("it must have one number of bytes for each shape");
    }
    let dims = shapes.first().map_or(0, Vec::len);
    if dims == 0 || shapes.iter().any(|shape| shape.len() != dims || shape.contains(&0)) {
        return refuse("its shapes must have the same number of axes, none of them empty");
    }
    if shapes.iter().collect::<BTreeSet<_>>().len() < MIN_SHAPES {
        return refuse("it must have at least three shapes");
    }
    let values: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
    let found = regression::fit_with_kept_blocks(shapes, &values, MAX_DYNAMIC.checked_div(item_bytes));
    let lengths = |axis: usize| shapes.iter().map(move |shape| shape[axis]);
    let variable = |axis: usize| {
        let (min, max) = (lengths(axis).min()?, lengths(axis).max()?);
        Some(Variable { name: format!("n{axis}"), min, max })
    };
    let axis = |axis| Size::Exact { form: Form::variable(axis), others: Vec::new() };
    let run = |(shape, &bytes): (&Vec<u64>, &u64)| TrainingRun {
        shape: shape.clone(),
        working_peak_bytes: bytes,
        seconds: 0.0,
    };
    let mut law = Law {
        key: Key {
            operator: operator.to_owned(),
            dtype: dtype.to_owned(),
            layout: "C".to_owned(),
            ..Key::default()
        },
        variables: (0..dims).filter_map(variable).collect(),
        inputs: vec![ArrayLaw {
            name: String::new(),
            dtype: dtype.to_owned(),
            item_bytes,
            shape: (0..dims).map(axis).collect(),
            ..ArrayLaw::default()
        }],
        proof: Proof::of_runs(found.runs),
        body: Body::Regression(found),
        trained_on: shapes.iter().zip(bytes).map(run).collect(),
        notes: vec!["fitted to figures measured elsewhere".to_owned()],
        ..Law::default()
    };
    law.short = law.shortfall();
    Ok(Model { laws: vec![law], ..Model::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three copies of an array one is kept by the allocator while it is at most 32 MiB.
    #[test]
    fn what_an_allocator_keeps_ends_at_32_mib() {
        let lengths: [u64; 4] = [90, 130, 170, 230];
        let every = |&a: &u64| lengths.map(|b| vec![a, b, 190]);
        let shapes: Vec<Vec<u64>> = lengths.iter().flat_map(every).collect();
        let truth = |shape: &[u64]| {
            let array = 4 * shape.iter().product::<u64>();
            100_000_000 + 3 * array + if array <= 32 << 20 { array } else { 0 }
        };
        let bytes: Vec<u64> = shapes.iter().map(|shape| truth(shape)).collect();
        let model = fit_table("three", "<f4", 4, &shapes, &bytes).unwrap();
        for shape in [vec![100, 100, 190], vec![300, 310, 330]] {
            let error = model.laws[0].bytes(&shape).unwrap().working as f64 / truth(&shape) as f64 - 1.0;
            assert!(error.abs() < 1e-3, "{error} at {shape:?}: {:?}", model.laws[0].body);
        }
        assert_eq!(model.laws[0].proof, Proof::Unverified);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let refused = |shapes: &[Vec<u64>], bytes: &[u64]| {
            fit_table("a", "<f4", 4, shapes, bytes).unwrap_err().to_string()
        };
        assert!(refused(&[vec![1]], &[]).contains("one number"));
        assert!(refused(&[vec![1], vec![2, 3], vec![4]], &[1, 2, 3]).contains("same number of axes"));
        assert!(refused(&[vec![1], vec![2], vec![2]], &[1, 2, 3]).contains("three shapes"));
    }
}
