//! Numbers from bytes.

/// Bytes that are taken from the front; zeros once there are none.
pub struct Draw<'a>(pub &'a [u8]);

impl Draw<'_> {
    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// Eight bytes.
    pub fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, place| word | u64::from(self.byte()) << (8 * place))
    }

    /// A number of any magnitude.
    pub fn number(&mut self) -> u64 {
        let bits = self.byte() % 65;
        self.word().checked_shr(64 - u32::from(bits)).unwrap_or(0)
    }

    /// A number from 0 to this.
    pub fn up_to(&mut self, most: u8) -> usize {
        usize::from(self.byte()) % (usize::from(most) + 1)
    }

    /// A few numbers.
    pub fn numbers(&mut self, most: u8) -> Vec<u64> {
        (0..self.up_to(most)).map(|_| self.number()).collect()
    }

    /// Something, or nothing.
    pub fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() & 1 == 1).then(|| draw(self))
    }
}
