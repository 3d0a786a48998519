//! Functions of the language, and attributes of values.

use super::call::Named;
use super::loops::MANY_SMALL;
use super::machine::Machine;
use super::small::is_small;
use super::value::{Array, MAX_LISTED, MAX_NESTED, Value, choices, too_much};
use super::views::turned;

impl Machine<'_> {
    pub(super) fn of_language(&mut self, name: &str, args: &[Value], named: &Named, line: u32) -> Value {
        match (name, args) {
            ("range", _) => range(args),
            ("list" | "tuple" | "set" | "sorted" | "iter" | "frozenset", []) => Value::list(Vec::new()),
            ("list" | "tuple" | "set" | "sorted" | "reversed" | "iter" | "frozenset", [one, ..]) => {
                match one.items() {
                    Some(items) if name == "reversed" => Value::list(items.into_iter().rev().collect()),
                    Some(items) => Value::list(items),
                    None => self.listed(one),
                }
            }
            ("enumerate", [one, ..]) => match self.listed(one).items() {
                Some(items) => {
                    let pair = |(i, item): (usize, Value)| Value::list(vec![Value::integer(i as u64), item]);
                    Value::list(items.into_iter().enumerate().map(pair).collect())
                }
                None => Value::Unknown(one.blocks()),
            },
            ("zip", several) => self.zipped(several),
            ("dict", [Value::Mapping(pairs)]) if named.is_empty() => Value::mapping(pairs.borrow().clone()),
            ("dict", []) => {
                let pairs =
                    named.iter().map(|(name, value)| (Value::Text(name.as_str().into()), value.clone()));
                Value::mapping(pairs.collect())
            }
            ("isinstance", [value, kind]) => Value::Flag(is_instance(value, kind, 0)),
            ("callable", [value]) => {
                Value::Flag(Some(matches!(value, Value::Function(..) | Value::Method(..))))
            }
            ("hasattr", [Value::Array(array), Value::Text(_)]) if array.class.is_none() => Value::Flag(None),
            ("getattr", [value, Value::Text(name), ..]) => self.attribute(value.clone(), name),
            ("slice", parts) => slice(parts),
            ("bytes" | "bytearray", _) => self.bytes(args.first(), line),
            ("next", [one, ..]) if one.items().is_some() => self.item(one, 0),
            ("str" | "repr" | "format", _) => self.of_text("", "str", args, line),
            ("memoryview", [one]) => Value::Unknown(one.blocks()),
            ("any" | "all", [one]) => Value::Flag(one.items().and_then(|items| {
                let truths: Vec<Option<bool>> = items.iter().map(Value::truth).collect();
                let deciding = name == "any";
                if truths.contains(&Some(deciding)) {
                    return Some(deciding);
                }
                truths.iter().all(Option::is_some).then_some(!deciding)
            })),
            ("bool", [one]) => Value::Flag(one.truth()),
            ("print", _) => Value::Nothing,
            ("divmod", [a, b]) => Value::list(vec![
                super::scalar::operate("//", &[a.clone(), b.clone()]),
                super::scalar::operate("%", &[a.clone(), b.clone()]),
            ]),
            ("pow" | "divmod" | "sum" | "round", [Value::Array(array), ..]) if array.elements() > 1 => self
                .unknown_call(&format!("builtins.{name}"), Value::Nothing, args.to_vec(), Named::new(), line),
            ("sum", [one, ..]) if !one.arrays().is_empty() => {
                let items = one.items().unwrap_or_default();
                let sum = items.into_iter().reduce(|sum, item| self.operate("+", vec![sum, item], 0));
                sum.unwrap_or(Value::Nothing)
            }
            ("abs", [Value::Array(_)]) => self.library_call("numpy.absolute", args.to_vec(), Named::new(), 0),
            ("max" | "min" | "int" | "float" | "round", [Value::Array(_), ..]) => {
                Value::Number { value: None, float: name != "int" }
            }
            _ => super::scalar::function(name, args).unwrap_or_else(|| {
                let full = format!("builtins.{name}");
                if !is_small(&full) {
                    self.note(&full, line);
                }
                Value::Unknown(args.iter().flat_map(Value::blocks).collect())
            }),
        }
    }

    /// Rows of the items at one place.
    fn zipped(&mut self, several: &[Value]) -> Value {
        let lists: Vec<Vec<Value>> = several.iter().filter_map(|one| self.listed(one).items()).collect();
        if lists.len() < several.len() {
            return Value::Unknown(several.iter().flat_map(Value::blocks).collect());
        }
        let count = lists.iter().map(Vec::len).min().unwrap_or(0);
        let row = |i: usize| Value::list(lists.iter().map(|list| list[i].clone()).collect());
        Value::list((0..count).map(row).collect())
    }

    /// Sequences made of sequences.
    pub(super) fn combined(&mut self, name: &str, args: &[Value], named: &Named) -> Option<Value> {
        let lists: Vec<Vec<Value>> = args.iter().filter_map(|one| self.listed(one).items()).collect();
        let second = args.get(1).or_else(|| named.get("repeat").or_else(|| named.get("r")));
        let times = second.and_then(Value::length).unwrap_or(1).min(8) as usize;
        let rows = lists.iter().map(|list| list.len() as u64).fold(1, u64::saturating_mul);
        if name != "chain" && rows.saturating_pow(times as u32) > MAX_LISTED {
            self.note(MANY_SMALL, 0);
        }
        let rows: Vec<Vec<usize>> = match name {
            "chain" => return Some(Value::list(lists.concat())),
            "product" => {
                let repeat = named.get("repeat").and_then(Value::length).unwrap_or(1).min(8) as usize;
                let lists: Vec<Vec<Value>> =
                    lists.iter().cloned().cycle().take(lists.len() * repeat).collect();
                let rows = choices(lists.iter().map(Vec::len).collect());
                let row = |row: Vec<usize>| {
                    Value::list(row.iter().zip(&lists).map(|(&i, list)| list[i].clone()).collect())
                };
                return Some(Value::list(rows.into_iter().map(row).collect()));
            }
            "combinations" | "combinations_with_replacement" | "permutations" => {
                choices(vec![lists.first()?.len(); times])
            }
            _ => return None,
        };
        let taken = |row: &Vec<usize>| match name {
            "combinations" => row.is_sorted_by(|a, b| a < b),
            "combinations_with_replacement" => row.is_sorted(),
            _ => (1..row.len()).all(|i| !row[..i].contains(&row[i])),
        };
        let first = lists.first()?;
        let row = |row: &Vec<usize>| Value::list(row.iter().map(|&i| first[i].clone()).collect());
        Some(Value::list(rows.iter().filter(|row| taken(row)).map(row).collect()))
    }

    /// As a list, if it is short enough to be gone through.
    pub(super) fn listed(&mut self, value: &Value) -> Value {
        let (count, known) = self.repetitions(value);
        if !known || count > MAX_LISTED {
            self.note(MANY_SMALL, 0);
            return Value::Unknown(value.blocks());
        }
        Value::list((0..count).map(|i| self.item(value, i)).collect())
    }

    /// `of.name`
    pub(super) fn attribute(&mut self, of: Value, name: &str) -> Value {
        match (&of, name) {
            (Value::Array(array), _) if array.class.as_deref() == Some("numpy.finfo") => {
                Value::Array(Array { class: None, ..array.clone() })
            }
            (Value::Array(array), _) => match name {
                "shape" => Value::lengths(&array.shape),
                "ndim" => Value::integer(array.shape.len() as u64),
                "size" => Value::integer(array.elements()),
                "nbytes" => Value::integer(array.bytes()),
                "itemsize" => Value::integer(array.dtype.size),
                "dtype" => Value::Dtype(array.dtype),
                "values" | "data" | "flat" | "base" => Value::Array(Array { class: None, ..array.clone() }),
                "T" | "mT" => turned(array, None),
                "real" | "imag" => self
                    .builtin(&format!("numpy.{name}"), std::slice::from_ref(&of), &Named::new(), 0)
                    .unwrap_or(of),
                _ => Value::Method(Box::new(of), name.into()),
            },
            (Value::Dtype(dtype), "itemsize") => Value::integer(dtype.size),
            (Value::Dtype(dtype), "kind" | "char") => {
                let char = match (name, dtype.kind, dtype.size) {
                    ("kind", kind, _) => kind,
                    (_, 'f', 2) => 'e',
                    (_, 'f', 4) => 'f',
                    (_, 'f', _) => 'd',
                    (_, 'c', 8) => 'F',
                    (_, 'c', _) => 'D',
                    (_, 'b', _) => '?',
                    (_, 'u', 1) => 'B',
                    (_, 'i', 1) => 'b',
                    (_, 'u', 2) => 'H',
                    (_, 'i', 2) => 'h',
                    (_, 'i', 4) => 'i',
                    _ => 'l',
                };
                Value::Text(char.to_string().as_str().into())
            }
            // The scalar type and its name do not say the byte order.
            (Value::Dtype(dtype), "type" | "name") => Value::Dtype(dtype.native()),
            (Value::Dtype(_), "base") => of,
            (Value::Function(function, _), _) => {
                Value::Function(format!("{function}.{name}").as_str().into(), None)
            }
            (Value::Unknown(_), "shape") => of,
            (Value::Method(..), _) if of.attributes() >= MAX_NESTED => Value::Unknown(of.blocks()),
            _ => Value::Method(Box::new(of), name.into()),
        }
    }
}

fn range(args: &[Value]) -> Value {
    let numbers: Option<Vec<f64>> = args.iter().map(Value::number).collect();
    let (start, stop, step) = match numbers.as_deref() {
        Some([stop]) => (0.0, *stop, 1.0),
        Some([start, stop]) => (*start, *stop, 1.0),
        Some([start, stop, step]) => (*start, *stop, *step),
        _ => return Value::Unknown(Vec::new()),
    };
    let count = ((stop - start) / step).ceil().max(0.0);
    Value::Range { start, step, count: if count.is_finite() { count as u64 } else { 0 } }
}

fn slice(parts: &[Value]) -> Value {
    let edge = |at: usize| {
        let given = parts.get(at).filter(|part| !matches!(part, Value::Nothing));
        given.map(|part| part.number().unwrap_or(f64::NAN))
    };
    match parts.len() {
        1 => Value::Slice([None, edge(0), None]),
        _ => Value::Slice([edge(0), edge(1), edge(2)]),
    }
}

fn is_instance(value: &Value, kind: &Value, depth: usize) -> Option<bool> {
    if depth == MAX_NESTED || too_much() {
        return None;
    }
    if let Some(kinds) = kind.items() {
        let each: Vec<Option<bool>> = kinds.iter().map(|kind| is_instance(value, kind, depth + 1)).collect();
        return if each.contains(&Some(true)) {
            Some(true)
        } else {
            each.iter().all(Option::is_some).then_some(false)
        };
    }
    let name = match kind {
        Value::Function(name, _) => name.rsplit('.').next()?.to_owned(),
        _ => return None,
    };
    Some(match (value, name.as_str()) {
        (Value::Unknown(_), _) => return None,
        (Value::Array(array), "ndarray") => array.class.is_none(),
        (Value::Array(array), other) => {
            return array.class.as_deref().map(|class| class.ends_with(other)).or(Some(false));
        }
        (Value::Number { float, .. }, "float" | "Real" | "Number") => *float || name != "float",
        (Value::Number { float, .. }, "int" | "Integral" | "integer") => !*float,
        (Value::Text(_), "str") => true,
        (Value::Flag(_), "bool") => true,
        (Value::Sequence(_), "list" | "tuple" | "Sequence" | "Iterable" | "set") => true,
        (Value::Mapping(_), "dict") => true,
        _ => false,
    })
}
