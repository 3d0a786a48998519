//! Calls: of the program's own functions, of the language's, of libraries, and of what nobody knows.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::dtype::Dtype;
use super::library::{Cost, Known};
use super::machine::{Frame, Machine};
use super::scalar;
use super::shape::{Bound, Rule, Shapes, array_of};
use super::source::{Function, Takes};
use super::value::{Array, Layout, Value};
use crate::error::Error;

/// Arguments by name.
pub(super) type Named = BTreeMap<String, Value>;

/// Parameters whose lists of numbers are settings and not arrays.
const SETTINGS: [&str; 30] = [
    "axis",
    "axes",
    "shape",
    "s",
    "n",
    "size",
    "sigma",
    "zoom",
    "pad_width",
    "reps",
    "repeats",
    "mode",
    "dims",
    "newshape",
    "order",
    "footprint",
    "structure",
    "q",
    "bins",
    "range",
    "dtype",
    "output",
    "out",
    "num",
    "cval",
    "origin",
    "output_shape",
    "kernel_size",
    "dimensions",
    "nperseg",
];

impl<'a> Machine<'a> {
    /// Calls a value.
    pub(super) fn call(
        &mut self,
        function: Value,
        args: Vec<Value>,
        named: Named,
        line: u32,
    ) -> Result<Value, Error> {
        match function {
            Value::Function(name, seen) => match self.source.functions.get(&*name) {
                Some(described) => {
                    let mut frame = seen.map(|seen| (*seen).clone()).unwrap_or_default();
                    self.bind(described, args, named, &mut frame)?;
                    self.enter(&name, described, frame)
                }
                None => self.outside(&name, args, named, line),
            },
            Value::Method(of, name) => self.method(*of, &name, args, named, line),
            Value::Dtype(dtype) => Ok(match args.first().and_then(array_of) {
                Some(array) if array.shape.is_empty() => Value::Array(Array { dtype, ..array }),
                Some(array) => {
                    let place = self.place("array of a type", line);
                    Value::Array(self.fresh(array.shape, dtype, &place))
                }
                None => Value::Array(Array {
                    shape: Vec::new(),
                    dtype,
                    layout: Layout::C,
                    blocks: Vec::new(),
                    class: None,
                }),
            }),
            Value::Array(array) if array.class.is_some() => Ok(Value::Array(array)),
            other => Ok(self.unknown_call("an unknown function", other, args, named, line)),
        }
    }

    fn bind(
        &mut self,
        function: &'a Function,
        args: Vec<Value>,
        mut named: Named,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let mut args = args.into_iter();
        for parameter in &function.parameters {
            let value = match parameter.takes {
                Takes::Rest => Some(Value::list(args.by_ref().collect())),
                Takes::Names => {
                    let rest = std::mem::take(&mut named);
                    let pairs: Vec<(Value, Value)> = rest
                        .into_iter()
                        .map(|(name, value)| (Value::Text(name.as_str().into()), value))
                        .collect();
                    Some(Value::Mapping(Rc::new(pairs.into())))
                }
                Takes::One => args.next().or_else(|| named.remove(&parameter.name)),
                Takes::Named => named.remove(&parameter.name),
            };
            let value = match (value, &parameter.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.value(default, &mut Frame::new())?,
                (None, None) => Value::Unknown(Vec::new()),
            };
            frame.insert(parameter.name.clone(), value);
        }
        Ok(())
    }

    /// A function of the language or of a library that takes functions: they are called here.
    fn outside(
        &mut self,
        name: &str,
        mut args: Vec<Value>,
        mut named: Named,
        line: u32,
    ) -> Result<Value, Error> {
        match name {
            "builtins.map" if args.len() == 2 => {
                let over = args.pop().unwrap_or(Value::Nothing);
                let function = args.pop().unwrap_or(Value::Nothing);
                let (count, _) = self.repetitions(&over);
                let mut items = Vec::new();
                for i in 0..count.min(256) {
                    items.push(self.call(function.clone(), vec![self.item(&over, i)], Named::new(), line)?);
                }
                Ok(Value::list(items))
            }
            // The rest of its arguments come later.
            "functools.partial" if !args.is_empty() => {
                let function = args.remove(0);
                let known = named.into_iter().map(|(key, value)| (Value::Text(key.as_str().into()), value));
                let known = Value::Mapping(Rc::new(known.collect::<Vec<_>>().into()));
                let held = Value::list(vec![function, Value::list(args), known]);
                Ok(Value::Method(Box::new(held), "partial call".into()))
            }
            _ if matches!(args.first(), Some(Value::Function(called, _)) if self.source.functions.contains_key(&**called)) =>
            {
                // scipy.ndimage.generic_filter(…, function), apply_along_axis(function, …): what it does to a part.
                args.remove(0);
                named.remove("function");
                Ok(self.unknown_call(name, Value::Nothing, args, named, line))
            }
            _ => Ok(self.library_call(name, args, named, line)),
        }
    }

    fn method(
        &mut self,
        of: Value,
        name: &str,
        args: Vec<Value>,
        named: Named,
        line: u32,
    ) -> Result<Value, Error> {
        match &of {
            Value::Array(array) => {
                let full = match &array.class {
                    Some(class) => format!("{class}.{name}"),
                    None => format!("numpy.{name}"),
                };
                let mut all = vec![of];
                all.extend(args);
                Ok(match (name, all.first()) {
                    // In place, and nothing comes out.
                    ("fill" | "sort" | "setflags" | "resize" | "partition", Some(Value::Array(array)))
                        if array.class.is_none() =>
                    {
                        Value::Nothing
                    }
                    _ => self.library_call(&full, all, named, line),
                })
            }
            Value::Sequence(_) if name == "partial call" => {
                let Some(parts) = of.items() else { return Ok(Value::Nothing) };
                let [function, first, more] = parts.as_slice() else { return Ok(Value::Nothing) };
                let args = [first.items().unwrap_or_default(), args].concat();
                let mut all = Named::new();
                if let Value::Mapping(pairs) = more {
                    for (key, value) in pairs.borrow().iter() {
                        if let Value::Text(key) = key {
                            all.insert(key.to_string(), value.clone());
                        }
                    }
                }
                all.extend(named);
                self.call(function.clone(), args, all, line)
            }
            Value::Sequence(items) => Ok(of_list(items, name, args)),
            Value::Mapping(items) => Ok(of_mapping(items, name, args)),
            Value::Text(text) => Ok(match name {
                "lower" => Value::Text(text.to_lowercase().into()),
                "upper" => Value::Text(text.to_uppercase().into()),
                "startswith" | "endswith" => Value::Flag(args.first().and_then(|part| match part {
                    Value::Text(part) if name == "startswith" => Some(text.starts_with(&**part)),
                    Value::Text(part) => Some(text.ends_with(&**part)),
                    _ => None,
                })),
                _ => Value::Unknown(Vec::new()),
            }),
            Value::Dtype(dtype) => Ok(if name == "newbyteorder" {
                Value::Dtype(dtype.native())
            } else {
                Value::Unknown(Vec::new())
            }),
            Value::Number { .. } => {
                Ok(scalar::function(name, std::slice::from_ref(&of)).unwrap_or(Value::Unknown(Vec::new())))
            }
            _ => Ok(self.unknown_call(name, of.clone(), args, named, line)),
        }
    }

    /// Calls a function by its full name.
    pub(super) fn library_call(&mut self, name: &str, args: Vec<Value>, named: Named, line: u32) -> Value {
        if let Some(value) = self.builtin(name, &args, &named, line) {
            return value;
        }
        if args.iter().chain(named.values()).all(|value| value.arrays().is_empty())
            && let Some(value) = scalar::function(name.rsplit('.').next().unwrap_or(name), &args)
        {
            return value;
        }
        let library = self.library;
        match library.functions.get(name) {
            Some(known) => self.known_call(name, known, args, named, line),
            None => self.unknown_call(name, Value::Nothing, args, named, line),
        }
    }

    fn bound(&self, known: &Known, args: Vec<Value>, named: Named) -> Bound {
        let mut all = named;
        let mut order: Vec<String> = Vec::new();
        let mut args = args.into_iter();
        for parameter in &known.parameters {
            if let Some(name) = parameter.strip_prefix('*') {
                let rest: Vec<Value> = args.by_ref().collect();
                all.insert(name.to_owned(), Value::list(rest));
                order.push(name.to_owned());
                break;
            }
            if let Some(value) = args.next() {
                all.insert(parameter.clone(), value);
            }
            order.push(parameter.clone());
        }
        for (i, value) in args.enumerate() {
            all.insert(format!("#{i}"), value);
            order.push(format!("#{i}"));
        }
        let in_order = order.iter().filter(|name| !SETTINGS.contains(&name.as_str()));
        let arrays = in_order.filter_map(|name| all.get(name)).flat_map(|value| {
            let found = value.arrays();
            let numbers = matches!(value, Value::Sequence(_) | Value::Range { .. });
            if found.is_empty() && numbers { array_of(value).into_iter().collect() } else { found }
        });
        Bound { arrays: arrays.collect(), longest: self.longest, named: all }
    }

    fn known_call(&mut self, name: &str, known: &Known, args: Vec<Value>, named: Named, line: u32) -> Value {
        let bound = self.bound(known, args, named);
        let place = self.place(name, line);
        let main = main_array(known.rule, &bound);
        let asked = match (bound.get(&["dtype"]), bound.get(&["output"])) {
            (Some(value), _) | (None, Some(value)) => as_dtype(value),
            _ => None,
        };
        let target = match bound.get(&["out", "output"]) {
            Some(value) => value.arrays().into_iter().next(),
            None => None,
        };
        let found = known.cost(main.as_ref(), asked.unwrap_or(Dtype::DOUBLE));
        let (Some(shapes), Some((cost, looked_up))) = (known.rule.shapes(&bound), found) else {
            let all = bound.named.into_values().collect();
            return self.unknown_call(
                &format!("{name}, whose arguments do not say what comes out"),
                Value::Nothing,
                all,
                Named::new(),
                line,
            );
        };
        let input = main.as_ref().map_or(0, Array::elements);
        let shapes = match shapes {
            Shapes::One(shape) => vec![shape],
            Shapes::Several(shapes) => {
                let results = self.results(
                    &cost,
                    looked_up,
                    &shapes,
                    asked,
                    input,
                    target.is_some(),
                    &bound,
                    known,
                    &place,
                );
                return Value::list(results.into_iter().map(Value::Array).collect());
            }
            Shapes::Number => {
                self.meter.touch(cost.bytes(input, 0), &place);
                return Value::Number {
                    value: None,
                    float: cost.outputs.first().is_none_or(|dtype| dtype.contains('f')),
                };
            }
            Shapes::Nothing => {
                self.meter.touch(cost.bytes(input, 0), &place);
                return Value::Nothing;
            }
        };
        let results =
            self.results(&cost, looked_up, &shapes, asked, input, target.is_some(), &bound, known, &place);
        match (target, results.into_iter().next()) {
            (Some(target), _) => Value::Array(target),
            (None, Some(result)) => Value::Array(result),
            (None, None) => Value::Nothing,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what one call is made of")]
    fn results(
        &mut self,
        cost: &Cost,
        looked_up: Dtype,
        shapes: &[Vec<u64>],
        asked: Option<Dtype>,
        input: u64,
        in_place: bool,
        bound: &Bound,
        known: &Known,
        place: &super::value::Place,
    ) -> Vec<Array> {
        let wanted = main_array(known.rule, bound).map_or(looked_up, |main| main.dtype.native());
        let measured = |i: usize| {
            let text = cost.outputs.get(i).or(cost.outputs.last());
            text.and_then(|text| Dtype::parse(text)).unwrap_or(Dtype::DOUBLE)
        };
        // A type that was not measured: what follows the input there follows it here.
        let dtype = |i: usize| {
            let made = measured(i);
            asked.unwrap_or(if made == looked_up.native() { wanted } else { made })
        };
        let bytes = |i: usize, dtype: Dtype| super::value::product(&shapes[i]).saturating_mul(dtype.size);
        let output: u64 = (0..shapes.len()).map(|i| bytes(i, dtype(i))).sum();
        let as_measured: u64 = (0..shapes.len()).map(|i| bytes(i, measured(i))).sum();
        let elements = shapes.iter().map(|shape| super::value::product(shape)).sum();
        let growth = if as_measured == 0 { 1.0 } else { (output as f64 / as_measured as f64).max(1.0) };
        let mut working = cost.bytes(input, elements);
        if asked.is_some() || looked_up.native() != wanted {
            working = (working as f64 * growth) as u64;
            if asked.is_some_and(|asked| asked.size < measured(0).size) {
                working = working.saturating_sub(as_measured.saturating_sub(output));
            }
        }
        let made_bytes = if in_place { working.saturating_sub(as_measured) } else { working };
        self.meter.touch(made_bytes, place);
        let view = cost.bytes(input, elements) < as_measured / 2;
        let held: Vec<_> = bound.arrays.iter().flat_map(|array| array.blocks.clone()).collect();
        let class: Option<Rc<str>> = known.class.as_deref().map(Rc::from);
        let layout = main_array(known.rule, bound).map_or(Layout::C, |main| main.layout);
        let layout = if layout == Layout::F && known.rule == Rule::Broadcast { Layout::F } else { Layout::C };
        (0..shapes.len())
            .map(|i| {
                let shape = shapes[i].clone();
                if view || in_place {
                    return Array {
                        shape,
                        dtype: dtype(i),
                        layout,
                        blocks: held.clone(),
                        class: class.clone(),
                    };
                }
                let mut array = Array { class: class.clone(), layout, ..self.fresh(shape, dtype(i), place) };
                if class.is_some() {
                    array.blocks.extend(held.iter().cloned());
                }
                array
            })
            .collect()
    }

    /// A call nobody knows: needs what most known functions stay below; gives what its largest input is.
    pub(super) fn unknown_call(
        &mut self,
        name: &str,
        function: Value,
        args: Vec<Value>,
        named: Named,
        line: u32,
    ) -> Value {
        let all: Vec<Value> = std::iter::once(function).chain(args).chain(named.into_values()).collect();
        let arrays: Vec<Array> = all.iter().flat_map(Value::arrays).collect();
        let Some(largest) =
            arrays.iter().max_by_key(|array| array.bytes()).filter(|array| array.elements() > 64)
        else {
            return Value::Unknown(all.iter().flat_map(Value::blocks).collect());
        };
        self.note(name, line);
        let place = self.place(name, line);
        let input: u64 = arrays.iter().map(Array::bytes).sum();
        let working = (input as f64 * self.library.unknown.factor) as u64;
        self.meter.touch(working, &place);
        let mut result = self.fresh(largest.shape.clone(), largest.dtype.native(), &place);
        result.class = largest.class.clone();
        if result.class.is_some() {
            result.blocks.extend(all.iter().flat_map(Value::blocks));
        }
        Value::Array(result)
    }
}

/// The array whose type and layout say what a call costs.
fn main_array(rule: Rule, bound: &Bound) -> Option<Array> {
    let arrays = bound.arrays.as_slice();
    let arrays = if rule == Rule::Where && arrays.len() > 1 { &arrays[1..] } else { arrays };
    let largest = arrays.iter().max_by_key(|array| array.elements());
    let combines = matches!(
        rule,
        Rule::Broadcast
            | Rule::Where
            | Rule::Product
            | Rule::Concatenate
            | Rule::Stack
            | Rule::Convolve
            | Rule::Einsum
    );
    if !combines {
        let first = arrays.first()?;
        let elements = largest.map_or(0, Array::elements);
        return Some(if elements > first.elements() {
            Array { shape: vec![elements], ..first.clone() }
        } else {
            first.clone()
        });
    }
    let numbers =
        bound.named.iter().filter(|(name, _)| !SETTINGS.contains(&name.as_str())).filter_map(|(_, value)| {
            match value {
                Value::Number { float, .. } => Some(*float),
                _ => None,
            }
        });
    let first = match largest {
        Some(largest) => largest.clone(),
        None if rule == Rule::Where => Array {
            shape: bound.arrays.first()?.shape.clone(),
            dtype: Dtype::INDEX,
            layout: Layout::C,
            blocks: Vec::new(),
            class: None,
        },
        None => return None,
    };
    let dtype = arrays
        .iter()
        .fold(first.dtype, |dtype, array| if array.dtype == dtype { dtype } else { dtype.with(array.dtype) });
    let dtype =
        numbers.fold(dtype, |dtype, float| if dtype.swapped { dtype } else { dtype.with_number(float) });
    Some(Array { dtype, ..first })
}

/// A type, or its name.
pub(super) fn as_dtype(value: &Value) -> Option<Dtype> {
    match value {
        Value::Dtype(dtype) => Some(*dtype),
        Value::Text(text) => Dtype::parse(text),
        Value::Function(name, _) => Dtype::parse(name.rsplit('.').next()?),
        _ => None,
    }
}

fn of_list(items: &Rc<std::cell::RefCell<Vec<Value>>>, name: &str, mut args: Vec<Value>) -> Value {
    match (name, args.len()) {
        ("append" | "add" | "appendleft", 1) => items.borrow_mut().extend(args.pop()),
        ("extend" | "update", 1) => {
            let more = args.pop().and_then(|more| more.items()).unwrap_or_default();
            items.borrow_mut().extend(more);
        }
        ("insert", 2) => items.borrow_mut().insert(0, args.remove(1)),
        ("pop" | "popleft", _) => {
            let mut items = items.borrow_mut();
            let first = name == "popleft" || args.first().and_then(Value::whole) == Some(0);
            let gone = if first && !items.is_empty() { Some(items.remove(0)) } else { items.pop() };
            return gone.unwrap_or(Value::Unknown(Vec::new()));
        }
        ("clear", _) => items.borrow_mut().clear(),
        ("copy", _) => return Value::list(items.borrow().clone()),
        ("index" | "count", _) => return Value::Number { value: None, float: false },
        ("difference", 1) => {
            return scalar::operate("-", &[Value::Sequence(Rc::clone(items)), args.remove(0)]);
        }
        _ => {}
    }
    Value::Nothing
}

fn of_mapping(items: &Rc<std::cell::RefCell<Vec<(Value, Value)>>>, name: &str, args: Vec<Value>) -> Value {
    let pairs = items.borrow();
    match name {
        "keys" => Value::list(pairs.iter().map(|(key, _)| key.clone()).collect()),
        "values" => Value::list(pairs.iter().map(|(_, value)| value.clone()).collect()),
        "items" => Value::list(
            pairs.iter().map(|(key, value)| Value::list(vec![key.clone(), value.clone()])).collect(),
        ),
        "copy" => Value::Mapping(Rc::new(pairs.clone().into())),
        "get" | "pop" | "setdefault" => {
            let same = |key: &Value| args.first().and_then(|wanted| key.same(wanted));
            let found = pairs.iter().find(|(key, _)| same(key) == Some(true)).map(|(_, value)| value.clone());
            found.or_else(|| args.get(1).cloned()).unwrap_or(Value::Nothing)
        }
        _ => Value::Nothing,
    }
}
