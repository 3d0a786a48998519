//! Values by number, as numbers are given out one after the other; most values go again, and their
//! room with them, while few stay for long.
//!
//! slab and slotmap give numbers out again; those of rows in a trace are given out once. A map of all
//! values costs the hot path a tenth of its time.

use std::ops::{Index, IndexMut};

use rustc_hash::FxHashMap;

/// So many of the last numbers are found by their place, twice as many before the others leave.
const RECENT: usize = 1024;

/// See the module.
#[derive(Debug)]
pub struct Sparse<T> {
    /// The number of the first of `recent`.
    first: u32,
    recent: Vec<Option<T>>,
    /// What is left of those before.
    older: FxHashMap<u32, T>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Sparse<T> {
        Sparse { first: 0, recent: Vec::new(), older: FxHashMap::default() }
    }
}

impl<T> Sparse<T> {
    /// How many numbers have been given out.
    pub fn given_out(&self) -> u32 {
        self.first + self.recent.len() as u32
    }

    /// Adds a value. Its number.
    pub fn push(&mut self, value: T) -> u32 {
        self.give_out(Some(value));
        self.given_out() - 1
    }

    fn give_out(&mut self, value: Option<T>) {
        if self.recent.len() >= 2 * RECENT {
            let leaving = (self.first..).zip(self.recent.drain(..RECENT));
            self.older.extend(leaving.filter_map(|(number, value)| Some((number, value?))));
            self.first += RECENT as u32;
        }
        self.recent.push(value);
    }

    /// The value with this number, made if need be.
    pub fn get_or_insert(&mut self, number: u32) -> &mut T
    where
        T: Default,
    {
        while self.given_out() <= number {
            self.give_out(None);
        }
        match number.checked_sub(self.first) {
            Some(place) => self.recent[place as usize].get_or_insert_default(),
            None => self.older.entry(number).or_default(),
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        match number.checked_sub(self.first) {
            Some(place) => self.recent.get_mut(place as usize)?.take(),
            None => self.older.remove(&number),
        }
    }

    /// The value with this number, if it is there.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        match number.checked_sub(self.first) {
            Some(place) => self.recent.get(place as usize)?.as_ref(),
            None => self.old(number),
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match number.checked_sub(self.first) {
            Some(place) => self.recent.get_mut(place as usize)?.as_mut(),
            None => self.old_mut(number),
        }
    }

    /// Apart from what is copied into each place that asks for a value.
    #[inline(never)]
    fn old(&self, number: u32) -> Option<&T> {
        self.older.get(&number)
    }

    #[inline(never)]
    fn old_mut(&mut self, number: u32) -> Option<&mut T> {
        self.older.get_mut(&number)
    }

    /// All values that are there, with their numbers, in the order of these.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        let mut older: Vec<(u32, &T)> = self.older.iter().map(|(number, value)| (*number, value)).collect();
        older.sort_unstable_by_key(|(number, _)| *number);
        let recent = self.recent.iter().enumerate();
        let recent = recent.filter_map(|(place, value)| Some((self.first + place as u32, value.as_ref()?)));
        older.into_iter().chain(recent)
    }

    /// All values that are there, in the order of their numbers.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }
}

impl<T> Index<u32> for Sparse<T> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, number: u32) -> &T {
        match self.get(number) {
            Some(value) => value,
            None => has_left(number),
        }
    }
}

impl<T> IndexMut<u32> for Sparse<T> {
    #[inline(always)]
    #[track_caller]
    fn index_mut(&mut self, number: u32) -> &mut T {
        match self.get_mut(number) {
            Some(value) => value,
            None => has_left(number),
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn has_left(number: u32) -> ! {
    panic!("number {number} has left")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map. `None` adds as many as are found by their place.
        #[test]
        fn values_are_those_that_were_put_and_not_taken(
            steps in prop::collection::vec(prop::option::weighted(0.9, 0..9000u32), 1..200),
        ) {
            let (mut sparse, mut map) = (Sparse::default(), BTreeMap::new());
            for step in steps {
                match step {
                    None => (0..RECENT).for_each(|_| {
                        let number = sparse.push(7);
                        map.insert(number, 7);
                    }),
                    Some(number) if number % 3 == 0 && number < sparse.given_out() => {
                        *sparse.get_or_insert(number) += 1;
                        *map.entry(number).or_default() += 1;
                    }
                    Some(number) => prop_assert_eq!(sparse.remove(number), map.remove(&number)),
                }
            }
            let there: Vec<(u32, u32)> = sparse.iter().map(|(number, value)| (number, *value)).collect();
            prop_assert_eq!(there, map.iter().map(|(number, value)| (*number, *value)).collect::<Vec<_>>());
            for number in 0..9000 {
                prop_assert_eq!(sparse.get(number), map.get(&number));
            }
        }
    }

    #[test]
    fn what_stays_takes_room_and_what_goes_does_not() {
        let mut sparse = Sparse::default();
        for value in 0..20 * RECENT as u32 {
            let number = sparse.push(value);
            if number > 0 {
                sparse.remove(number);
            }
        }
        assert_eq!((sparse.older.len(), sparse[0], sparse.given_out()), (1, 0, 20 * RECENT as u32));
        assert!(sparse.recent.len() <= 2 * RECENT);
        assert_eq!(*sparse.get_or_insert(30_000), 0);
        assert_eq!((sparse.get(29_999), sparse.values().count()), (None, 2));
    }
}
