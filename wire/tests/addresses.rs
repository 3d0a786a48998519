//! Events come back with the addresses that they had.

use memtrace_wire::arch::address::ZERO_BITS;
use memtrace_wire::event::{Event, Kind, compact_stamp};

#[test]
fn an_address_comes_back_whatever_bits_it_has() {
    for bit in 0..56 {
        let (address, stamp) = (1 << bit | 1 << 20, 7);
        let event = Event { kind: Kind::Malloc, address, stamp, bytes: 24, extra: 0, stack: 3 };
        // Two words have 44 bits of it.
        let fits = (ZERO_BITS..44 + ZERO_BITS).contains(&bit);
        assert_eq!(event.compact().is_some(), fits, "bit {bit}");
        let words = match event.compact() {
            Some(first) => [first, compact_stamp(stamp, event.stack), 0, 0],
            None => event.encode(),
        };
        let (read, _) = Event::decode(&words, stamp).expect("an event");
        assert_eq!(read, event);
    }
}
