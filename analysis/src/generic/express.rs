//! Expressions, assignments and operators of the walk.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::arguments::array_of;
use super::dtype::Dtype;
use super::loops::position;
use super::machine::{Frame, Machine};
use super::nested::changed;
use super::source::Expression;
use super::value::{COPY, MAX_LISTED, Value, work};
use crate::error::Error;

impl<'a> Machine<'a> {
    /// What an expression is.
    pub(super) fn value(&mut self, expression: &'a Expression, frame: &mut Frame) -> Result<Value, Error> {
        self.step()?;
        Ok(match expression {
            Expression::Name(name) => {
                let Some(value) = frame.get(name).cloned() else {
                    self.note(&format!("the value of {name}"), 0);
                    return Ok(Value::Unknown(Vec::new()));
                };
                work(value.copying());
                value
            }
            Expression::Value(value) => constant(value),
            Expression::Dtype(text) => Dtype::parse(text).map_or(Value::Unknown(Vec::new()), Value::Dtype),
            Expression::Function(name) => {
                let nested = self.source.functions.get(name).is_some_and(|function| function.nested);
                let seen = nested.then(|| {
                    work(COPY * frame.len() as u64);
                    Rc::new(frame.clone().into())
                });
                Value::Function(name.as_str().into(), seen)
            }
            Expression::Call { function, args, keywords, line } => {
                let function = self.value(function, frame)?;
                let args = self.values(args, frame)?;
                let named = self.keywords(keywords, frame)?;
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
                    let value = self.value(part, frame)?;
                    let is_given = !matches!(value, Value::Nothing);
                    *edge = is_given.then(|| value.number().unwrap_or(f64::NAN));
                }
                Value::Slice(edges)
            }
            Expression::Rest => Value::Rest,
            Expression::Attribute { of, name } => {
                let changes = ["append", "add", "extend", "update", "setdefault", "insert", "appendleft"];
                if matches!(**of, Expression::Mapping(_) | Expression::Sequence(_))
                    && changes.contains(&name.as_str())
                {
                    self.note("what a container of the module keeps", 0);
                }
                let of = self.value(of, frame)?;
                self.attribute(of, name)
            }
            Expression::Sequence(items) => Value::list(self.values(items, frame)?),
            Expression::Mapping(items) => {
                let mut pairs = Vec::new();
                for (key, value) in items {
                    pairs.push((self.value(key, frame)?, self.value(value, frame)?));
                }
                Value::mapping(pairs)
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

    /// Keyword arguments, those of a spread mapping among them.
    fn keywords(
        &mut self,
        keywords: &'a [(String, Expression)],
        frame: &mut Frame,
    ) -> Result<BTreeMap<String, Value>, Error> {
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
        Ok(named)
    }

    fn values(&mut self, expressions: &'a [Expression], frame: &mut Frame) -> Result<Vec<Value>, Error> {
        let mut values = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let value = self.value(expression, frame)?;
            if !matches!(expression, Expression::Spread(_)) {
                values.push(value);
                continue;
            }
            let (count, known) = self.repetitions(&value);
            if !known || count > MAX_LISTED {
                self.note("what is spread", 0);
            }
            work(COPY * count.min(MAX_LISTED));
            values.extend((0..count.min(MAX_LISTED)).map(|i| self.item(&value, i)));
        }
        Ok(values)
    }

    /// `a or b`, `a and b`: the first that decides; any of them where that is not known.
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
            let next = self.item(&over, position(i, walked, count));
            self.assign(target, next, &mut inner)?;
            let mut taken = true;
            for test in when {
                taken &= self.value(test, &mut inner)?.truth() != Some(false);
            }
            if taken {
                items.push(self.value(item, &mut inner)?);
            }
        }
        drop(inner);
        self.fill(&mut items, walked, count, 0);
        Ok(Value::list(items))
    }

    /// Gives a value to a name, an item, an attribute, or a sequence of them.
    pub(super) fn assign(
        &mut self,
        target: &'a Expression,
        value: Value,
        frame: &mut Frame,
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
                        self.assign(inner, Value::list(rest), frame)?;
                    } else {
                        let item = self.item(&value, at as u64);
                        at += 1;
                        self.assign(target, item, frame)?;
                    }
                }
            }
            Expression::Item { of, index, .. } => {
                if matches!(**of, Expression::Mapping(_) | Expression::Sequence(_)) {
                    self.note("what a container of the module keeps", 0);
                }
                let of = self.value(of, frame)?;
                let index = self.values(index, frame)?;
                if matches!((&of, index.as_slice()), (Value::Sequence(_), [Value::Slice(_)])) {
                    self.note("what a part of a list becomes", 0);
                }
                set_item(&of, &index, value);
            }
            Expression::Attribute { of, name } => {
                drop(self.value(of, frame)?);
                // Objects are not walked: nothing says how long they keep it.
                if !value.blocks().is_empty() {
                    self.note(&format!("what attribute {name} keeps"), 0);
                }
            }
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
        let part_of_same = matches!((target, value), (Expression::Item { of: a, .. }, Expression::Item { of: b, .. })
            if matches!((&**a, &**b), (Expression::Name(a), Expression::Name(b)) if a == b));
        let old = self.value(target, frame)?;
        let value = self.value(value, frame)?;
        if let Value::Array(array) = &old
            && !array.shape.is_empty()
        {
            let other = array_of(&value).map_or(array.dtype, |other| other.dtype);
            let place = self.place(operator, line);
            self.convert(&[(array.dtype, array.dtype), (other, array.dtype)], array.elements(), &place);
            if part_of_same {
                // NumPy copies operands that overlap.
                self.meter.touch(array.bytes(), &place);
            }
            // A copy (a mask, say) is changed and then written back.
            return Ok(());
        }
        if let (Value::Sequence(items), "+") = (&old, operator) {
            let more = value.items().unwrap_or_default();
            changed(&old, &more);
            items.borrow_mut().extend(more);
            return Ok(());
        }
        let result = self.operate(operator, vec![old, value], line);
        self.assign(target, result, frame)
    }
}

fn set_item(of: &Value, index: &[Value], value: Value) {
    changed(of, std::slice::from_ref(&value));
    changed(of, index);
    match (of, index) {
        (Value::Sequence(items), [at]) => {
            let count = items.borrow().len();
            if let Some(at) = at.whole().and_then(|at| super::arguments::place(at, count)) {
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
