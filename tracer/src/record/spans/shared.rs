//! Values of which many are equal: arrays and parameters of calls. Equal ones share memory, as far as a
//! bounded number of the last ones is remembered.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

/// Values that are remembered, each in the one place that its hash names.
const PLACES: usize = 4096;

/// See the module.
pub(super) struct Shared<T: ?Sized> {
    last: Vec<Option<Arc<T>>>,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared { last: Vec::new() }
    }
}

impl<T: ?Sized + Hash + PartialEq> Shared<T> {
    /// An equal value: that which is remembered, or this one, which is remembered from now on.
    pub fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if self.last.is_empty() {
            self.last.resize(PLACES, None);
        }
        let place = FxBuildHasher.hash_one(&*value) as usize % PLACES;
        match &self.last[place] {
            Some(last) if **last == *value => last.clone(),
            _ => self.last[place].insert(value).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_few_are_remembered() {
        let mut shared: Shared<[u64]> = Shared::default();
        let first = shared.share([1, 2].into());
        assert!(Arc::ptr_eq(&first, &shared.share([1, 2].into())));
        assert!(!Arc::ptr_eq(&first, &shared.share([1, 3].into())));
        for number in 0..10 * PLACES as u64 {
            shared.share([number].into());
        }
        assert_eq!(shared.last.len(), PLACES);
    }
}
