//! The probe's memory of stacks, which cannot be tested where it is built (it has no standard
//! library): whatever it answers, unwinding would have said the same.

#[allow(dead_code)]
#[path = "../../probe-lib/src/stack/unwind/cache.rs"]
mod cache;

use std::collections::HashMap;
use std::mem::MaybeUninit;

use cache::{Cache, NOT_KEPT, Read};
use proptest::prelude::*;

/// Stands for unwinding: which word is read next, and when to stop, depends on where it began and
/// on the words read so far, and on nothing else. Returns what was read.
fn unwind(memory: &[u64], counter: usize) -> Vec<Read> {
    let mut state = counter as u64;
    let mut reads = Vec::new();
    for _ in 0..40 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        if state >> 60 == 0 {
            break;
        }
        let place = &memory[(state >> 33) as usize % memory.len()];
        reads.push(Read { address: &raw const *place as usize, word: *place });
        state ^= *place;
    }
    reads
}

fn empty() -> Box<Cache> {
    // SAFETY: all zeroes is an empty one.
    Box::new(unsafe { MaybeUninit::<Cache>::zeroed().assume_init() })
}

proptest! {
    #[test]
    fn what_is_remembered_is_what_unwinding_reads(
        changes in prop::collection::vec((0..24usize, 0..3u64, 0..4usize), 1..3000),
    ) {
        let mut cache = empty();
        let mut memory = vec![0u64; 24];
        let mut described: HashMap<u16, (usize, Vec<Read>)> = HashMap::new();
        let mut remembered = 0;
        for (at, word, counter) in changes {
            memory[at] = word;
            let reads = unwind(&memory, counter);
            // SAFETY: all reads are of `memory`.
            match unsafe { cache.find(counter, 1) } {
                Ok(number) => {
                    remembered += 1;
                    prop_assert_eq!(&described[&number], &(counter, reads));
                }
                Err(missed) => {
                    let number = cache.keep(&missed, &reads).unwrap_or(NOT_KEPT);
                    prop_assert!(number > 0 && number < NOT_KEPT);
                    described.insert(number, (counter, reads));
                    // SAFETY: as above.
                    prop_assert_eq!(unsafe { cache.find(counter, 1) }.ok(), Some(number));
                }
            }
        }
        prop_assert!(remembered > 0 || described.len() < 3000);
    }
}

#[test]
fn it_begins_anew_when_it_is_full() {
    let mut cache = empty();
    let words: Vec<u64> = (0..5000).collect();
    for (counter, word) in words.iter().enumerate() {
        let read = Read { address: &raw const *word as usize, word: *word };
        for _ in 0..2 {
            // SAFETY: the words are there.
            let number = unsafe { cache.find(counter, 0) };
            let number = number.unwrap_or_else(|missed| cache.keep(&missed, &[read; 30]).unwrap());
            assert!(number < NOT_KEPT);
        }
    }
}

#[test]
fn words_that_changed_meanwhile_are_not_kept() {
    let mut cache = empty();
    let mut word = 1u64;
    let address = &raw const word as usize;
    let find = |cache: &Cache| {
        // SAFETY: the word is there.
        unsafe { cache.find(7, 7) }
    };
    let missed = find(&cache).unwrap_err();
    assert!(cache.keep(&missed, &[Read { address, word }]).is_some());
    word = 2;
    let missed = find(&cache).unwrap_err();
    assert_eq!(cache.keep(&missed, &[Read { address, word: 3 }]), None);
    assert!(cache.keep(&missed, &[Read { address, word }]).is_some());
}
