//! Calls of library functions whose laws are known, and of functions nobody knows.

use std::rc::Rc;

use super::call::{Named, as_dtype};
use super::dtype::Dtype;
use super::library::{Cost, Known};
use super::machine::Machine;
use super::shape::{Bound, Rule, Shapes, array_of};
use super::value::{Array, Layout, Value};

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

impl Machine<'_> {
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

    pub(super) fn known_call(
        &mut self,
        name: &str,
        known: &Known,
        args: Vec<Value>,
        named: Named,
        line: u32,
    ) -> Value {
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
                working = match known.rule {
                    Rule::Filled | Rule::Like => working.saturating_sub(as_measured.saturating_sub(output)),
                    _ => working.saturating_add(output), // made in the wider type, then converted
                };
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
            // Random numbers, say: as many as a shape that is given.
            let shape = all.iter().rev().filter(|value| matches!(value, Value::Sequence(_)));
            let shape = shape.filter_map(|value| value.items()?.iter().map(Value::length).collect()).next();
            if let Some(shape) = shape.filter(|shape: &Vec<u64>| super::value::product(shape) > 64) {
                let place = self.place(name, line);
                self.note(name, line);
                return Value::Array(self.fresh(shape, Dtype::DOUBLE, &place));
            }
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
