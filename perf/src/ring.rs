//! Where in a ring its unread bytes lie.

use std::ops::Range;

/// The unread bytes of a ring of `size` bytes (a power of two), in at most two pieces. `None` if
/// there cannot be that many.
pub(crate) fn unread(size: usize, tail: u64, head: u64) -> Option<[Range<usize>; 2]> {
    let length = usize::try_from(head.wrapping_sub(tail)).ok().filter(|length| *length <= size)?;
    let start = (tail & (size as u64 - 1)) as usize;
    let first = length.min(size - start);
    Some([start..start + first, 0..length - first])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Content;
    use crate::record::tests::{records, written};
    use crate::record::{Record, parse};

    /// A ring as the kernel writes it: positions only grow, bytes lie at their remainder.
    struct Ring {
        data: Vec<u8>,
        head: u64,
        tail: u64,
    }

    impl Ring {
        fn write(&mut self, bytes: &[u8]) -> bool {
            let free = self.data.len() - self.head.wrapping_sub(self.tail) as usize;
            if bytes.len() > free {
                return false;
            }
            for byte in bytes {
                let at = (self.head & (self.data.len() as u64 - 1)) as usize;
                self.data[at] = *byte;
                self.head = self.head.wrapping_add(1);
            }
            true
        }

        fn read(&mut self) -> Vec<Record> {
            let pieces =
                unread(self.data.len(), self.tail, self.head).expect("no more than there is room for");
            let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| self.data[piece].to_vec()).collect();
            self.tail = self.head;
            let mut records = Vec::new();
            assert_eq!(parse(&bytes, Content::Faults, |record| records.push(record)), 0);
            records
        }
    }

    proptest! {
        /// Whatever the position, and however often the ring wraps around,
        /// records come out as they went in.
        #[test]
        fn records_that_wrap_around_come_out_whole(
            records in records(Content::Faults),
            start in any::<u64>().prop_map(|at| at & !7),
            burst in 1..6usize,
        ) {
            let mut ring = Ring { data: vec![0; 512], head: start, tail: start };
            let mut read = Vec::new();
            for burst in records.chunks(burst) {
                for record in burst {
                    prop_assert!(ring.write(&written(record, Content::Faults)));
                }
                read.extend(ring.read());
            }
            prop_assert_eq!(read, records);
        }

        #[test]
        fn positions_that_cannot_be_are_refused(tail in any::<u64>(), more in 513..u64::MAX) {
            prop_assert_eq!(unread(512, tail, tail.wrapping_add(more)), None);
        }
    }
}
