//! What a law is a function of: the independent dimensions of its array inputs.

use memtrace_trace::rows::ArrayInfo;

use crate::law::search::Search;
use crate::law::{Form, Size};
use crate::model::{ArrayLaw, Variable};
use crate::profile::Run;
use crate::stats::regression;

/// The variables of a set of runs, each run's values, and the inputs as functions of them.
#[derive(Debug, Clone)]
pub struct Variables {
    /// Names and ranges.
    pub variables: Vec<Variable>,
    /// One point per run.
    pub points: Vec<Vec<u64>>,
    /// The array inputs.
    pub inputs: Vec<ArrayLaw>,
}

/// Finds them in runs whose inputs agree in number and rank; `None` where no input has an axis.
///
/// Every axis of the first array with axes is a variable (`n0`, `n1`, …). An axis of a further
/// array is one (`m1_0`: axis 0 of input 1) only if it varies and is no form of those before it:
/// a matrix product has three.
pub fn of(runs: &[&Run]) -> Option<Variables> {
    let arrays = &runs.first()?.span.inputs;
    let lead = arrays.iter().position(|array| !array.shape.is_empty())?;
    let lengths = |input: usize, axis: usize| -> Option<Vec<u64>> {
        runs.iter().map(|run| run.span.inputs.get(input)?.shape.get(axis).copied()).collect()
    };
    let mut names = Vec::new();
    let mut points: Vec<Vec<u64>> = vec![Vec::new(); runs.len()];
    let mut add = |name: String, lengths: &[u64], points: &mut [Vec<u64>]| {
        names.push(name);
        points.iter_mut().zip(lengths).for_each(|(point, &length)| point.push(length));
    };
    for axis in 0..arrays[lead].shape.len() {
        add(format!("n{axis}"), &lengths(lead, axis)?, &mut points);
    }
    for input in (0..arrays.len()).filter(|&input| input != lead) {
        for axis in 0..arrays[input].shape.len() {
            let lengths = lengths(input, axis)?;
            if Search::new(&points).lengths(&lengths).is_empty() {
                add(format!("m{input}_{axis}"), &lengths, &mut points);
            }
        }
    }
    let range = |variable: usize| points.iter().map(move |point| point[variable]);
    let variable = |(index, name): (usize, String)| {
        Some(Variable { name, min: range(index).min()?, max: range(index).max()? })
    };
    let variables = names.into_iter().enumerate().map(variable).collect::<Option<Vec<_>>>()?;
    let inputs = self::arrays(runs, &points, |run| &run.span.inputs)?;
    Some(Variables { variables, points, inputs })
}

/// The arrays that `of` names in every run, their axes as functions of the points; `None` if the
/// runs do not agree in their number or ranks.
pub fn arrays(
    runs: &[&Run],
    points: &[Vec<u64>],
    of: impl Fn(&Run) -> &[ArrayInfo],
) -> Option<Vec<ArrayLaw>> {
    let first = of(runs.first()?);
    let ranks = |run: &Run| of(run).iter().map(|array| array.shape.len()).collect::<Vec<_>>();
    if runs.iter().any(|run| ranks(run) != ranks(runs[0])) {
        return None;
    }
    let search = Search::new(points);
    let axis = |array: usize, axis: usize| {
        let lengths: Vec<u64> = runs.iter().map(|run| of(run)[array].shape[axis]).collect();
        length(&search, points, &lengths, axis)
    };
    let array = |(index, info): (usize, &ArrayInfo)| ArrayLaw {
        name: info.name.clone(),
        dtype: info.dtype.clone(),
        item_bytes: item_bytes(info),
        shape: (0..info.shape.len()).map(|each| axis(index, each)).collect(),
        device: info.device.clone(),
    };
    Some(first.iter().enumerate().map(array).collect())
}

/// The length of an axis: the plain variable of the same axis where that fits, else a rule of the
/// same axis, else the simplest form, else a fit (a data-dependent length).
fn length(search: &Search, points: &[Vec<u64>], lengths: &[u64], axis: usize) -> Size {
    let same = |variable: &usize| {
        points.iter().zip(lengths).all(|(point, length)| point.get(*variable) == Some(length))
    };
    let dims = points.first().map_or(0, Vec::len);
    if let Some(variable) = [axis].into_iter().chain(0..dims).find(same) {
        return Size::Exact { form: Form::variable(variable), others: Vec::new() };
    }
    let of_axis = [axis].into_iter().chain(0..dims).map(|variable| search.of_axis(variable, lengths));
    let mut forms = of_axis
        .into_iter()
        .find(|forms| !forms.is_empty())
        .unwrap_or_else(|| search.lengths(lengths))
        .into_iter();
    match forms.next() {
        Some(form) => Size::Exact { form, others: forms.collect() },
        None => {
            let lengths: Vec<f64> = lengths.iter().map(|&length| length as f64).collect();
            Size::Fitted(regression::fit(points, &lengths))
        }
    }
}

/// Bytes per element: from the array's bytes where they are known, else from its dtype's digits.
fn item_bytes(info: &ArrayInfo) -> u64 {
    let elements = info.shape.iter().fold(1u64, |product, &n| product.saturating_mul(n));
    if elements > 0 && info.bytes >= elements && info.bytes.is_multiple_of(elements) {
        return info.bytes / elements;
    }
    let digits: String =
        info.dtype.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}
