//! Values of a program that is walked, not run: shapes instead of elements, and which values keep
//! which block alive.
//!
//! A block is released when the last value that refers to it goes, as in CPython: the values of
//! this module are counted the same way, so lifetimes come out by themselves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::dtype::Dtype;
use super::nested::{Items, Pairs, Seen};

/// Most items of a list whose values are known one by one.
pub(super) const MAX_LISTED: u64 = 4096;
/// Containers inside of containers that are copied, compared or taken for an array.
pub(super) const MAX_NESTED: usize = 32;
/// Most items of lists that are looked at or copied on one path.
pub(super) const MAX_WORK: u64 = 4_000_000;

/// Where a block was made: function called, and line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// What made it.
    pub what: Rc<str>,
    /// File and line, `gst3d.py:41`.
    pub at: Rc<str>,
}

/// Counts live bytes.
#[derive(Debug, Default)]
pub struct Meter {
    live: Cell<u64>,
    peak: Cell<u64>,
    next: Cell<u64>,
    blocks: RefCell<BTreeMap<u64, (u64, Place)>>,
    /// Take down what is live when this is reached.
    watch: Cell<Option<u64>>,
    seen: RefCell<Vec<(u64, Place)>>,
}

impl Meter {
    /// One that takes down what is live when `watch` bytes are.
    pub fn watching(watch: Option<u64>) -> Rc<Meter> {
        let meter = Meter::default();
        meter.watch.set(watch);
        Rc::new(meter)
    }

    /// Bytes now.
    pub fn live(&self) -> u64 {
        self.live.get()
    }

    /// Largest number of bytes so far.
    pub fn peak(&self) -> u64 {
        self.peak.get()
    }

    /// What was live at the watched peak.
    pub fn seen(&self) -> Vec<(u64, Place)> {
        self.seen.borrow().clone()
    }

    /// `bytes` more are live for a moment.
    pub fn touch(&self, bytes: u64, place: &Place) {
        let reached = self.live.get().saturating_add(bytes);
        self.peak.set(self.peak.get().max(reached));
        if self.watch.get().is_some_and(|watch| reached >= watch) {
            self.watch.set(None);
            let live = self.blocks.borrow();
            let mut seen: Vec<(u64, Place)> = live.values().cloned().collect();
            seen.push((bytes, place.clone()));
            seen.retain(|(bytes, _)| *bytes > 0);
            self.seen.replace(seen);
        }
    }

    /// A block that lives until its last holder goes.
    pub fn hold(self: &Rc<Self>, bytes: u64, place: &Place) -> Rc<Block> {
        self.touch(bytes, place);
        let id = self.next.get();
        self.next.set(id + 1);
        self.live.set(self.live.get().saturating_add(bytes));
        self.blocks.borrow_mut().insert(id, (bytes, place.clone()));
        Rc::new(Block { bytes, id, meter: Rc::clone(self) })
    }
}

/// Memory that values keep alive.
#[derive(Debug)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    id: u64,
    meter: Rc<Meter>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.meter.live.set(self.meter.live.get().saturating_sub(self.bytes));
        self.meter.blocks.borrow_mut().remove(&self.id);
    }
}

/// How the elements of an array lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The last axis fastest, without gaps.
    C,
    /// The first axis fastest.
    F,
    /// With gaps.
    Strided,
}

/// An array, or an object of a library that has one (`class`).
#[derive(Debug, Clone)]
pub struct Array {
    /// Lengths of its axes.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: Dtype,
    /// Layout.
    pub layout: Layout,
    /// What it keeps alive; nothing for inputs, which are not counted.
    pub blocks: Vec<Rc<Block>>,
    /// `pandas.DataFrame`; none for a plain array.
    pub class: Option<Rc<str>>,
}

impl Array {
    /// One number of a type, which nothing keeps.
    pub fn number(dtype: Dtype) -> Array {
        Array { shape: Vec::new(), dtype, layout: Layout::C, blocks: Vec::new(), class: None }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        product(&self.shape)
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size)
    }

    /// Another view of the same memory.
    pub fn view(&self, shape: Vec<u64>, layout: Layout) -> Array {
        Array { shape, layout, ..self.clone() }
    }

    /// No other value keeps its memory alive.
    pub fn is_temporary(&self) -> bool {
        matches!(self.blocks.as_slice(), [block] if Rc::strong_count(block) == 1 && block.bytes >= self.bytes())
    }
}

/// Number of elements of a shape.
pub fn product(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, &length| product.saturating_mul(length))
}

/// A value, as far as it is known.
#[derive(Debug, Clone)]
pub enum Value {
    /// An array.
    Array(Array),
    /// A number of the language.
    Number {
        /// Its value, if known.
        value: Option<f64>,
        /// Not an integer.
        float: bool,
    },
    /// True or false.
    Flag(Option<bool>),
    /// Text.
    Text(Rc<str>),
    /// An element type.
    Dtype(Dtype),
    /// No value.
    Nothing,
    /// A list or tuple.
    Sequence(Rc<Items>),
    /// Numbers in even steps.
    Range {
        /// First.
        start: f64,
        /// Difference.
        step: f64,
        /// How many.
        count: u64,
    },
    /// Keys and values.
    Mapping(Rc<Pairs>),
    /// A function, with the variables it sees.
    Function(Rc<str>, Option<Rc<Seen>>),
    /// A function of a value: `of.name`.
    Method(Box<Value>, Rc<str>),
    /// Part of an index.
    Slice([Option<f64>; 3]),
    /// `...`
    Rest,
    /// Not known; what it may keep alive.
    Unknown(Vec<Rc<Block>>),
}

impl Value {
    /// An integer.
    pub fn integer(value: u64) -> Value {
        Value::Number { value: Some(value as f64), float: false }
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::Sequence(Rc::new(RefCell::new(items).into()))
    }

    /// Keys and values.
    pub fn mapping(pairs: Vec<(Value, Value)>) -> Value {
        Value::Mapping(Rc::new(RefCell::new(pairs).into()))
    }

    /// A shape as the program sees it.
    pub fn lengths(shape: &[u64]) -> Value {
        Value::list(shape.iter().map(|&length| Value::integer(length)).collect())
    }

    /// Its value if it is a known number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number { value, .. } => *value,
            Value::Flag(Some(flag)) => Some(f64::from(*flag)),
            _ => None,
        }
    }

    /// Its value if it is a known integer.
    pub fn whole(&self) -> Option<i64> {
        self.number().filter(|number| number.abs() < 9e15).map(|number| number as i64)
    }

    /// Its value if it is a known length.
    pub fn length(&self) -> Option<u64> {
        self.whole().and_then(|whole| u64::try_from(whole).ok())
    }

    /// Items of a list.
    pub fn items(&self) -> Option<Vec<Value>> {
        match self {
            Value::Sequence(items) => {
                let items = items.borrow();
                work(items.iter().map(Value::copying).sum());
                Some(items.clone())
            }
            Value::Range { start, step, count } if *count <= MAX_LISTED => Some(
                (0..*count)
                    .map(|i| Value::Number { value: Some(start + step * i as f64), float: false })
                    .collect(),
            ),
            _ => None,
        }
    }

    /// What a copy of it counts for.
    pub(super) fn copying(&self) -> u64 {
        let blocks = match self {
            Value::Array(array) => array.blocks.len(),
            Value::Unknown(kept) => kept.len(),
            _ => 0,
        };
        COPY + blocks as u64
    }

    /// A number, or a list of numbers, as integers.
    pub fn wholes(&self) -> Option<Vec<i64>> {
        match self.items() {
            Some(items) => items.iter().map(Value::whole).collect(),
            None => self.whole().map(|one| vec![one]),
        }
    }

    /// All memory it keeps alive: each block once.
    pub fn blocks(&self) -> Vec<Rc<Block>> {
        let mut blocks = Vec::new();
        let mut keep = |kept: &[Rc<Block>]| blocks.extend(kept.iter().cloned());
        self.visit(&mut |value| match value {
            Value::Array(array) => keep(&array.blocks),
            Value::Unknown(kept) => keep(kept),
            _ => {}
        });
        distinct(blocks)
    }

    /// The arrays in it, in order.
    pub fn arrays(&self) -> Vec<Array> {
        let mut arrays = Vec::new();
        self.visit(&mut |value| {
            if let Value::Array(array) = value {
                arrays.push(array.clone());
            }
        });
        arrays
    }

    /// Everything in it that is no container, in order except what lies very deep; a container
    /// counts once.
    fn visit(&self, each: &mut dyn FnMut(&Value)) {
        let (mut seen, mut deeper) = (FxHashSet::default(), Vec::new());
        self.visit_in(0, &mut seen, &mut deeper, each);
        while let Some(container) = deeper.pop() {
            container.visit_in(0, &mut seen, &mut deeper, each);
        }
    }

    fn visit_in(
        &self,
        depth: usize,
        seen: &mut FxHashSet<*const ()>,
        deeper: &mut Vec<Value>,
        each: &mut dyn FnMut(&Value),
    ) {
        work(1);
        match self {
            Value::Sequence(_) | Value::Mapping(_) if depth == MAX_NESTED => deeper.push(self.clone()),
            Value::Sequence(_) | Value::Mapping(_) if !seen.insert(self.address()) => {}
            Value::Sequence(items) => {
                items.borrow().iter().for_each(|item| item.visit_in(depth + 1, seen, deeper, each));
            }
            Value::Mapping(pairs) => {
                pairs.borrow().iter().for_each(|(_, item)| item.visit_in(depth + 1, seen, deeper, each));
            }
            Value::Method(of, _) => of.visit_in(depth, seen, deeper, each),
            other => each(other),
        }
    }

    /// How many names follow the value: `of.name.name`.
    pub(super) fn attributes(&self) -> usize {
        std::iter::successors(Some(self), |value| match value {
            Value::Method(of, _) => Some(&**of),
            _ => None,
        })
        .count()
    }

    /// Where a container is; nothing else has a place.
    fn address(&self) -> *const () {
        match self {
            Value::Sequence(items) => Rc::as_ptr(items).cast(),
            Value::Mapping(pairs) => Rc::as_ptr(pairs).cast(),
            _ => std::ptr::null(),
        }
    }

    /// Whether it counts as true, if that is known.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Value::Flag(flag) => *flag,
            Value::Number { value, .. } => value.map(|value| value != 0.0),
            Value::Text(text) => Some(!text.is_empty()),
            Value::Nothing => Some(false),
            Value::Sequence(items) => Some(!items.borrow().is_empty()),
            Value::Mapping(items) => Some(!items.borrow().is_empty()),
            Value::Range { count, .. } => Some(*count > 0),
            Value::Function(..) | Value::Method(..) | Value::Dtype(_) => Some(true),
            Value::Array(_) | Value::Slice(_) | Value::Rest | Value::Unknown(_) => None,
        }
    }

    /// The same value, if that can be said.
    pub fn same(&self, other: &Value) -> Option<bool> {
        self.same_in(other, 0)
    }

    fn same_in(&self, other: &Value, depth: usize) -> Option<bool> {
        work(1);
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Some(a == b),
            (Value::Dtype(a), Value::Dtype(b)) => Some(a == b),
            (Value::Dtype(a), Value::Text(b)) | (Value::Text(b), Value::Dtype(a)) => Some(match &**b {
                "O" | "S" | "U" | "V" => a.kind.to_string() == **b,
                _ => Dtype::parse(b).is_some_and(|b| *a == b),
            }),
            (Value::Function(a, _), Value::Function(b, _)) => Some(a == b),
            (Value::Nothing, Value::Nothing) => Some(true),
            (Value::Unknown(_) | Value::Array(_), _) | (_, Value::Unknown(_) | Value::Array(_)) => None,
            (Value::Number { .. } | Value::Flag(_), Value::Number { .. } | Value::Flag(_)) => {
                Some(self.number()? == other.number()?)
            }
            (Value::Sequence(a), Value::Sequence(b)) if Rc::ptr_eq(a, b) => Some(true),
            (Value::Sequence(_) | Value::Range { .. }, Value::Sequence(_) | Value::Range { .. }) => {
                if depth == MAX_NESTED || too_much() {
                    return None;
                }
                let (a, b) = (self.items()?, other.items()?);
                if a.len() != b.len() {
                    return Some(false);
                }
                a.iter().zip(&b).try_fold(true, |all, (a, b)| Some(all & a.same_in(b, depth + 1)?))
            }
            _ => Some(false),
        }
    }
}

/// Each block once.
pub(super) fn distinct(blocks: impl IntoIterator<Item = Rc<Block>>) -> Vec<Rc<Block>> {
    let mut known = FxHashSet::default();
    let all = blocks.into_iter().inspect(|_| work(1));
    all.filter(|block| known.insert(Rc::as_ptr(block))).collect()
}

/// What an item that is copied counts for; one that is looked at counts for 1.
pub(super) const COPY: u64 = 8;

thread_local! {
    static WORK: Cell<u64> = const { Cell::new(0) };
}

/// Lists may be long: what is done with them counts, so that a walk ends.
pub(super) fn work(items: u64) {
    WORK.set(WORK.get().saturating_add(items));
}

/// More was done since the last time than a whole path may do.
pub(super) fn too_much() -> bool {
    WORK.get() > MAX_WORK
}

/// What was done since the last time.
pub(super) fn take_work() -> u64 {
    WORK.take()
}

/// All ways to choose one of each, 4,096 at most.
pub(super) fn choices(counts: Vec<usize>) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for count in counts {
        let longer = rows.iter().flat_map(|row| (0..count).map(move |i| [row.as_slice(), &[i]].concat()));
        rows = longer.take(MAX_LISTED as usize).collect();
    }
    rows
}
