//! What values contain, however deep: a program may put a list into a list a hundred thousand times.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use super::machine::Frame;
use super::value::Value;

/// Items of a list.
pub type Items = Nested<RefCell<Vec<Value>>>;
/// Keys and values.
pub type Pairs = Nested<RefCell<Vec<(Value, Value)>>>;
/// Variables that a function sees.
pub type Seen = Nested<Frame>;

/// Values that are dropped one after the other, not inside of each other's drop.
#[derive(Debug)]
pub struct Nested<T: Contents>(T);

/// A container of values.
pub trait Contents {
    /// Moves those that may contain others to `rest`, and drops the others.
    fn release(&mut self, rest: &mut Vec<Value>);
}

impl Contents for RefCell<Vec<Value>> {
    fn release(&mut self, rest: &mut Vec<Value>) {
        rest.extend(self.get_mut().drain(..).filter(contains));
    }
}

impl Contents for RefCell<Vec<(Value, Value)>> {
    fn release(&mut self, rest: &mut Vec<Value>) {
        rest.extend(self.get_mut().drain(..).flat_map(|(key, value)| [key, value]).filter(contains));
    }
}

impl Contents for Frame {
    fn release(&mut self, rest: &mut Vec<Value>) {
        rest.extend(std::mem::take(self).into_values().filter(contains));
    }
}

fn contains(value: &Value) -> bool {
    matches!(value, Value::Sequence(_) | Value::Mapping(_) | Value::Method(..) | Value::Function(_, Some(_)))
}

impl<T: Contents> From<T> for Nested<T> {
    fn from(contents: T) -> Nested<T> {
        Nested(contents)
    }
}

impl<T: Contents> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Contents> Drop for Nested<T> {
    fn drop(&mut self) {
        fn last<T: Contents>(shared: Rc<Nested<T>>, rest: &mut Vec<Value>) {
            if let Some(mut contents) = Rc::into_inner(shared) {
                contents.0.release(rest);
            }
        }
        let mut rest = Vec::new();
        self.0.release(&mut rest);
        while let Some(value) = rest.pop() {
            match value {
                Value::Sequence(items) => last(items, &mut rest),
                Value::Mapping(pairs) => last(pairs, &mut rest),
                Value::Function(_, Some(seen)) => last(seen, &mut rest),
                Value::Method(of, _) => rest.push(*of),
                _ => {}
            }
        }
    }
}
