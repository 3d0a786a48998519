//! The spans of one process.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::one_time::LeftAgain;

/// See the module.
#[derive(Default)]
pub(super) struct OfProcess {
    /// Those without an end, as they began.
    open: Vec<u32>,
    /// Those that have ended and whose rows may change.
    staying: BTreeSet<u32>,
    calls: FxHashMap<u32, Calls>,
}

/// The calls of an operator in a process.
#[derive(Default)]
pub(super) struct Calls {
    count: u32,
    /// What those after the first have left behind.
    pub left: LeftAgain,
}

impl OfProcess {
    /// One begins. Which call of its operator it is.
    pub fn began(&mut self, span: u32, operator: u32) -> u32 {
        self.open.push(span);
        let calls = self.calls.entry(operator).or_default();
        calls.count += 1;
        calls.count - 1
    }

    /// One has ended.
    pub fn ended(&mut self, span: u32) {
        // Mostly the last one.
        if let Some(place) = self.open.iter().rposition(|open| *open == span) {
            self.open.remove(place);
            self.staying.insert(span);
        }
    }

    /// One of those that have ended will change no more. False if it was none of them.
    pub fn settled(&mut self, span: u32) -> bool {
        self.staying.remove(&span)
    }

    /// Those without an end.
    pub fn open(&self) -> &[u32] {
        &self.open
    }

    /// Those that have ended and whose rows may change.
    pub fn staying(&self) -> impl Iterator<Item = u32> {
        self.staying.iter().copied()
    }

    /// All whose rows may change.
    pub fn whole(&self) -> impl Iterator<Item = u32> {
        self.staying().chain(self.open.iter().copied())
    }

    /// The calls of an operator.
    pub fn calls_of(&mut self, operator: u32) -> &mut Calls {
        self.calls.entry(operator).or_default()
    }
}
