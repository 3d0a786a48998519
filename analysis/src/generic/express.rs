//! Expressions, assignments and operators of the walk.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::dtype::Dtype;
use super::index;
use super::machine::{Frame, Machine};
use super::shape::{array_of, broadcast};
use super::source::Expression;
use super::value::{Array, Layout, Place, Value};
use crate::error::Error;

/// NumPy reuses a temporary operand for the result from this size on.
const ELISION_BYTES: u64 = 256 * 1024;
/// Elements that a ufunc converts at a time.
const BUFFER_ELEMENTS: u64 = 8192;

impl<'a> Machine<'a> {
    /// What an expression is.
    pub(super) fn value(&mut self, expression: &'a Expression, frame: &mut Frame) -> Result<Value, Error> {
        self.step()?;
        Ok(match expression {
            Expression::Name(name) => frame.get(name).cloned().unwrap_or(Value::Unknown(Vec::new())),
            Expression::Value(value) => constant(value),
            Expression::Dtype(text) => Dtype::parse(text).map_or(Value::Unknown(Vec::new()), Value::Dtype),
            Expression::Function(name) => {
                let nested = self.source.functions.get(name).is_some_and(|function| function.nested);
                Value::Function(name.as_str().into(), nested.then(|| Rc::new(frame.clone())))
            }
            Expression::Call { function, args, keywords, line } => {
                let function = self.value(function, frame)?;
                let args = self.values(args, frame)?;
                let mut named = BTreeMap::new();
                for (name, value) in keywords {
                    match self.value(value, frame)? {
                        Value::Mapping(items) if name == "**" => {
                            for (key, value) in items.borrow().iter() {
                                if let Value::Text(key) = key {
                                    named.insert(key.to_string(), value.clone());
                                }
                            }
                        }
                        value => drop(named.insert(name.clone(), value)),
                    }
                }
                if self.raised() {
                    return Ok(Value::Nothing);
                }
                self.call(function, args, named, *line)?
            }
            Expression::Operate { operator, args, line } => {
                if matches!(operator.as_str(), "and" | "or") {
                    return self.either(operator == "or", args, frame);
                }
                let values = self.values(args, frame)?;
                self.operate(operator, values, *line)
            }
            Expression::Item { of, index, line } => {
                let of = self.value(of, frame)?;
                let index = self.values(index, frame)?;
                self.part(of, &index, *line)
            }
            Expression::Slice(parts) => {
                let mut edges = [None; 3];
                for (edge, part) in edges.iter_mut().zip(parts.iter()) {
                    let Some(part) = part else { continue };
                    *edge = match self.value(part, frame)? {
                        Value::Nothing => None,
                        value => Some(value.number().unwrap_or(f64::NAN)),
                    };
                }
                Value::Slice(edges)
            }
            Expression::Rest => Value::Rest,
            Expression::Attribute { of, name } => {
                let of = self.value(of, frame)?;
                self.attribute(of, name)
            }
            Expression::Sequence(items) => Value::list(self.values(items, frame)?),
            Expression::Mapping(items) => {
                let mut pairs = Vec::new();
                for (key, value) in items {
                    pairs.push((self.value(key, frame)?, self.value(value, frame)?));
                }
                Value::Mapping(Rc::new(pairs.into()))
            }
            Expression::Spread(inner) => self.value(inner, frame)?,
            Expression::Each { item, target, over, when } => {
                return self.each(item, target, over, when, frame);
            }
            Expression::Choose { test, then, otherwise, line } => {
                let test = self.value(test, frame)?;
                let arm = if self.decide(&test, *line) { then } else { otherwise };
                self.value(arm, frame)?
            }
            Expression::Unknown(what) => {
                self.note(what, 0);
                Value::Unknown(Vec::new())
            }
        })
    }

    fn values(&mut self, expressions: &'a [Expression], frame: &mut Frame) -> Result<Vec<Value>, Error> {
        let mut values = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let value = self.value(expression, frame)?;
            if !matches!(expression, Expression::Spread(_)) {
                values.push(value);
                continue;
            }
            let (count, _) = self.repetitions(&value);
            values.extend((0..count.min(4096)).map(|i| self.item(&value, i)));
        }
        Ok(values)
    }

    /// `a or b`, `a and b`: the first that decides; any of them where nobody knows.
    fn either(&mut self, or: bool, args: &'a [Expression], frame: &mut Frame) -> Result<Value, Error> {
        let mut open = None;
        for (i, argument) in args.iter().enumerate() {
            let value = self.value(argument, frame)?;
            match value.truth() {
                Some(truth) if truth == or && open.is_none() => return Ok(value),
                Some(truth) if truth == or => return Ok(Value::Flag(Some(or))),
                Some(_) if i + 1 == args.len() && open.is_none() => return Ok(value),
                Some(_) => {}
                None => open = Some(value),
            }
        }
        Ok(open.map_or(Value::Flag(None), |value| match value {
            Value::Array(array) if array.shape.is_empty() => Value::Flag(None),
            other => other,
        }))
    }

    fn each(
        &mut self,
        item: &'a Expression,
        target: &'a Expression,
        over: &'a Expression,
        when: &'a [Expression],
        frame: &mut Frame,
    ) -> Result<Value, Error> {
        let over = self.value(over, frame)?;
        let (count, known) = self.repetitions(&over);
        if !known {
            self.note("number of items", 0);
        }
        let mut inner = frame.clone();
        let mut items = Vec::new();
        let walked = count.min(256);
        for i in 0..walked {
            if self.raised() {
                break;
            }
            let next = self.item(&over, i);
            self.assign(target, next, &mut inner, 0)?;
            let mut taken = true;
            for test in when {
                taken &= self.value(test, &mut inner)?.truth() != Some(false);
            }
            if taken {
                items.push(self.value(item, &mut inner)?);
            }
        }
        drop(inner);
        if let Some(last) = items.last().cloned() {
            for _ in walked..count.min(1 << 16) {
                let copy = self.another(&last, 0);
                items.push(copy);
            }
        }
        Ok(Value::list(items))
    }

    /// Gives a value to a name, an item, an attribute, or a sequence of them.
    pub(super) fn assign(
        &mut self,
        target: &'a Expression,
        value: Value,
        frame: &mut Frame,
        line: u32,
    ) -> Result<(), Error> {
        match target {
            Expression::Name(name) => drop(frame.insert(name.clone(), value)),
            Expression::Sequence(targets) => {
                let (count, known) = self.repetitions(&value);
                let known = known && !matches!(value, Value::Nothing);
                let spread = targets.iter().position(|target| matches!(target, Expression::Spread(_)));
                let count = if known { count as usize } else { targets.len() };
                let extra = (count + 1).saturating_sub(targets.len());
                let mut at = 0;
                for (i, target) in targets.iter().enumerate() {
                    if let (true, Expression::Spread(inner)) = (spread == Some(i), target) {
                        let rest = (at..at + extra).map(|i| self.item(&value, i as u64)).collect();
                        at += extra;
                        self.assign(inner, Value::list(rest), frame, line)?;
                    } else {
                        let item = self.item(&value, at as u64);
                        at += 1;
                        self.assign(target, item, frame, line)?;
                    }
                }
            }
            Expression::Item { of, index, .. } => {
                let of = self.value(of, frame)?;
                let index = self.values(index, frame)?;
                set_item(&of, &index, value);
            }
            Expression::Attribute { of, .. } => drop(self.value(of, frame)?),
            _ => {}
        }
        Ok(())
    }

    /// `target operator= value`
    pub(super) fn update(
        &mut self,
        target: &'a Expression,
        operator: &str,
        value: &'a Expression,
        frame: &mut Frame,
        line: u32,
    ) -> Result<(), Error> {
        let old = self.value(target, frame)?;
        let value = self.value(value, frame)?;
        if let Value::Array(array) = &old
            && !array.shape.is_empty()
        {
            let other = array_of(&value).map_or(array.dtype, |other| other.dtype);
            let place = self.place(operator, line);
            self.convert(&[(array.dtype, array.dtype), (other, array.dtype)], array.elements(), &place);
            // A copy (a mask, say) is changed and then written back.
            return Ok(());
        }
        if let (Value::Sequence(items), "+") = (&old, operator) {
            let more = value.items().unwrap_or_default();
            items.borrow_mut().extend(more);
            return Ok(());
        }
        let result = self.operate(operator, vec![old, value], line);
        self.assign(target, result, frame, line)
    }

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
    fn convert(&self, operands: &[(Dtype, Dtype)], elements: u64, place: &Place) {
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
            return self.elementwise(operator, &mut values, line);
        }
        super::scalar::operate(operator, &values)
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
        // Its operands are held by `values` alone if nobody else has them: `arrays` are copies.
        let conversions: Vec<(Dtype, Dtype)> =
            arrays.iter().flatten().map(|array| (array.dtype, inner)).collect();
        let fits = |array: &Array| array.shape == shape && array.dtype == dtype;
        let candidates: Vec<bool> = arrays.iter().map(|array| array.as_ref().is_some_and(fits)).collect();
        drop(arrays);
        self.convert(&conversions, super::value::product(&shape), &place);
        if bytes >= ELISION_BYTES && class.is_none() {
            for (value, fits) in values.iter_mut().zip(candidates) {
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
            (Value::Array(array), _) => Value::Array(array.clone()),
            (Value::Sequence(_) | Value::Range { .. }, [at]) => of_sequence(&of, at),
            (Value::Mapping(items), [key]) => {
                let found = items.borrow().iter().find(|(known, _)| known.same(key) == Some(true)).cloned();
                found.map_or_else(|| Value::Unknown(of.blocks()), |(_, value)| value)
            }
            _ => Value::Unknown(of.blocks()),
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
            Some(at) => super::shape::place(at, items.len()).map_or_else(unknown, |at| items[at].clone()),
            None => match items.first() {
                // Any of them: the first stands for all.
                Some(first) if other.number().is_none() => first.clone(),
                _ => unknown(),
            },
        },
    }
}

fn set_item(of: &Value, index: &[Value], value: Value) {
    match (of, index) {
        (Value::Sequence(items), [at]) => {
            let count = items.borrow().len();
            if let Some(at) = at.whole().and_then(|at| super::shape::place(at, count)) {
                items.borrow_mut()[at] = value;
            }
        }
        (Value::Mapping(items), [key]) => {
            let mut items = items.borrow_mut();
            match items.iter_mut().find(|(known, _)| known.same(key) == Some(true)) {
                Some((_, known)) => *known = value,
                None => items.push((key.clone(), value)),
            }
        }
        _ => {}
    }
}

pub(super) fn constant(value: &Json) -> Value {
    match value {
        Json::Null => Value::Nothing,
        Json::Bool(flag) => Value::Flag(Some(*flag)),
        Json::Number(number) => Value::Number { value: number.as_f64(), float: number.is_f64() },
        Json::String(text) => Value::Text(text.as_str().into()),
        Json::Array(items) => Value::list(items.iter().map(constant).collect()),
        Json::Object(_) => Value::Unknown(Vec::new()),
    }
}
