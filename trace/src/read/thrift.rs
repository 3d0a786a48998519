//! Walks the compact Thrift of Parquet's headers without taking memory: what they announce is known
//! before the library believes it.

/// Structs and lists inside each other; Parquet's own nest five deep.
const DEPTH: u8 = 32;

/// The kinds that are told apart here.
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
pub(super) const TEXT: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// What is left of a header. Every step is `None` where the header ends early or makes no sense.
pub(super) struct Walker<'a> {
    rest: &'a [u8],
}

impl<'a> Walker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Walker<'a> {
        Walker { rest: bytes }
    }

    /// Bytes that were not walked over.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Passes the fields of a struct to `each`, by number and kind; it walks over the value.
    pub(super) fn fields(&mut self, mut each: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        let mut number = 0i16;
        loop {
            let byte = self.byte()?;
            let (step, kind) = (byte >> 4, byte & 15);
            if kind == 0 {
                return Some(());
            }
            number = match step {
                0 => i16::try_from(self.number()?).ok()?,
                step => number.checked_add(step.into())?,
            };
            each(self, number, kind)?;
        }
    }

    /// A whole number, sign last.
    pub(super) fn number(&mut self) -> Option<i64> {
        let bits = self.varint()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The beginning of a list: how many elements, and their kind.
    pub(super) fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let size = match byte >> 4 {
            15 => self.varint()?,
            size => size.into(),
        };
        Some((size, byte & 15))
    }

    /// Over a field's value.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        match kind {
            // The kind of a field says whether it is true.
            1 | 2 => Some(()),
            kind => self.skip_within(kind, DEPTH),
        }
    }

    fn skip_within(&mut self, kind: u8, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.over(8),
            8 => self.varint().and_then(|length| self.over(length)),
            LIST | 10 => {
                let (size, kind) = self.list()?;
                (0..size).try_for_each(|_| self.skip_within(kind, depth))
            }
            STRUCT => self.fields(|walker, _, kind| match kind {
                1 | 2 => Some(()),
                kind => walker.skip_within(kind, depth),
            }),
            // Parquet has no maps, and readers do not agree on how long a list of truths is.
            _ => None,
        }
    }

    fn over(&mut self, length: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(length).ok()?..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lists_and_structs_are_walked() {
        // 1: i32 -2, 2: [1, 2], 3: {1: "ab"}, 20: i64 300
        let bytes = [0x15, 3, 0x19, 0x23, 1, 2, 0x1c, 0x18, 2, b'a', b'b', 0, 0x06, 40, 0xd8, 4, 0, 9];
        let mut seen = Vec::new();
        let mut walker = Walker::new(&bytes);
        walker
            .fields(|walker, number, kind| {
                seen.push((number, kind));
                match number {
                    1 => walker.number().filter(|number| *number == -2).map(drop),
                    20 => walker.number().filter(|number| *number == 300).map(drop),
                    _ => walker.skip(kind),
                }
            })
            .unwrap();
        assert_eq!((seen, walker.left()), (vec![(1, 5), (2, 9), (3, 12), (20, 6)], 1));
    }

    #[test]
    fn what_ends_early_or_nests_without_end_is_none() {
        let nested = [0x1c; 100_000];
        assert!(Walker::new(&nested).skip(STRUCT).is_none());
        assert!(Walker::new(&[0x99; 64]).skip(LIST).is_none());
        assert!(Walker::new(&[0xff; 64]).number().is_none());
        assert!(Walker::new(&[0x18, 200]).skip(STRUCT).is_none());
        assert!(Walker::new(&[0x21, 1, 2]).skip(LIST).is_none(), "a list of truths");
    }
}
