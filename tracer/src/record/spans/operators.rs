//! The operators: their names, and what their calls come to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// The calls of one operator.
#[derive(Debug, Clone)]
pub struct OperatorSums {
    /// Its name.
    pub name: Arc<str>,
    /// Calls that began.
    pub started: u64,
    /// Calls that ended.
    pub finished: u64,
    /// Ticks in these.
    pub ticks: u64,
    /// Largest working peak of those that are over, ended or not.
    pub working_peak_bytes: u64,
}

/// By number, in the order they were met.
#[derive(Default)]
pub(super) struct Operators {
    all: Vec<OperatorSums>,
    by_name: FxHashMap<Arc<str>, u32>,
}

impl Operators {
    /// A call begins. The operator's number.
    pub fn started(&mut self, name: &str) -> u32 {
        let number = self.by_name.get(name).copied().unwrap_or_else(|| self.meet(name.into()));
        self.all[number as usize].started += 1;
        number
    }

    fn meet(&mut self, name: Arc<str>) -> u32 {
        let number = self.all.len() as u32;
        self.by_name.insert(name.clone(), number);
        self.all.push(OperatorSums { name, started: 0, finished: 0, ticks: 0, working_peak_bytes: 0 });
        number
    }

    /// A call has ended after this long.
    pub fn finished(&mut self, operator: u32, ticks: u64) {
        let sums = &mut self.all[operator as usize];
        sums.finished += 1;
        sums.ticks += ticks;
    }

    /// A call is over, because it or its process has ended.
    pub fn over(&mut self, operator: u32, working_peak_bytes: u64) {
        let most = &mut self.all[operator as usize].working_peak_bytes;
        *most = working_peak_bytes.max(*most);
    }

    /// Its name.
    pub fn name(&self, operator: u32) -> &str {
        &self.all[operator as usize].name
    }

    /// True if a span has had this name.
    pub fn is_known(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// All of them.
    pub fn sums(&self) -> &[OperatorSums] {
        &self.all
    }
}
