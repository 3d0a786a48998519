//! Python's pickle, protocol 2, as far as a snapshot takes it, in opcodes that both `pickle` and the
//! JavaScript of PyTorch's page know.
//!
//! serde-pickle would write it, but without references: each event would have its whole call stack
//! in it again.

use std::collections::HashMap;

/// Python appends that many items at a time; the page hands them to one call of a function.
const BATCH: usize = 1000;

/// A place in the reader's memo.
#[derive(Debug, Clone, Copy)]
pub struct Reference(u32);

/// A pickle that is being written.
pub struct Pickle {
    out: Vec<u8>,
    texts: HashMap<String, Reference>,
    references: u32,
}

impl Pickle {
    /// An empty one.
    pub fn new() -> Pickle {
        Pickle { out: vec![0x80, 2], texts: HashMap::new(), references: 0 }
    }

    /// All of it, with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(b'.');
        self.out
    }

    /// A number.
    pub fn int(&mut self, value: u64) {
        match (u8::try_from(value), i32::try_from(value)) {
            (Ok(byte), _) => self.out.extend([b'K', byte]),
            (_, Ok(value)) => self.op(b'J', &value.to_le_bytes()),
            _ => {
                // Two's complement in as few bytes as it takes: the highest bit is the sign.
                let length = (u64::BITS - value.leading_zeros()) as usize / 8 + 1;
                self.out.extend([0x8a, length as u8]);
                self.out.extend(&u128::from(value).to_le_bytes()[..length]);
            }
        }
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { 0x88 } else { 0x89 });
    }

    /// A text; the next time a reference to it.
    pub fn text(&mut self, text: &str) {
        if let Some(known) = self.texts.get(text) {
            return self.again(*known);
        }
        self.op(b'X', &(text.len() as u32).to_le_bytes());
        self.out.extend(text.as_bytes());
        let reference = self.keep();
        self.texts.insert(text.into(), reference);
    }

    /// A list: an item for each of these.
    pub fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Pickle, &T)) {
        self.out.push(b']');
        for batch in items.chunks(BATCH) {
            self.out.push(b'(');
            batch.iter().for_each(|each| item(self, each));
            self.out.push(b'e');
        }
    }

    /// A dictionary, whose keys and values the function writes.
    pub fn dict(&mut self, entries: impl FnOnce(&mut Pickle)) {
        self.out.extend(b"}(");
        entries(self);
        self.out.push(b'u');
    }

    /// An entry of a dictionary.
    pub fn number(&mut self, key: &str, value: u64) {
        self.text(key);
        self.int(value);
    }

    /// Such an entry with a text.
    pub fn word(&mut self, key: &str, value: &str) {
        self.text(key);
        self.text(value);
    }

    /// Remembers what was written last.
    pub fn keep(&mut self) -> Reference {
        let reference = Reference(self.references);
        self.references += 1;
        self.refer(b"qr", reference);
        reference
    }

    /// What was remembered.
    pub fn again(&mut self, reference: Reference) {
        self.refer(b"hj", reference);
    }

    fn refer(&mut self, [short, long]: &[u8; 2], Reference(number): Reference) {
        match u8::try_from(number) {
            Ok(number) => self.out.extend([*short, number]),
            Err(_) => self.op(*long, &number.to_le_bytes()),
        }
    }

    fn op(&mut self, opcode: u8, argument: &[u8; 4]) {
        self.out.push(opcode);
        self.out.extend(argument);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: u64) -> Vec<u8> {
        let mut pickle = Pickle::new();
        pickle.int(value);
        pickle.finish()[2..].to_vec()
    }

    #[test]
    fn numbers_take_the_bytes_that_their_sign_needs() {
        assert_eq!(int(255), [b'K', 255, b'.']);
        assert_eq!(int(256), [b'J', 0, 1, 0, 0, b'.']);
        assert_eq!(int(1 << 31), [0x8a, 5, 0, 0, 0, 0x80, 0, b'.']);
        assert_eq!(int((1 << 39) - 1), [0x8a, 5, 255, 255, 255, 255, 127, b'.']);
        assert_eq!(int(1 << 39), [0x8a, 6, 0, 0, 0, 0, 128, 0, b'.']);
        assert_eq!(int(u64::MAX), [&[0x8a, 9][..], &[255; 8], &[0, b'.']].concat());
    }

    #[test]
    fn a_text_is_written_once() {
        let mut pickle = Pickle::new();
        pickle.list(&["ab", "ab"], |pickle, text| pickle.text(text));
        assert_eq!(pickle.finish(), b"\x80\x02](X\x02\0\0\0abq\0h\0e.");
    }
}
