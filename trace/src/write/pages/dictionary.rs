//! The distinct values of a column chunk, by number.

/// Entries at most: indices fit the 16 bits that `hybrid` packs, and a column of ever new values
/// soon gives up.
const MOST: usize = 1 << 14;

/// A hash table with open addressing: one multiplication and mostly one probe per value.
pub(crate) struct Dictionary {
    values: Vec<u64>,
    /// Values, and their numbers plus one; 0 where there is none. At most half of the slots are
    /// taken.
    slots: Vec<(u64, u32)>,
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary { values: Vec::new(), slots: vec![(0, 0); 64] }
    }
}

impl Dictionary {
    /// The values in the order of their numbers.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.slots.fill((0, 0));
    }

    /// The number of a value; `None` once there are too many different ones.
    #[inline]
    pub(crate) fn number(&mut self, value: u64) -> Option<u32> {
        let mut slot = self.slot(value);
        loop {
            match self.slots[slot] {
                (_, 0) => return self.add(value),
                (known, number) if known == value => return Some(number - 1),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline]
    fn slot(&self, value: u64) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the value.
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[cold]
    fn add(&mut self, value: u64) -> Option<u32> {
        if self.values.len() == MOST {
            return None;
        }
        self.values.push(value);
        if self.values.len() * 2 > self.slots.len() {
            self.slots = vec![(0, 0); self.slots.len() * 2];
            (0..self.values.len()).for_each(|number| self.enter(number));
        } else {
            self.enter(self.values.len() - 1);
        }
        Some(self.values.len() as u32 - 1)
    }

    fn enter(&mut self, number: usize) {
        let mut slot = self.slot(self.values[number]);
        while self.slots[slot].1 != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (self.values[number], number as u32 + 1);
    }
}
