//! Calls of library functions whose laws are known, and of unknown functions.

use std::rc::Rc;

use super::arguments::{Bound, Shapes, array_of};
use super::call::{Named, as_dtype};
use super::dtype::Dtype;
use super::library::{Cost, Known};
use super::machine::Machine;
use super::shape::Rule;
use super::small::is_small;
use super::value::{Array, Layout, Place, Value, distinct, product};

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

/// Parameters that say how long a result is.
const LENGTHS: [&str; 26] = [
    "N",
    "M",
    "n",
    "s",
    "shape",
    "newshape",
    "new_shape",
    "output_shape",
    "dimensions",
    "num",
    "nperseg",
    "noverlap",
    "nfft",
    "bins",
    "zoom",
    "repeats",
    "reps",
    "pad_width",
    "minlength",
    "start_or_stop",
    "stop",
    "step",
    "axis",
    "axes",
    "times",
    "indices_or_sections",
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
        let main = main_array(known.rule, &bound);
        let wanted = match (bound.get(&["dtype"]), bound.get(&["output"])) {
            (Some(value), _) | (None, Some(value)) => as_dtype(value),
            _ => None,
        };
        let target = bound.get(&["out", "output"]).and_then(|value| value.arrays().into_iter().next());
        let found = known.cost_of_all(main.as_ref(), &bound.arrays, wanted.unwrap_or(Dtype::DOUBLE));
        for length in
            LENGTHS.iter().filter(|length| bound.get(&[length]).is_some_and(|value| is_open(length, value)))
        {
            self.note(&format!("{length} of {name}"), line);
        }
        let is_measured = |(name, value): (&String, &Value)| {
            known.measured.contains(name) || value.items().is_some_and(|items| items.is_empty())
        };
        let is_plain = bound.arrays.len() == 1 && bound.named.iter().all(is_measured);
        if !known.measured.is_empty() && !is_plain {
            self.note(&format!("arguments of {name}"), line);
        }
        if main.as_ref().is_some_and(|main| is_one_line(name, main)) {
            self.note(&format!("{name} of one long line"), line);
        }
        let (Some(shapes), Some((cost, of_dtype))) = (known.rule.shapes(&bound), found) else {
            let all = bound.named.into_values().collect();
            return self.unknown_call(
                &format!("{name}, whose arguments do not say what comes out"),
                Value::Nothing,
                all,
                Named::new(),
                line,
            );
        };
        if let Some(main) = main.as_ref().filter(|main| !of_dtype.is_like(main.dtype)) {
            self.note(&format!("{name} of {}", main.dtype), line);
        }
        let input = main.as_ref().map_or(0, Array::elements);
        let in_place = target.is_some();
        let place = self.place(name, line);
        let call = Call { known, bound: &bound, main, cost: &cost, of_dtype, wanted, input, in_place };
        match shapes {
            Shapes::One(shape) => {
                let result = self.results(&call, &[shape], &place).into_iter().next();
                target.or(result).map_or(Value::Nothing, Value::Array)
            }
            Shapes::Several(shapes) => {
                Value::list(self.results(&call, &shapes, &place).into_iter().map(Value::Array).collect())
            }
            Shapes::Number => {
                self.meter.touch(cost.bytes(input, 0), &place);
                let float = cost.outputs.first().is_none_or(|dtype| dtype.contains('f'));
                Value::Number { value: None, float }
            }
            Shapes::Nothing => {
                self.meter.touch(cost.bytes(input, 0), &place);
                Value::Nothing
            }
        }
    }

    /// The arrays that a call makes, with what it allocates for a moment.
    fn results(&mut self, call: &Call, shapes: &[Vec<u64>], place: &Place) -> Vec<Array> {
        let measured = call.output_bytes(shapes, Call::measured);
        let working = call.working_bytes(shapes);
        self.meter.touch(if call.in_place { working.saturating_sub(measured) } else { working }, place);
        let made = matches!(call.known.rule, Rule::Filled | Rule::Arange | Rule::Linspace | Rule::Indices);
        let is_view = !made && call.cost.bytes(call.input, elements(shapes)) < measured / 2;
        let kept = distinct(call.bound.arrays.iter().flat_map(|array| array.blocks.iter().cloned()));
        let class: Option<Rc<str>> = call.known.class.as_deref().map(Rc::from);
        let layout = call.main.as_ref().map_or(Layout::C, |main| main.layout);
        let keeps_order = layout == Layout::F && call.known.rule == Rule::Broadcast;
        let layout = if keeps_order { Layout::F } else { Layout::C };
        let result = |(i, shape): (usize, &Vec<u64>)| {
            let (shape, dtype, class) = (shape.clone(), call.dtype(i), class.clone());
            if is_view || call.in_place {
                return Array { shape, dtype, layout, blocks: kept.clone(), class };
            }
            let mut array = Array { class, layout, ..self.fresh(shape, dtype, place) };
            if array.class.is_some() {
                array.blocks.extend(kept.iter().cloned());
            }
            array
        };
        shapes.iter().enumerate().map(result).collect()
    }

    /// A call of an unknown function, which is named unless it allocates little whatever it is
    /// given: needs what most known functions stay below; gives what its largest input is.
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
            if let Some(shape) = shape.filter(|shape: &Vec<u64>| product(shape) > 64) {
                let place = self.place(name, line);
                self.note(name, line);
                return Value::Array(self.fresh(shape, Dtype::DOUBLE, &place));
            }
            if !is_small(name) {
                self.note(name, line);
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

/// A call of a function whose law is known.
struct Call<'c> {
    known: &'c Known,
    bound: &'c Bound,
    /// The array that its law is a function of.
    main: Option<Array>,
    cost: &'c Cost,
    /// The element type that `cost` was measured with.
    of_dtype: Dtype,
    /// The element type of the results, if the call names one.
    wanted: Option<Dtype>,
    /// Elements of `main`.
    input: u64,
    /// The result is an array that the call is given.
    in_place: bool,
}

impl Call<'_> {
    /// Element type of a result in the measured calls.
    fn measured(&self, result: usize) -> Dtype {
        let text = self.cost.outputs.get(result).or(self.cost.outputs.last());
        text.and_then(|text| Dtype::parse(text)).unwrap_or(Dtype::DOUBLE)
    }

    /// Element type of a result here. A type that was not measured: what follows the input there
    /// follows it here.
    fn dtype(&self, result: usize) -> Dtype {
        let made = self.measured(result);
        let follows = made == self.of_dtype.native();
        self.wanted.unwrap_or(if follows { self.input_dtype() } else { made })
    }

    fn input_dtype(&self) -> Dtype {
        self.main.as_ref().map_or(self.of_dtype, |main| main.dtype.native())
    }

    fn output_bytes(&self, shapes: &[Vec<u64>], dtype: impl Fn(&Self, usize) -> Dtype) -> u64 {
        let bytes = |(i, shape): (usize, &Vec<u64>)| product(shape).saturating_mul(dtype(self, i).size);
        shapes.iter().enumerate().map(bytes).sum()
    }

    /// Working bytes, those of results of another type than the measured ones included.
    fn working_bytes(&self, shapes: &[Vec<u64>]) -> u64 {
        let working = self.cost.bytes(self.input, elements(shapes));
        if self.wanted.is_none() && self.of_dtype.native() == self.input_dtype() {
            return working;
        }
        let (output, measured) =
            (self.output_bytes(shapes, Self::dtype), self.output_bytes(shapes, Self::measured));
        let growth = if measured == 0 { 1.0 } else { (output as f64 / measured as f64).max(1.0) };
        let working = (working as f64 * growth) as u64;
        if self.wanted.is_none_or(|wanted| wanted.size >= self.measured(0).size) {
            return working;
        }
        match self.known.rule {
            Rule::Filled | Rule::Like => working.saturating_sub(measured.saturating_sub(output)),
            _ => working.saturating_add(output), // made in the wider type, then converted
        }
    }
}

/// Functions that work line by line keep some lines, and were measured on many short ones.
fn is_one_line(name: &str, array: &Array) -> bool {
    const BY_LINES: [&str; 4] = ["scipy.ndimage.", "scipy.signal.", "scipy.fft.", "numpy.fft."];
    let longest = array.shape.iter().copied().max().unwrap_or(0);
    longest > 4096
        && longest.saturating_mul(64) > array.elements()
        && BY_LINES.iter().any(|each| name.starts_with(each))
}

/// Whether what is given as this length is not known. Of `bins`, an array has the edges: as many as it
/// has elements.
fn is_open(name: &str, length: &Value) -> bool {
    match length {
        Value::Number { value, .. } => value.is_none(),
        Value::Sequence(items) => items.borrow().iter().any(|item| is_open(name, item)),
        Value::Unknown(_) => true,
        Value::Array(array) => name != "bins" || array.shape.is_empty(),
        _ => false,
    }
}

fn elements(shapes: &[Vec<u64>]) -> u64 {
    shapes.iter().map(|shape| product(shape)).sum()
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
