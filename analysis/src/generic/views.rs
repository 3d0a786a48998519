//! Arrays that share the memory of another: other axes, parts, windows.

use super::arguments::{array_of, broadcast, place};
use super::call::{Named, as_dtype};
use super::value::{Array, Layout, MAX_LISTED, Value};

/// Arguments of a call, the array first.
pub(super) struct Arguments<'a> {
    pub(super) args: &'a [Value],
    pub(super) named: &'a Named,
}

impl Arguments<'_> {
    /// By name, else by position.
    pub(super) fn get(&self, name: &str, at: usize) -> Option<&Value> {
        self.named.get(name).or_else(|| self.args.get(at))
    }

    /// The lengths given to `reshape`: one sequence, or as many arguments.
    pub(super) fn new_shape(&self) -> Option<Vec<Value>> {
        match self.args.get(1..) {
            Some([one]) if one.items().is_some() => one.items(),
            Some(several) if !several.is_empty() => Some(several.to_vec()),
            _ => match self.named.get("shape").or_else(|| self.named.get("newshape"))? {
                one if one.items().is_some() => one.items(),
                one => Some(vec![one.clone()]),
            },
        }
    }

    /// The axes given to `transpose`.
    fn order(&self) -> Option<Vec<i64>> {
        match self.args.get(1..) {
            Some([one]) if one.items().is_some() => one.wholes(),
            Some([]) | None => self.named.get("axes").and_then(Value::wholes),
            Some(several) => several.iter().map(Value::whole).collect(),
        }
    }
}

/// What functions give that view an array; `None` if `name` is none of them.
pub(super) fn view(name: &str, array: &Array, arguments: &Arguments) -> Option<Value> {
    let rank = array.shape.len();
    let plain = |shape: Vec<u64>| Some(Value::Array(array.view(shape, array.layout)));
    let strided = |shape: Vec<u64>| Some(Value::Array(array.view(shape, Layout::Strided)));
    let as_is = || Some(Value::Array(array.clone()));
    match name {
        "transpose" | "T" | "permute_dims" => Some(turned(array, arguments.order())),
        "swapaxes" | "moveaxis" | "rollaxis" => {
            Some(moved(array, name, arguments.get("source", 1)?, arguments.get("destination", 2)))
        }
        "rot90" => Some(turned(array, None)),
        "flip" | "fliplr" | "flipud" => strided(array.shape.clone()),
        "squeeze" => plain(array.shape.iter().copied().filter(|&n| n != 1).collect()),
        "expand_dims" => plain(expanded(array, arguments)?),
        "atleast_1d" if rank == 0 => plain(vec![1]),
        "atleast_2d" if rank < 2 => plain(vec![1, array.elements()]),
        "atleast_1d" | "asarray_chkfinite" | "squeeze_" | "atleast_2d" => as_is(),
        "view" => match arguments.args.get(1).and_then(as_dtype) {
            Some(dtype) => {
                let mut shape = array.shape.clone();
                if let Some(last) = shape.last_mut() {
                    *last = *last * array.dtype.size / dtype.size.max(1);
                }
                Some(Value::Array(Array { dtype, ..array.view(shape, array.layout) }))
            }
            None => as_is(),
        },
        "real" | "imag" if array.dtype.kind == 'c' => {
            let dtype = array.dtype.part();
            Some(Value::Array(Array { dtype, ..array.view(array.shape.clone(), Layout::Strided) }))
        }
        "real" => as_is(),
        "diagonal" => {
            let (rest, ends) = array.shape.split_at_checked(rank.checked_sub(2)?)?;
            strided([rest, &[ends[0].min(ends[1])]].concat())
        }
        "broadcast_to" => {
            let lengths = arguments.get("shape", 1)?.wholes()?;
            strided(lengths.into_iter().filter_map(|n| n.try_into().ok()).collect())
        }
        "as_strided" => {
            // Blocks of it, if their lengths are not known.
            let lengths = arguments.get("shape", 1)?.items()?;
            let known: Option<Vec<u64>> = lengths.iter().map(Value::length).collect();
            strided(known.unwrap_or(array.shape.clone()))
        }
        "sliding_window_view" => strided(windows(array, arguments)?),
        "split" | "array_split" | "hsplit" | "vsplit" => split(array, arguments),
        "broadcast_arrays" => {
            let arrays: Vec<Array> = arguments.args.iter().filter_map(array_of).collect();
            let shape = broadcast(arrays.iter().map(|array| array.shape.as_slice()));
            let spread = arrays.iter().map(|array| Value::Array(array.view(shape.clone(), Layout::Strided)));
            Some(Value::list(spread.collect()))
        }
        _ => None,
    }
}

/// Shape with an axis of length 1 wherever `axis` says so.
fn expanded(array: &Array, arguments: &Arguments) -> Option<Vec<u64>> {
    let mut shape = array.shape.clone();
    for axis in arguments.get("axis", 1)?.wholes()? {
        let at = place(axis, shape.len() + 1)?;
        shape.insert(at, 1);
    }
    Some(shape)
}

/// Shape of the windows of an array: where they begin, then their lengths.
fn windows(array: &Array, arguments: &Arguments) -> Option<Vec<u64>> {
    let window = arguments.get("window_shape", 1)?.wholes()?;
    let rank = array.shape.len();
    let axes = match arguments.get("axis", 2).and_then(Value::wholes) {
        Some(axes) => axes.into_iter().filter_map(|axis| place(axis, rank)).collect(),
        None => (0..rank).collect::<Vec<usize>>(),
    };
    let mut shape = array.shape.clone();
    for (axis, &window) in axes.into_iter().zip(&window) {
        let window = u64::try_from(window).ok()?;
        shape[axis] = (shape[axis] + 1).saturating_sub(window);
        shape.push(window);
    }
    Some(shape)
}

/// Equal parts along an axis, 4,096 at most.
fn split(array: &Array, arguments: &Arguments) -> Option<Value> {
    let parts = arguments.get("indices_or_sections", 1)?;
    let count = parts.length().or(parts.items().map(|items| items.len() as u64 + 1))?.clamp(1, MAX_LISTED);
    let axis =
        arguments.get("axis", 2).and_then(Value::whole).and_then(|axis| place(axis, array.shape.len()));
    let mut shape = array.shape.clone();
    let length = shape.get_mut(axis.unwrap_or(0))?;
    *length = length.div_ceil(count);
    Some(Value::list(vec![Value::Array(array.view(shape, Layout::Strided)); count as usize]))
}

/// `array` with its axes in another order, or in the opposite one.
pub(super) fn turned(array: &Array, axes: Option<Vec<i64>>) -> Value {
    let rank = array.shape.len();
    let order: Vec<usize> = match axes {
        Some(axes) => axes.into_iter().filter_map(|axis| place(axis, rank)).collect(),
        None => (0..rank).rev().collect(),
    };
    let shape: Vec<u64> = order.iter().filter_map(|&axis| array.shape.get(axis).copied()).collect();
    let reversed = order.iter().copied().eq((0..rank).rev());
    let layout = match array.layout {
        _ if rank < 2 => array.layout,
        Layout::C if reversed => Layout::F,
        Layout::F if reversed => Layout::C,
        _ => Layout::Strided,
    };
    Value::Array(array.view(shape, layout))
}

/// `swapaxes`, `moveaxis` and `rollaxis`.
pub(super) fn moved(array: &Array, how: &str, from: &Value, to: Option<&Value>) -> Value {
    let rank = array.shape.len();
    let axes = |value: &Value| -> Vec<usize> {
        value.wholes().unwrap_or_default().into_iter().filter_map(|axis| place(axis, rank)).collect()
    };
    let (from, to) = (axes(from), to.map(axes).unwrap_or_else(|| vec![0]));
    let mut order: Vec<usize> = (0..rank).collect();
    if how == "swapaxes" {
        if let ([a], [b]) = (from.as_slice(), to.as_slice()) {
            order.swap(*a, *b);
        }
    } else {
        order.retain(|axis| !from.contains(axis));
        let mut pairs: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
        pairs.sort_unstable();
        for (to, from) in pairs {
            order.insert(to.min(order.len()), from);
        }
    }
    turned(array, Some(order.into_iter().map(|axis| axis as i64).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::dtype::Dtype;
    use super::*;

    fn array() -> Array {
        Array { shape: vec![4, 5, 6], dtype: Dtype::DOUBLE, layout: Layout::C, blocks: vec![], class: None }
    }

    #[test]
    fn axes_move_as_numpys() {
        let shape = |value: Value| value.arrays()[0].shape.clone();
        assert_eq!(shape(turned(&array(), None)), [6, 5, 4]);
        assert_eq!(
            shape(moved(&array(), "moveaxis", &Value::integer(2), Some(&Value::integer(0)))),
            [6, 4, 5]
        );
        assert_eq!(
            shape(moved(&array(), "swapaxes", &Value::integer(0), Some(&Value::integer(2)))),
            [6, 5, 4]
        );
    }
}
