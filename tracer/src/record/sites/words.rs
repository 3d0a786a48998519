//! Reads the texts of stack events.

/// What is left of a text of words.
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    /// The next `N` words.
    pub fn take<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            let (first, rest) = self.0.split_first_chunk()?;
            *word = u64::from_le_bytes(*first);
            self.0 = rest;
        }
        Some(words)
    }

    /// The next `bytes` bytes, which are padded to whole words.
    pub fn bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let part = self.0.get(..bytes)?;
        self.0 = self.0.get(bytes.next_multiple_of(8)..).unwrap_or_default();
        Some(part)
    }
}
