//! Calls: of the program's own functions, of the language's, of libraries, and of unknown
//! functions.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::arguments::array_of;
use super::dtype::Dtype;
use super::machine::{Frame, Machine};
use super::nested::{Items, Pairs, changed};
use super::scalar;
use super::source::{Function, Takes};
use super::value::{Array, COPY, Value, work};
use crate::error::Error;

/// Methods of lists and sets whose effect on memory is walked, or that have none.
const LIST_METHODS: [&str; 17] = [
    "append",
    "add",
    "appendleft",
    "extend",
    "update",
    "insert",
    "pop",
    "popleft",
    "clear",
    "copy",
    "index",
    "count",
    "difference",
    "sort",
    "reverse",
    "remove",
    "discard",
];
/// Methods of mappings, likewise.
const MAPPING_METHODS: [&str; 9] =
    ["keys", "values", "items", "copy", "update", "clear", "get", "pop", "setdefault"];

/// Arguments by name.
pub(super) type Named = BTreeMap<String, Value>;

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
                    let mut frame = seen.map(|seen| Frame::clone(&seen)).unwrap_or_default();
                    work(COPY * frame.len() as u64);
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
                None => Value::Array(Array::number(dtype)),
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
                    Some(Value::mapping(pairs))
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
                let (count, known) = self.repetitions(&over);
                if !known {
                    self.note("number of items", line);
                }
                let mut items = Vec::new();
                let walked = count.min(256);
                for i in 0..walked {
                    self.step()?;
                    if self.raised() {
                        break;
                    }
                    let item = vec![self.item(&over, i)];
                    items.push(self.call_inside(function.clone(), item, Named::new(), line)?);
                }
                self.fill(&mut items, walked, count, line);
                Ok(Value::list(items))
            }
            // The rest of its arguments come later.
            "functools.partial" if !args.is_empty() => {
                let function = args.remove(0);
                let known = named.into_iter().map(|(key, value)| (Value::Text(key.as_str().into()), value));
                let known = Value::mapping(known.collect());
                let call = Value::list(vec![function, Value::list(args), known]);
                Ok(Value::Method(Box::new(call), "partial call".into()))
            }
            _ if matches!(args.first(), Some(Value::Function(called, _)) if self.source.functions.contains_key(&**called)) =>
            {
                // scipy.ndimage.generic_filter(…, function), apply_along_axis(function, …): what it
                // does to a part.
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
                let plain = array.class.is_none();
                let mut all = vec![of.clone()];
                all.extend(args);
                Ok(match name {
                    // In place, and nothing comes out.
                    "fill" | "sort" | "setflags" | "partition" if plain => Value::Nothing,
                    _ if plain && !self.library.functions.contains_key(&full) => {
                        self.builtin(&full, &all, &named, line).unwrap_or_else(|| {
                            self.unknown_call(&format!("method {name}"), Value::Nothing, all, named, line)
                        })
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
                self.call_inside(function.clone(), args, all, line)
            }
            Value::Sequence(items) => {
                self.note_container(name, &LIST_METHODS, !named.is_empty(), line);
                Ok(of_list(items, name, args))
            }
            Value::Mapping(items) => {
                self.note_container(name, &MAPPING_METHODS, !named.is_empty() && name == "update", line);
                Ok(of_mapping(items, name, args))
            }
            Value::Text(text) => Ok(self.of_text(text, name, &args, line)),
            Value::Dtype(dtype) => Ok(if name == "newbyteorder" {
                Value::Dtype(dtype.native())
            } else {
                Value::Unknown(Vec::new())
            }),
            Value::Number { .. } => {
                Ok(scalar::function(name, std::slice::from_ref(&of)).unwrap_or(Value::Unknown(Vec::new())))
            }
            _ => Ok(self.unknown_call(&format!("method {name}"), of.clone(), args, named, line)),
        }
    }

    /// Names methods of containers that are not walked.
    fn note_container(&mut self, name: &str, known: &[&str], otherwise: bool, line: u32) {
        if otherwise || !known.contains(&name) {
            self.note(&format!("method {name}"), line);
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
            // A number of NumPy keeps its type beside arrays. Those that may become lengths stay numbers.
            let root =
                matches!(name, "numpy.sqrt" | "numpy.exp" | "numpy.log" | "numpy.log2" | "numpy.log10");
            return if root { Value::Array(Array::number(Dtype::DOUBLE)) } else { value };
        }
        let library = self.library;
        match library.functions.get(name) {
            Some(known) => self.known_call(name, known, args, named, line),
            None => self.unknown_call(name, Value::Nothing, args, named, line),
        }
    }
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

fn of_list(items: &Rc<Items>, name: &str, mut args: Vec<Value>) -> Value {
    changed(&Value::Sequence(Rc::clone(items)), &args);
    match (name, args.len()) {
        ("append" | "add" | "appendleft", 1) => items.borrow_mut().extend(args.pop()),
        ("extend" | "update", 1) => {
            let more = args.pop().and_then(|more| more.items()).unwrap_or_default();
            items.borrow_mut().extend(more);
        }
        ("insert", 2) => {
            work(items.borrow().len() as u64);
            items.borrow_mut().insert(0, args.remove(1));
        }
        ("pop" | "popleft", _) => {
            let mut items = items.borrow_mut();
            let first = name == "popleft" || args.first().and_then(Value::whole) == Some(0);
            work(if first { items.len() as u64 } else { 0 });
            let gone = if first && !items.is_empty() { Some(items.remove(0)) } else { items.pop() };
            return gone.unwrap_or(Value::Unknown(Vec::new()));
        }
        ("clear", _) => items.borrow_mut().clear(),
        ("copy", _) => {
            let copied = Value::Sequence(Rc::clone(items)).items();
            return Value::list(copied.unwrap_or_default());
        }
        ("index" | "count", _) => return Value::Number { value: None, float: false },
        ("difference", 1) => {
            return scalar::operate("-", &[Value::Sequence(Rc::clone(items)), args.remove(0)]);
        }
        _ => {}
    }
    Value::Nothing
}

fn of_mapping(items: &Rc<Pairs>, name: &str, args: Vec<Value>) -> Value {
    let pairs = items.borrow();
    work(COPY * pairs.len() as u64);
    match name {
        "keys" => Value::list(pairs.iter().map(|(key, _)| key.clone()).collect()),
        "values" => Value::list(pairs.iter().map(|(_, value)| value.clone()).collect()),
        "items" => Value::list(
            pairs.iter().map(|(key, value)| Value::list(vec![key.clone(), value.clone()])).collect(),
        ),
        "copy" => Value::mapping(pairs.clone()),
        "update" | "clear" => {
            drop(pairs);
            let mut pairs = items.borrow_mut();
            match args.first() {
                _ if name == "clear" => pairs.clear(),
                Some(Value::Mapping(more)) if !Rc::ptr_eq(more, items) => {
                    pairs.extend(more.borrow().iter().cloned());
                }
                _ => {}
            }
            Value::Nothing
        }
        "get" | "pop" | "setdefault" => {
            let same = |key: &Value| args.first().and_then(|wanted| key.same(wanted));
            let found = pairs.iter().find(|(key, _)| same(key) == Some(true)).map(|(_, value)| value.clone());
            let given = found.is_none() && name == "setdefault";
            let value = found.or_else(|| args.get(1).cloned()).unwrap_or(Value::Nothing);
            if let (true, Some(key)) = (given, args.first()) {
                drop(pairs);
                items.borrow_mut().push((key.clone(), value.clone()));
            }
            value
        }
        _ => Value::Nothing,
    }
}
