//! Loops: which repetitions are walked, and what those that are not would keep.

use std::collections::BTreeMap;

use super::machine::{Control, Flow, Frame, Machine};
use super::source::{Expression, Line};
use super::value::{Array, COPY, MAX_LISTED, MAX_NESTED, Value, distinct, work};
use crate::error::Error;

/// Repetitions of a loop that are walked; the others are like the last of them.
const WALKED: u64 = 64;
/// Repetitions of a loop whose number is not known.
pub const ASSUMED: u64 = 10;
/// Most items that a list is filled up with after a loop was cut short.
pub(super) const MAX_ITEMS: u64 = 1 << 16;
/// What is said where there are more.
pub(super) const TOO_MANY: &str = "more than 65,536 results that a loop keeps";
/// What is said of as many numbers or texts as may count.
pub(super) const MANY_SMALL: &str = "more than 4,096 small objects that a loop keeps";
/// Part of the peak so far that the repetitions that are not walked may keep unseen.
const UNSEEN: u64 = 20;

/// What a loop keeps after a repetition.
struct Kept {
    /// Items of lists and mappings by name.
    lengths: BTreeMap<String, usize>,
    live: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn repeat(
        &mut self,
        line: u32,
        target: &'a Expression,
        over: &'a Expression,
        body: &'a [Line],
        frame: &mut Frame,
    ) -> Result<Flow, Error> {
        let over = self.value(over, frame)?;
        let site = self.site(line);
        let (count, known) = self.repetitions(&over);
        let counted: fn(&mut Control) =
            if known { |control| control.loops += 1 } else { |control| control.open_loops += 1 };
        self.control.insert(site, counted);
        if !known {
            self.note("number of repetitions", line);
        }
        let walked = count.min(WALKED);
        let (mut before, mut after) = (self.kept(frame), self.kept(frame));
        for i in 0..walked {
            let last = i + 1 == walked && count > walked;
            if i + 2 == walked && count > walked {
                before = self.kept(frame);
            }
            if last {
                after = self.kept(frame);
            }
            let item = self.item(&over, position(i, walked, count));
            self.assign(target, item, frame)?;
            match self.run(body, frame)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
        }
        if count > walked {
            self.note_unseen(&before, &after, count - walked, frame, line);
            self.fill_up(&before.lengths, count - walked, frame, line);
        }
        Ok(Flow::Next)
    }

    pub(super) fn repeat_while(
        &mut self,
        line: u32,
        test: &'a Expression,
        body: &'a [Line],
        frame: &mut Frame,
    ) -> Result<Flow, Error> {
        let site = self.site(line);
        self.control.insert(site, |control| control.open_loops += 1);
        for repetition in 0.. {
            let truth = self.value(test, frame)?.truth();
            if truth.is_none() {
                self.note("number of repetitions", line);
            }
            if truth == Some(false) || (truth.is_none() && repetition >= ASSUMED) || repetition > 100_000 {
                break;
            }
            match self.run(body, frame)? {
                Flow::Next | Flow::Continue if truth == Some(true) && repetition > WALKED * 4 => {
                    // `while True`: only data ends it.
                    self.note("number of repetitions", line);
                    break;
                }
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// How often a loop over a value runs, and whether that is known.
    pub(super) fn repetitions(&self, over: &Value) -> (u64, bool) {
        match over {
            Value::Range { count, .. } => (*count, true),
            Value::Sequence(items) => (items.borrow().len() as u64, true),
            Value::Mapping(items) => (items.borrow().len() as u64, true),
            Value::Text(text) => (text.chars().count() as u64, true),
            Value::Array(array) if array.class.is_none() => (array.shape.first().copied().unwrap_or(0), true),
            Value::Array(array) => (array.shape.last().copied().unwrap_or(0), false),
            Value::Nothing => (0, true),
            _ => (ASSUMED, false),
        }
    }

    /// The i-th item of what a loop goes over.
    pub(super) fn item(&self, over: &Value, i: u64) -> Value {
        let at = usize::try_from(i).unwrap_or(usize::MAX);
        match over {
            Value::Range { start, step, .. } => {
                Value::Number { value: Some(start + step * i as f64), float: false }
            }
            Value::Sequence(items) => items.borrow().get(at).cloned().unwrap_or(Value::Unknown(Vec::new())),
            Value::Mapping(items) => {
                items.borrow().get(at).map_or(Value::Unknown(Vec::new()), |(key, _)| key.clone())
            }
            Value::Array(array) if !array.shape.is_empty() => {
                Value::Array(array.view(array.shape[1..].to_vec(), array.layout))
            }
            other => Value::Unknown(other.blocks()),
        }
    }

    fn kept(&self, frame: &Frame) -> Kept {
        let length = |(name, value): (&String, &Value)| match value {
            Value::Sequence(items) => Some((name.clone(), items.borrow().len())),
            Value::Mapping(pairs) => Some((name.clone(), pairs.borrow().len())),
            _ => None,
        };
        Kept { lengths: frame.iter().filter_map(length).collect(), live: self.meter.live() }
    }

    /// Names the line of a loop that keeps more from one repetition to the next than the lists and
    /// mappings which [`Machine::fill_up`] fills up: an array that grows, lists in lists.
    fn note_unseen(&mut self, before: &Kept, after: &Kept, more: u64, frame: &Frame, line: u32) {
        let gained = frame.iter().filter_map(|(name, value)| {
            let (&from, &to) = (before.lengths.get(name)?, after.lengths.get(name)?);
            let values = match value {
                Value::Sequence(items) => items.borrow().get(from..to)?.to_vec(),
                Value::Mapping(pairs) => {
                    pairs.borrow().get(from..to)?.iter().map(|(_, value)| value.clone()).collect()
                }
                _ => return None,
            };
            Some(Value::list(values))
        });
        let seen: u64 = distinct(gained.flat_map(|list| list.blocks())).iter().map(|block| block.bytes).sum();
        let unseen = after.live.saturating_sub(before.live).saturating_sub(seen);
        if unseen.saturating_mul(more) > self.meter.peak() / UNSEEN {
            self.note("what a loop keeps", line);
        }
    }

    /// What lists and mappings gained in the last repetition walked, they gain in each that was not.
    fn fill_up(&mut self, before: &BTreeMap<String, usize>, more: u64, frame: &Frame, line: u32) {
        for (name, value) in frame {
            let Some(&before) = before.get(name) else { continue };
            let new: Vec<Value> = match value {
                Value::Sequence(items) => items.borrow().get(before..).unwrap_or_default().to_vec(),
                Value::Mapping(pairs) => {
                    let pairs = pairs.borrow();
                    pairs.get(before..).unwrap_or_default().iter().map(|(_, value)| value.clone()).collect()
                }
                _ => continue,
            };
            let gained = new.len() / 2;
            let Some(last) = largest(&new).filter(|_| gained > 0) else { continue };
            let missing = more.saturating_mul(gained as u64);
            self.note_many(&last, missing, line);
            for _ in 0..missing.min(MAX_ITEMS) {
                if self.raised() {
                    break;
                }
                let copy = self.another(&last, line);
                match value {
                    Value::Sequence(items) => items.borrow_mut().push(copy),
                    Value::Mapping(pairs) => pairs.borrow_mut().push((Value::Unknown(Vec::new()), copy)),
                    _ => {}
                }
            }
        }
    }

    /// Repeats the larger of the last two of the `walked` items of a list that is made by repetition, up
    /// to `count`.
    pub(super) fn fill(&mut self, items: &mut Vec<Value>, walked: u64, count: u64, line: u32) {
        let Some(last) = largest(&items[items.len().saturating_sub(2)..]) else { return };
        self.note_many(&last, count, line);
        for _ in walked..count.min(MAX_ITEMS) {
            if self.raised() {
                break;
            }
            let copy = self.another(&last, line);
            items.push(copy);
        }
    }

    /// Names what a container that is filled up with `count` values like `one` leaves out.
    pub(super) fn note_many(&mut self, one: &Value, count: u64, line: u32) {
        if count > MAX_ITEMS {
            self.note(TOO_MANY, line);
        } else if count > MAX_LISTED && one.blocks().is_empty() {
            self.note(MANY_SMALL, line);
        }
    }

    /// A value like this one with memory of its own.
    pub(super) fn another(&mut self, value: &Value, line: u32) -> Value {
        self.another_in(value, line, 0)
    }

    fn another_in(&mut self, value: &Value, line: u32, depth: usize) -> Value {
        work(COPY);
        self.end_if_long();
        match value {
            Value::Array(array) => {
                let bytes = array.blocks.iter().map(|block| block.bytes).sum();
                let place = self.place("one of many repetitions", line);
                let blocks = if bytes == 0 { Vec::new() } else { vec![self.meter.hold(bytes, &place)] };
                Value::Array(Array { blocks, ..array.clone() })
            }
            Value::Unknown(blocks) if !blocks.is_empty() => {
                let place = self.place("one of many repetitions", line);
                let bytes = blocks.iter().map(|block| block.bytes).sum();
                Value::Unknown(vec![self.meter.hold(bytes, &place)])
            }
            Value::Sequence(_) if depth < MAX_NESTED && !self.raised() => {
                let items = value.items().unwrap_or_default();
                Value::list(items.iter().map(|item| self.another_in(item, line, depth + 1)).collect())
            }
            other => other.clone(),
        }
    }
}

/// Which of `count` items the i-th of the `walked` repetitions has: the last one has the last, so that
/// what shrinks or grows with the index is seen at both ends.
pub(super) fn position(i: u64, walked: u64, count: u64) -> u64 {
    if i + 1 == walked { count - 1 } else { i }
}

/// The value that keeps most.
fn largest(values: &[Value]) -> Option<Value> {
    let bytes = |value: &&Value| value.blocks().iter().map(|block| block.bytes).fold(0, u64::saturating_add);
    values.iter().max_by_key(bytes).cloned()
}
