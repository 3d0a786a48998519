//! What needs no measuring: functions of arrays that only look at memory, or copy it.

use super::call::{Named, as_dtype};
use super::dtype::Dtype;
use super::language::choices;
use super::machine::Machine;
use super::shape::{array_of, broadcast, place};
use super::value::{Array, Layout, Value};

impl Machine<'_> {
    /// The result, if the function is one of these.
    pub(super) fn builtin(&mut self, name: &str, args: &[Value], named: &Named, line: u32) -> Option<Value> {
        if let Some(function) = name.strip_prefix("builtins.") {
            return Some(self.of_language(function, args, named));
        }
        if let Some(function) = name.strip_prefix("itertools.") {
            return self.combined(function, args, named);
        }
        let short = name.strip_prefix("numpy.")?;
        let short = short.strip_prefix("lib.stride_tricks.").unwrap_or(short);
        let get = |name: &str, at: usize| named.get(name).or_else(|| args.get(at));
        let array = match args.first().or_else(|| named.get("a")) {
            Some(Value::Array(array)) if array.class.is_some() => return None,
            Some(value) => array_of(value),
            None => None,
        };
        match short {
            "shape" => return array.map(|array| Value::lengths(&array.shape)),
            "ndim" => return array.map(|array| Value::integer(array.shape.len() as u64)),
            "size" => return array.map(|array| Value::integer(array.elements())),
            "dtype" | "result_type" | "promote_types" => {
                let known =
                    |value: &Value| as_dtype(value).or_else(|| array_of(value).map(|array| array.dtype));
                let mut types = args.iter().filter_map(known);
                let first = types.next();
                return Some(first.map_or(Value::Unknown(Vec::new()), |first| {
                    Value::Dtype(
                        types.fold(first, |all, next| if all == next { all } else { all.with(next) }),
                    )
                }));
            }
            "issubdtype" => return Some(Value::Flag(is_kind(args))),
            "iscomplexobj" => return array.map(|array| Value::Flag(Some(array.dtype.kind == 'c'))),
            "isrealobj" => return array.map(|array| Value::Flag(Some(array.dtype.kind != 'c'))),
            "isscalar" => return Some(Value::Flag(Some(array.is_some_and(|array| array.shape.is_empty())))),
            "finfo" | "iinfo" | "errstate" | "seterr" | "set_printoptions" | "copyto" | "put" | "place"
            | "fill_diagonal" => {
                return Some(Value::Unknown(Vec::new()));
            }
            "ndindex" => {
                let lengths =
                    if let [one] = args { one.wholes() } else { args.iter().map(Value::whole).collect() };
                let rows = choices(lengths?.into_iter().map(|n| n.clamp(0, 4096) as usize).collect());
                let row = |row: Vec<usize>| {
                    Value::list(row.into_iter().map(|i| Value::integer(i as u64)).collect())
                };
                return Some(Value::list(rows.into_iter().map(row).collect()));
            }
            "broadcast_shapes" => {
                let shapes: Vec<Vec<u64>> = args
                    .iter()
                    .map(|shape| shape.items().unwrap_or_default().iter().filter_map(Value::length).collect())
                    .collect();
                return Some(Value::lengths(&broadcast(shapes.iter().map(Vec::as_slice))));
            }
            "item" | "tolist" | "tobytes" => return Some(Value::Number { value: None, float: true }),
            _ => {}
        }
        let array = array?;
        let as_is = |array: &Array| Value::Array(array.clone());
        Some(match short {
            "reshape" => {
                let lengths = match args.get(1..) {
                    Some([one]) if one.items().is_some() => one.items()?,
                    Some(several) if !several.is_empty() => several.to_vec(),
                    _ => match named.get("shape").or_else(|| named.get("newshape"))? {
                        one if one.items().is_some() => one.items()?,
                        one => vec![one.clone()],
                    },
                };
                let shape = reshaped(&array, &lengths, self.longest)?;
                self.looked_at(&array, shape, line)
            }
            "ravel" => self.looked_at(&array, vec![array.elements()], line),
            "flatten" => self.copied(&array, vec![array.elements()], array.dtype.native(), line),
            "copy" => self.copied(&array, array.shape.clone(), array.dtype, line),
            "transpose" | "T" | "permute_dims" => {
                let axes = match args.get(1..) {
                    Some([one]) if one.items().is_some() => one.wholes(),
                    Some([]) | None => named.get("axes").and_then(Value::wholes),
                    Some(several) => several.iter().map(Value::whole).collect(),
                };
                turned(&array, axes)
            }
            "swapaxes" | "moveaxis" | "rollaxis" => {
                moved(&array, short, get("source", 1)?, get("destination", 2))
            }
            "squeeze" => Value::Array(
                array.view(array.shape.iter().copied().filter(|&n| n != 1).collect(), array.layout),
            ),
            "expand_dims" => {
                let mut shape = array.shape.clone();
                for axis in get("axis", 1)?.wholes()? {
                    let at = place(axis, shape.len() + 1)?;
                    shape.insert(at, 1);
                }
                Value::Array(array.view(shape, array.layout))
            }
            "atleast_1d" if array.shape.is_empty() => Value::Array(array.view(vec![1], array.layout)),
            "atleast_1d" | "asarray_chkfinite" | "squeeze_" => as_is(&array),
            "atleast_2d" if array.shape.len() < 2 => {
                Value::Array(array.view(vec![1, array.elements()], array.layout))
            }
            "atleast_2d" => as_is(&array),
            "broadcast_to" => {
                let lengths: Vec<u64> =
                    get("shape", 1)?.wholes()?.into_iter().filter_map(|n| n.try_into().ok()).collect();
                Value::Array(array.view(lengths, Layout::Strided))
            }
            "flip" | "fliplr" | "flipud" => Value::Array(array.view(array.shape.clone(), Layout::Strided)),
            "rot90" => turned(&array, None),
            "view" => match args.get(1).and_then(as_dtype) {
                Some(dtype) => {
                    let mut shape = array.shape.clone();
                    if let Some(last) = shape.last_mut() {
                        *last = *last * array.dtype.size / dtype.size.max(1);
                    }
                    Value::Array(Array { dtype, ..array.view(shape, array.layout) })
                }
                None => as_is(&array),
            },
            "real" | "imag" if array.dtype.kind == 'c' => {
                let part = array.dtype.part();
                Value::Array(Array { dtype: part, ..array.view(array.shape.clone(), Layout::Strided) })
            }
            "real" => as_is(&array),
            "diagonal" => {
                let (rest, ends) = array.shape.split_at_checked(array.shape.len().checked_sub(2)?)?;
                let shape = [rest, &[ends[0].min(ends[1])]].concat();
                Value::Array(array.view(shape, Layout::Strided))
            }
            "as_strided" => {
                let lengths = get("shape", 1)?.items()?;
                // Blocks of it, if nobody knows how large.
                let known: Option<Vec<u64>> = lengths.iter().map(Value::length).collect();
                Value::Array(array.view(known.unwrap_or(array.shape.clone()), Layout::Strided))
            }
            "sliding_window_view" => {
                let window = get("window_shape", 1)?.wholes()?;
                let rank = array.shape.len();
                let axes = match get("axis", 2).and_then(Value::wholes) {
                    Some(axes) => axes.into_iter().filter_map(|axis| place(axis, rank)).collect(),
                    None => (0..rank).collect::<Vec<usize>>(),
                };
                let mut shape = array.shape.clone();
                for (axis, &window) in axes.into_iter().zip(&window) {
                    let window = u64::try_from(window).ok()?;
                    shape[axis] = (shape[axis] + 1).saturating_sub(window);
                    shape.push(window);
                }
                Value::Array(array.view(shape, Layout::Strided))
            }
            "split" | "array_split" | "hsplit" | "vsplit" => {
                let parts = get("indices_or_sections", 1)?;
                let count =
                    parts.length().or(parts.items().map(|items| items.len() as u64 + 1))?.clamp(1, 4096);
                let axis =
                    get("axis", 2).and_then(Value::whole).and_then(|axis| place(axis, array.shape.len()));
                let mut shape = array.shape.clone();
                let length = shape.get_mut(axis.unwrap_or(0))?;
                *length = length.div_ceil(count);
                Value::list(vec![Value::Array(array.view(shape, Layout::Strided)); count as usize])
            }
            "broadcast_arrays" => {
                let arrays: Vec<Array> = args.iter().filter_map(array_of).collect();
                let shape = broadcast(arrays.iter().map(|array| array.shape.as_slice()));
                let spread =
                    arrays.iter().map(|array| Value::Array(array.view(shape.clone(), Layout::Strided)));
                Value::list(spread.collect())
            }
            "asarray" | "asanyarray" | "ascontiguousarray" | "asfortranarray" | "array" | "astype"
            | "require" => {
                let dtype = get("dtype", 1).and_then(as_dtype).unwrap_or(array.dtype);
                let keeps = named.get("copy").and_then(Value::truth);
                let contiguous = short != "ascontiguousarray" || array.layout == Layout::C;
                let contiguous = contiguous && (short != "asfortranarray" || array.layout == Layout::F);
                let makes = matches!(short, "array" | "astype") && keeps != Some(false);
                let is_array = !matches!(args.first(), Some(Value::Sequence(_)));
                if dtype == array.dtype && contiguous && !makes && is_array {
                    as_is(&array)
                } else {
                    let mut made = self.copied(&array, array.shape.clone(), dtype, line);
                    if let Value::Array(made) = &mut made {
                        let kept = if array.layout == Layout::F && short == "astype" {
                            Layout::F
                        } else {
                            Layout::C
                        };
                        made.layout = if short == "asfortranarray" { Layout::F } else { kept };
                    }
                    made
                }
            }
            _ => return None,
        })
    }

    /// The same elements in another shape: a view if they lie in order.
    fn looked_at(&mut self, array: &Array, shape: Vec<u64>, line: u32) -> Value {
        if array.layout == Layout::C || array.shape.len() < 2 && array.layout != Layout::Strided {
            return Value::Array(array.view(shape, array.layout));
        }
        self.copied(array, shape, array.dtype, line)
    }

    fn copied(&mut self, _of: &Array, shape: Vec<u64>, dtype: Dtype, line: u32) -> Value {
        let place = self.place("copy", line);
        Value::Array(self.fresh(shape, dtype, &place))
    }
}

fn is_kind(args: &[Value]) -> Option<bool> {
    let dtype = as_dtype(args.first()?)?;
    let kinds = match args.get(1)? {
        Value::Function(name, _) | Value::Text(name) => match name.rsplit('.').next()? {
            "floating" => "f",
            "complexfloating" => "c",
            "inexact" => "fc",
            "integer" => "iu",
            "signedinteger" => "i",
            "unsignedinteger" => "u",
            "number" => "fciu",
            "bool_" | "bool" => "b",
            _ => return None,
        },
        Value::Dtype(other) => return Some(dtype.native() == *other),
        _ => return None,
    };
    Some(kinds.contains(dtype.kind))
}

fn reshaped(array: &Array, lengths: &[Value], longest: u64) -> Option<Vec<u64>> {
    let free = |length: &Value| length.whole() == Some(-1);
    let known: u64 = lengths
        .iter()
        .filter(|length| !free(length))
        .map(|length| length.length().unwrap_or(longest))
        .product();
    let rest = array.elements() / known.max(1);
    let length = |length: &Value| if free(length) { rest } else { length.length().unwrap_or(longest) };
    Some(lengths.iter().map(length).collect())
}

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

fn moved(array: &Array, how: &str, from: &Value, to: Option<&Value>) -> Value {
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
        let minus = Value::Number { value: Some(-1.0), float: false };
        let flat = reshaped(&array(), &[Value::integer(4), minus], 6);
        assert_eq!(flat, Some(vec![4, 30]));
    }
}
