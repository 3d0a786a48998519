//! Operators and indices on arrays.

use std::collections::BTreeMap;

use super::arguments::{array_of, broadcast};
use super::dtype::Dtype;
use super::index;
use super::loops::MANY_SMALL;
use super::machine::Machine;
use super::value::{Array, Layout, MAX_LISTED, Place, Value};

/// NumPy reuses a temporary operand for the result from this size on, if the other is an array too
/// (measured: 2.4 does not with a number).
const ELISION_BYTES: u64 = 256 * 1024;
/// Elements that a ufunc converts at a time.
const BUFFER_ELEMENTS: u64 = 8192;

impl Machine<'_> {
    /// An array that has just been made.
    pub(super) fn fresh(&self, shape: Vec<u64>, dtype: Dtype, place: &Place) -> Array {
        let mut array = Array { shape, dtype, layout: Layout::C, blocks: Vec::new(), class: None };
        let bytes = array.bytes();
        if bytes > 0 {
            array.blocks.push(self.meter.hold(bytes, place));
        }
        array
    }

    /// Ufuncs convert operands of another type in pieces.
    pub(super) fn convert(&self, operands: &[(Dtype, Dtype)], elements: u64, place: &Place) {
        let piece = |(from, to): &(Dtype, Dtype)| if from == to { 0 } else { from.size + to.size };
        let per_element: u64 = operands.iter().map(piece).sum();
        self.meter.touch(per_element * elements.min(BUFFER_ELEMENTS), place);
    }

    /// An operator between values.
    pub(super) fn operate(&mut self, operator: &str, mut values: Vec<Value>, line: u32) -> Value {
        if values.iter().any(|value| matches!(value, Value::Array(_))) {
            if operator == "@" {
                return self.library_call("numpy.matmul", values, BTreeMap::new(), line);
            }
            if matches!(operator, "is" | "is not" | "in" | "not in" | "not") {
                return Value::Flag(match (operator, values.as_slice()) {
                    ("is", [_, Value::Nothing]) => Some(false),
                    ("is not", [_, Value::Nothing]) => Some(true),
                    _ => None,
                });
            }
            self.note_operands(operator, &values, line);
            return self.elementwise(operator, &mut values, line);
        }
        let long = |value: &Value| match value {
            Value::Sequence(items) => items.borrow().len() as u64,
            other => other.length().unwrap_or(MAX_LISTED + 1),
        };
        if operator == "*" && values.iter().any(|value| matches!(value, Value::Sequence(_))) {
            let count = values.iter().map(long).fold(1, u64::saturating_mul);
            if count > MAX_LISTED {
                self.note(MANY_SMALL, line);
            }
        }
        self.note_operands(operator, &values, line);
        super::scalar::operate(operator, &values)
    }

    /// Names operands of which nothing is known but the memory that they keep.
    fn note_operands(&mut self, operator: &str, values: &[Value], line: u32) {
        let tested =
            matches!(operator, "is" | "is not" | "in" | "not in" | "not" | "==" | "!=" | "and" | "or");
        let open = |value: &Value| match value {
            Value::Unknown(blocks) => !blocks.is_empty(),
            Value::Method(..) => true,
            _ => false,
        };
        if !tested && values.iter().any(open) {
            self.note(&format!("what {operator} is applied to"), line);
        }
    }

    fn elementwise(&mut self, operator: &str, values: &mut [Value], line: u32) -> Value {
        let arrays: Vec<Option<Array>> = values
            .iter()
            .map(|value| match value {
                Value::Number { .. } | Value::Flag(_) => None, // a number of the language takes the array's type
                other => array_of(other),
            })
            .collect();
        let Some(first) = arrays.iter().flatten().next() else { return Value::Unknown(Vec::new()) };
        let mut dtype = first.dtype.native();
        for array in arrays.iter().flatten() {
            dtype = if array.dtype == dtype { dtype } else { dtype.with(array.dtype) };
        }
        for value in values.iter() {
            if let Value::Number { float, .. } = value {
                dtype = dtype.with_number(*float);
            }
        }
        let inner = dtype;
        dtype = match operator {
            "<" | "<=" | ">" | ">=" | "==" | "!=" => Dtype::FLAG,
            "/" => dtype.divided(),
            _ => dtype,
        };
        let shape = broadcast(arrays.iter().flatten().map(|array| array.shape.as_slice()));
        let class = arrays.iter().flatten().find_map(|array| array.class.clone());
        let layout = match arrays.iter().flatten().all(|array| array.layout == Layout::F) {
            true => Layout::F,
            false => Layout::C,
        };
        let place = self.place(operator, line);
        let bytes = super::value::product(&shape).saturating_mul(dtype.size);
        // Its operands are kept alive by `values` only, unless other values share them: `arrays`
        // are copies.
        let conversions: Vec<(Dtype, Dtype)> =
            arrays.iter().flatten().map(|array| (array.dtype, inner)).collect();
        let fits = |array: &Array| array.shape == shape && array.dtype == dtype;
        let candidates: Vec<bool> = arrays.iter().map(|array| array.as_ref().is_some_and(fits)).collect();
        drop(arrays);
        self.convert(&conversions, super::value::product(&shape), &place);
        let plain = candidates.len() == values.len()
            && !values.iter().any(|value| matches!(value, Value::Number { .. }));
        if bytes >= ELISION_BYTES && class.is_none() && plain {
            // The right one only where the order makes no difference.
            let taken = if matches!(operator, "+" | "*" | "&" | "|" | "^") { 2 } else { 1 };
            for (value, fits) in values.iter_mut().zip(candidates).take(taken) {
                let Value::Array(array) = value else { continue };
                if fits && array.is_temporary() && array.layout != Layout::Strided {
                    return std::mem::replace(value, Value::Nothing);
                }
            }
        }
        Value::Array(Array { class, layout, ..self.fresh(shape, dtype, &place) })
    }

    /// `of[index]`
    pub(super) fn part(&mut self, of: Value, index: &[Value], line: u32) -> Value {
        match (&of, index) {
            (Value::Array(array), _) if array.class.is_none() => {
                let spread: Vec<Value>;
                let index = match index {
                    // A list of indices, or a tuple made elsewhere.
                    [Value::Sequence(items)]
                        if !items.borrow().iter().all(|item| item.number().is_some()) =>
                    {
                        spread = items.borrow().clone();
                        &spread
                    }
                    _ => index,
                };
                let part = index::part(array, index);
                if part.copies {
                    let place = self.place("[]", line);
                    let positions: u64 =
                        index.iter().flat_map(Value::arrays).map(|mask| mask.elements()).sum();
                    let masked = index.iter().flat_map(Value::arrays).any(|mask| mask.dtype == Dtype::FLAG);
                    let copy = self.fresh(part.shape, array.dtype, &place);
                    if masked && index.len() > 1 {
                        self.meter.touch(8 * positions, &place);
                    }
                    Value::Array(copy)
                } else {
                    Value::Array(array.view(part.shape, part.layout))
                }
            }
            (Value::Array(array), _) => {
                let place = self.place("[]", line);
                let mut part = self.fresh(array.shape.clone(), array.dtype, &place);
                part.class.clone_from(&array.class);
                part.blocks.extend(array.blocks.iter().cloned());
                Value::Array(part)
            }
            (Value::Sequence(_) | Value::Range { .. }, [at]) => {
                if matches!(at, Value::Number { value: None, .. } | Value::Unknown(_) | Value::Array(_))
                    && !of.arrays().is_empty()
                {
                    self.note("which item of a list", line);
                }
                of_sequence(&of, at)
            }
            (Value::Mapping(items), [key]) => {
                let found = items.borrow().iter().find(|(known, _)| known.same(key) == Some(true)).cloned();
                if found.is_none() {
                    self.note("which value of a mapping", line);
                }
                found.map_or_else(|| Value::Unknown(of.blocks()), |(_, value)| value)
            }
            (Value::Unknown(blocks), _) if blocks.is_empty() => of,
            _ => {
                self.note("what is indexed", line);
                Value::Unknown(of.blocks())
            }
        }
    }
}

fn of_sequence(of: &Value, at: &Value) -> Value {
    let unknown = || Value::Unknown(of.blocks());
    let Some(items) = of.items() else { return unknown() };
    match at {
        Value::Slice(parts) => {
            let count = items.len() as f64;
            let edge = |edge: f64| if edge < 0.0 { (edge + count).max(0.0) } else { edge.min(count) };
            let step = parts[2].unwrap_or(1.0);
            if step == -1.0 {
                return Value::list(items.into_iter().rev().collect());
            }
            let (start, stop) = (parts[0].map_or(0.0, edge), parts[1].map_or(count, edge));
            if start.is_nan() || stop.is_nan() || step < 1.0 {
                return Value::list(items);
            }
            let taken = (stop - start).max(0.0) as usize;
            Value::list(items.into_iter().skip(start as usize).take(taken).step_by(step as usize).collect())
        }
        other => match other.whole() {
            Some(at) => super::arguments::place(at, items.len()).map_or_else(unknown, |at| items[at].clone()),
            None => match items.first() {
                // Any of them: the first stands for all.
                Some(first) if other.number().is_none() => first.clone(),
                _ => unknown(),
            },
        },
    }
}
