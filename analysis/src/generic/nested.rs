//! What values contain, however deep: programs put lists into lists tens of thousands of times.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::{Rc, Weak};

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

thread_local! {
    /// Containers that a container was put into: they may contain themselves.
    static CHANGED: RefCell<Vec<Changed>> = const { RefCell::new(Vec::new()) };
}

enum Changed {
    Items(Weak<Items>),
    Pairs(Weak<Pairs>),
}

/// These values may have been put into `container`.
pub fn changed(container: &Value, values: &[Value]) {
    if !values.iter().any(contains) {
        return;
    }
    let changed = match container {
        Value::Sequence(items) => Changed::Items(Rc::downgrade(items)),
        Value::Mapping(pairs) => Changed::Pairs(Rc::downgrade(pairs)),
        _ => return,
    };
    CHANGED.with_borrow_mut(|all| all.push(changed));
}

/// Empties containers that contain themselves when it is dropped: nothing else releases them.
pub struct Cycles;

impl Drop for Cycles {
    fn drop(&mut self) {
        for changed in CHANGED.take() {
            match changed {
                Changed::Items(items) => drop(items.upgrade().map(|items| items.take())),
                Changed::Pairs(pairs) => drop(pairs.upgrade().map(|pairs| pairs.take())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_that_contain_themselves_are_released() {
        let (list, pairs) = (Value::list(Vec::new()), Value::mapping(Vec::new()));
        let (Value::Sequence(items), Value::Mapping(entries)) = (&list, &pairs) else { panic!() };
        let (weak_items, weak_entries) = (Rc::downgrade(items), Rc::downgrade(entries));
        let cycles = Cycles;
        changed(&list, std::slice::from_ref(&pairs));
        items.borrow_mut().push(pairs.clone());
        changed(&pairs, std::slice::from_ref(&list));
        entries.borrow_mut().push((Value::integer(1), list.clone()));
        drop((list, pairs));
        assert!(weak_items.upgrade().is_some() && weak_entries.upgrade().is_some());
        drop(cycles);
        assert!(weak_items.upgrade().is_none() && weak_entries.upgrade().is_none());
    }
}
