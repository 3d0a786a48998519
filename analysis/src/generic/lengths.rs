//! Lengths of results where a rule takes more than a line.

use std::collections::BTreeMap;

use super::arguments::{Bound, Shapes, broadcast, place, reduced};
use super::value::{Array, Value, product};

pub(super) fn spectrum(bound: &Bound, mut shape: Vec<u64>) -> Option<Vec<u64>> {
    let rank = shape.len();
    let lengths = match bound.get(&["s", "n"]) {
        Some(given) => bound.lengths(given),
        None => return Some(shape),
    };
    let last = || (rank.saturating_sub(lengths.len())..rank).collect();
    let axes: Vec<usize> = bound.axes(rank).unwrap_or_else(last);
    for (axis, length) in axes.into_iter().zip(lengths) {
        *shape.get_mut(axis)? = length;
    }
    Some(shape)
}

pub(super) fn concatenated(bound: &Bound, arrays: &[Array]) -> Option<Vec<u64>> {
    let mut shape = arrays.first()?.shape.clone();
    let axis = bound.axis_or(0, shape.len());
    *shape.get_mut(axis)? = arrays.iter().filter_map(|array| array.shape.get(axis)).sum();
    Some(shape)
}

pub(super) fn stacked(bound: &Bound, arrays: &[Array]) -> Option<Vec<u64>> {
    let mut shape = arrays.first()?.shape.clone();
    let axis = bound.axis_or(0, shape.len() + 1);
    shape.insert(axis, arrays.len() as u64);
    Some(shape)
}

pub(super) fn matrix_product(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    match (a, b) {
        ([_], [_]) => Some(Vec::new()),
        ([stack @ .., n, _], [_]) => Some([stack, &[*n]].concat()),
        ([_], [stack @ .., _, m]) => Some([stack, &[*m]].concat()),
        ([first @ .., n, _], [second @ .., _, m]) => {
            Some([broadcast([first, second].into_iter()), vec![*n, *m]].concat())
        }
        _ => None,
    }
}

pub(super) fn tensordot(bound: &Bound, a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let axes = bound.get(&["axes"]);
    let pair = axes.and_then(Value::items);
    let (left, right): (Vec<i64>, Vec<i64>) = match &pair {
        Some(pair) => (pair.first()?.wholes()?, pair.get(1)?.wholes()?),
        None => {
            let count = axes.and_then(Value::whole).unwrap_or(2);
            ((0..count).map(|i| a.len() as i64 - count + i).collect(), (0..count).collect())
        }
    };
    let kept = |shape: &[u64], gone: &[i64]| -> Vec<u64> {
        let gone: Vec<usize> = gone.iter().filter_map(|&axis| place(axis, shape.len())).collect();
        shape.iter().enumerate().filter(|(axis, _)| !gone.contains(axis)).map(|(_, &n)| n).collect()
    };
    Some([kept(a, &left), kept(b, &right)].concat())
}

pub(super) fn einsum(bound: &Bound, arrays: &[Array]) -> Option<Vec<u64>> {
    let Some(Value::Text(text)) = bound.get(&["subscripts"]) else { return None };
    let text: String = text.chars().filter(|letter| *letter != ' ').collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, output.to_owned()),
        None => {
            let single = |letter: &char| text.matches(*letter).count() == 1 && letter.is_alphabetic();
            let mut letters: Vec<char> = text.chars().filter(single).collect();
            letters.sort_unstable();
            (text.as_str(), letters.into_iter().collect())
        }
    };
    let mut lengths: BTreeMap<char, u64> = BTreeMap::new();
    let mut rest: Vec<u64> = Vec::new();
    for (subscripts, array) in inputs.split(',').zip(arrays) {
        let named = subscripts.chars().filter(|letter| letter.is_alphabetic()).count();
        let more = array.shape.len().saturating_sub(named);
        let mut axes = array.shape.iter();
        let mut letters = subscripts.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter == '.' {
                letters.nth(1); // the other two dots
                let these: Vec<u64> = axes.by_ref().take(more).copied().collect();
                rest = broadcast([rest.as_slice(), these.as_slice()].into_iter());
            } else if let Some(&length) = axes.next() {
                lengths.entry(letter).and_modify(|known| *known = (*known).max(length)).or_insert(length);
            }
        }
    }
    let head = if output.contains('.') { rest } else { Vec::new() };
    let named = output.chars().filter(|letter| letter.is_alphabetic());
    Some([head, named.map(|letter| lengths.get(&letter).copied()).collect::<Option<_>>()?].concat())
}

pub(super) fn padded(bound: &Bound, mut shape: Vec<u64>) -> Option<Vec<u64>> {
    let width = bound.get(&["pad_width", "padding"])?;
    let sides = |value: &Value| match value.items() {
        Some(items) => {
            let sides = bound.lengths(&Value::list(items));
            if sides.len() == 1 { 2 * sides[0] } else { sides.iter().sum() }
        }
        None => 2 * value.length().unwrap_or(0),
    };
    let each = width.items();
    for (axis, length) in shape.iter_mut().enumerate() {
        *length += match &each {
            Some(items) if items.iter().any(|item| item.items().is_some()) => {
                sides(items.get(axis).or(items.first())?)
            }
            _ => sides(width),
        };
    }
    Some(shape)
}

pub(super) fn repeated(bound: &Bound, mut shape: Vec<u64>) -> Option<Vec<u64>> {
    let times = bound.get(&["repeats", "reps"])?;
    let counts = bound.lengths(times);
    if bound.get(&["reps"]).is_some() {
        let missing = counts.len().saturating_sub(shape.len());
        shape.splice(0..0, std::iter::repeat_n(1, missing));
        let start = shape.len() - counts.len();
        shape[start..]
            .iter_mut()
            .zip(counts)
            .for_each(|(length, times)| *length = length.saturating_mul(times));
        return Some(shape);
    }
    let by = counts.first().copied().unwrap_or(1);
    match bound.axes(shape.len()) {
        Some(axes) => {
            let length = shape.get_mut(*axes.first()?)?;
            *length = length.saturating_mul(by);
        }
        None => shape = vec![product(&shape).saturating_mul(by)],
    }
    Some(shape)
}

pub(super) fn arange(bound: &Bound) -> Option<u64> {
    let number = |name: &str| bound.get(&[name]).map(|value| value.number());
    let (start, stop) = match (number("start_or_stop"), number("stop")) {
        (Some(stop), None) => (0.0, stop?),
        (Some(start), Some(stop)) => (start?, stop?),
        _ => return None,
    };
    let step = number("step").unwrap_or(Some(1.0))?;
    Some(((stop - start) / step).ceil().max(0.0) as u64)
}

pub(super) fn convolved(bound: &Bound, a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let mode = match bound.get(&["mode"]) {
        Some(Value::Text(mode)) => mode.to_string(),
        _ => "full".to_owned(),
    };
    let axes = bound.axes(a.len()).unwrap_or_else(|| (0..a.len()).collect());
    let length = |(axis, (&n, &m)): (usize, (&u64, &u64))| match mode.as_str() {
        _ if !axes.contains(&axis) => n.max(m),
        "same" => n,
        "valid" => n.max(m) - n.min(m) + 1,
        _ => (n + m).saturating_sub(1),
    };
    Some(a.iter().zip(b).enumerate().map(length).collect())
}

pub(super) fn svd(bound: &Bound, whole: &[u64]) -> Option<Shapes> {
    let (stack, ends) = whole.split_at_checked(whole.len().checked_sub(2)?)?;
    let (rows, columns) = (ends[0], ends[1]);
    let least = rows.min(columns);
    let with = |ends: &[u64]| [stack, ends].concat();
    if bound.get(&["compute_uv"]).and_then(Value::truth) == Some(false) {
        return Some(Shapes::One(with(&[least])));
    }
    let full = bound.get(&["full_matrices"]).and_then(Value::truth) != Some(false);
    let inner = |side| if full { side } else { least };
    Some(Shapes::Several(vec![with(&[rows, inner(rows)]), with(&[least]), with(&[inner(columns), columns])]))
}

pub(super) fn stft(bound: &Bound, mut shape: Vec<u64>) -> Option<Shapes> {
    let axis = bound.axis_or(-1, shape.len());
    let samples = *shape.get(axis)?;
    let window = bound.length(&["nperseg"]).unwrap_or(256).clamp(1, samples.max(1));
    let overlap = bound.length(&["noverlap"]).unwrap_or(window / 2).min(window - 1);
    let frequencies = bound.length(&["nfft"]).unwrap_or(window) / 2 + 1;
    let windows = (samples + window).div_ceil(window - overlap) + 1;
    shape.remove(axis);
    shape.extend([frequencies, windows]);
    Some(Shapes::Several(vec![vec![frequencies], vec![windows], shape]))
}

pub(super) fn unique(bound: &Bound, shape: &[u64]) -> Option<Shapes> {
    let more = ["return_index", "return_inverse", "return_counts"];
    let wanted = |name: &&&str| bound.get(&[**name]).and_then(Value::truth) == Some(true);
    let more = more.iter().filter(wanted).count();
    let flat = vec![product(shape)];
    Some(if more == 0 { Shapes::One(flat) } else { Shapes::Several(vec![flat; more + 1]) })
}

pub(super) fn eigen(whole: Vec<u64>) -> Option<Shapes> {
    let values = whole.get(..whole.len().checked_sub(1)?)?.to_vec();
    Some(Shapes::Several(vec![values, whole]))
}

pub(super) fn qr(whole: &[u64]) -> Option<Shapes> {
    let (stack, ends) = whole.split_at_checked(whole.len().checked_sub(2)?)?;
    let least = ends[0].min(ends[1]);
    Some(Shapes::Several(vec![[stack, &[ends[0], least]].concat(), [stack, &[least, ends[1]]].concat()]))
}

pub(super) fn gradient(bound: &Bound, shape: Vec<u64>) -> Option<Shapes> {
    let count = bound.axes(shape.len()).map_or(shape.len(), |axes| axes.len());
    Some(if count == 1 { Shapes::One(shape) } else { Shapes::Several(vec![shape; count]) })
}

pub(super) fn histogram(bound: &Bound) -> Shapes {
    let edges = bound.get(&["bins"]).and_then(|bins| bins.arrays().first().map(Array::elements));
    let bins = bound.length(&["bins"]).or(edges).unwrap_or(10);
    Shapes::Several(vec![vec![bins], vec![bins + 1]])
}

pub(super) fn quantile(bound: &Bound, shape: &[u64]) -> Vec<u64> {
    let wanted = match bound.get(&["q"]) {
        Some(Value::Array(q)) => q.shape.clone(),
        Some(q) => q.items().map(|items| vec![items.len() as u64]).unwrap_or_default(),
        None => Vec::new(),
    };
    [wanted, reduced(bound, shape)].concat()
}

pub(super) fn zoomed(bound: &Bound, shape: &[u64]) -> Vec<u64> {
    let zoom = bound.get(&["zoom"]);
    let each = zoom.and_then(Value::items);
    let times = |axis: usize| match &each {
        Some(items) => items.get(axis).and_then(Value::number),
        None => zoom.and_then(Value::number),
    };
    let longer = |(axis, &n): (usize, &u64)| (n as f64 * times(axis).unwrap_or(1.0)).round() as u64;
    shape.iter().enumerate().map(longer).collect()
}

pub(super) fn coordinates(bound: &Bound) -> Option<Vec<u64>> {
    let spread = bound.get(&["coordinates"]).map(Value::arrays).unwrap_or_default();
    match spread.as_slice() {
        [one] => Some(one.shape.get(1..)?.to_vec()),
        several => Some(broadcast(several.iter().map(|array| array.shape.as_slice()))),
    }
}

pub(super) fn meshgrid(bound: &Bound, arrays: &[Array]) -> Shapes {
    let mut grid: Vec<u64> = arrays.iter().map(Array::elements).collect();
    let plain = matches!(bound.get(&["indexing"]), Some(Value::Text(text)) if &**text == "ij");
    if grid.len() > 1 && !plain {
        grid.swap(0, 1);
    }
    Shapes::Several(vec![grid; arrays.len()])
}

/// How many elements `take` picks.
pub(super) fn taken(bound: &Bound) -> Option<u64> {
    let indices = bound.get(&["indices"])?;
    let count = match indices {
        Value::Range { count, .. } => Some(*count),
        _ => indices.arrays().first().map(Array::elements),
    };
    Some(count.or(indices.items().map(|items| items.len() as u64)).unwrap_or(1))
}

pub(super) fn covariance(bound: &Bound, shape: &[u64]) -> Option<Vec<u64>> {
    let rows = shape.first().copied()?;
    let columns = shape.get(1).copied().unwrap_or(1);
    let flipped = bound.get(&["rowvar"]).and_then(Value::truth) == Some(false);
    let side = if flipped { columns } else { rows };
    Some(vec![side, side])
}
