//! What needs no measuring: functions of arrays that only view memory, or copy it.

use super::arguments::{array_of, broadcast};
use super::call::{Named, as_dtype};
use super::dtype::Dtype;
use super::machine::Machine;
use super::value::{Array, Layout, MAX_LISTED, Value, choices};
use super::views::{Arguments, view};

impl Machine<'_> {
    /// The result, if the function is one of these.
    pub(super) fn builtin(&mut self, name: &str, args: &[Value], named: &Named, line: u32) -> Option<Value> {
        if let Some(function) = name.strip_prefix("builtins.") {
            return Some(self.of_language(function, args, named, line));
        }
        if let Some(function) = name.strip_prefix("itertools.") {
            return self.combined(function, args, named);
        }
        let short = name.strip_prefix("numpy.")?;
        let short = short.strip_prefix("lib.stride_tricks.").unwrap_or(short);
        let array = match args.first().or_else(|| named.get("a")) {
            Some(Value::Array(array)) if array.class.is_some() => return None,
            Some(value) => array_of(value),
            None => None,
        };
        if short == "ndindex" && longest_grid(args) > MAX_LISTED {
            self.note("more than 4,096 positions", line);
        }
        if let Some(answer) = described(short, args, array.as_ref()) {
            return Some(answer);
        }
        let array = array?;
        match short {
            "tolist" => return Some(self.objects(&array, line)),
            "tobytes" => return Some(self.bytes(Some(&Value::Array(array)), line)),
            _ => {}
        }
        let arguments = Arguments { args, named };
        match short {
            "reshape" => {
                let shape = reshaped(&array, &arguments.new_shape()?, self.longest)?;
                Some(self.viewed(&array, shape, line))
            }
            "ravel" => Some(self.viewed(&array, vec![array.elements()], line)),
            "flatten" => Some(self.copied(vec![array.elements()], array.dtype.native(), line)),
            "copy" => Some(self.copied(array.shape.clone(), array.dtype, line)),
            "asarray" | "asanyarray" | "ascontiguousarray" | "asfortranarray" | "array" | "astype"
            | "require" => Some(self.converted(short, &array, &arguments, line)),
            _ => view(short, &array, &arguments),
        }
    }

    /// An array of another type or layout: itself where it has them already, unless a copy is
    /// wanted.
    fn converted(&mut self, name: &str, array: &Array, arguments: &Arguments, line: u32) -> Value {
        let dtype = arguments.get("dtype", 1).and_then(as_dtype).unwrap_or(array.dtype);
        let keeps = arguments.named.get("copy").and_then(Value::truth);
        let contiguous = name != "ascontiguousarray" || array.layout == Layout::C;
        let contiguous = contiguous && (name != "asfortranarray" || array.layout == Layout::F);
        let makes = matches!(name, "array" | "astype") && keeps != Some(false);
        let is_array = !matches!(arguments.args.first(), Some(Value::Sequence(_)));
        if dtype == array.dtype && contiguous && !makes && is_array {
            return Value::Array(array.clone());
        }
        let mut made = self.copied(array.shape.clone(), dtype, line);
        if let Value::Array(made) = &mut made {
            let kept = if array.layout == Layout::F && name == "astype" { Layout::F } else { Layout::C };
            made.layout = if name == "asfortranarray" { Layout::F } else { kept };
        }
        made
    }

    /// The same elements in another shape: a view if they lie in order.
    fn viewed(&mut self, array: &Array, shape: Vec<u64>, line: u32) -> Value {
        if array.layout == Layout::C || array.shape.len() < 2 && array.layout != Layout::Strided {
            return Value::Array(array.view(shape, array.layout));
        }
        self.copied(shape, array.dtype, line)
    }

    fn copied(&mut self, shape: Vec<u64>, dtype: Dtype, line: u32) -> Value {
        let place = self.place("copy", line);
        Value::Array(self.fresh(shape, dtype, &place))
    }
}

/// What a function says of arrays without making one; `None` if it is none of these.
fn described(name: &str, args: &[Value], array: Option<&Array>) -> Option<Value> {
    match name {
        "shape" => array.map(|array| Value::lengths(&array.shape)),
        "ndim" => array.map(|array| Value::integer(array.shape.len() as u64)),
        "size" => array.map(|array| Value::integer(array.elements())),
        "dtype" | "result_type" | "promote_types" => Some(common_dtype(args)),
        "issubdtype" => Some(Value::Flag(is_kind(args))),
        "iscomplexobj" => array.map(|array| Value::Flag(Some(array.dtype.kind == 'c'))),
        "isrealobj" => array.map(|array| Value::Flag(Some(array.dtype.kind != 'c'))),
        "isscalar" => Some(Value::Flag(Some(array.is_some_and(|array| array.shape.is_empty())))),
        "finfo" | "iinfo" => {
            let dtype = args.first().and_then(as_dtype).or_else(|| array.map(|array| array.dtype));
            let limits =
                Array { class: Some("numpy.finfo".into()), ..Array::number(dtype.unwrap_or(Dtype::DOUBLE)) };
            Some(Value::Array(limits))
        }
        "errstate" | "seterr" | "set_printoptions" | "copyto" | "put" | "place" | "fill_diagonal" => {
            Some(Value::Unknown(Vec::new()))
        }
        "ndindex" => indices(args),
        "broadcast_shapes" => {
            let lengths = |shape: &Value| -> Vec<u64> {
                shape.items().unwrap_or_default().iter().filter_map(Value::length).collect()
            };
            let shapes: Vec<Vec<u64>> = args.iter().map(lengths).collect();
            Some(Value::lengths(&broadcast(shapes.iter().map(Vec::as_slice))))
        }
        "item" => Some(Value::Number { value: None, float: true }),
        _ => None,
    }
}

/// The type that can represent all of these.
fn common_dtype(args: &[Value]) -> Value {
    let known = |value: &Value| as_dtype(value).or_else(|| array_of(value).map(|array| array.dtype));
    let mut types = args.iter().filter_map(known);
    let Some(first) = types.next() else { return Value::Unknown(Vec::new()) };
    Value::Dtype(types.fold(first, |all, next| if all == next { all } else { all.with(next) }))
}

fn longest_grid(args: &[Value]) -> u64 {
    let lengths = if let [one] = args { one.wholes() } else { args.iter().map(Value::whole).collect() };
    lengths.map_or(u64::MAX, |all| all.into_iter().map(|n| n.max(0) as u64).fold(1, u64::saturating_mul))
}

/// All positions in a grid, 4,096 at most along an axis.
fn indices(args: &[Value]) -> Option<Value> {
    let lengths = if let [one] = args { one.wholes() } else { args.iter().map(Value::whole).collect() };
    let rows = choices(lengths?.into_iter().map(|n| n.clamp(0, MAX_LISTED as i64) as usize).collect());
    let row = |row: Vec<usize>| Value::list(row.into_iter().map(|i| Value::integer(i as u64)).collect());
    Some(Value::list(rows.into_iter().map(row).collect()))
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
        .fold(1, u64::saturating_mul);
    let rest = array.elements() / known.max(1);
    let length = |length: &Value| if free(length) { rest } else { length.length().unwrap_or(longest) };
    Some(lengths.iter().map(length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_length_is_what_is_left() {
        let array = Array {
            shape: vec![4, 5, 6],
            dtype: Dtype::DOUBLE,
            layout: Layout::C,
            blocks: vec![],
            class: None,
        };
        let minus = Value::Number { value: Some(-1.0), float: false };
        let flat = reshaped(&array, &[Value::integer(4), minus], 6);
        assert_eq!(flat, Some(vec![4, 30]));
    }
}
