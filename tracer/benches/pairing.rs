//! What pairing costs by itself: cargo bench --bench pairing
//!
//! The table of live blocks, on the addresses that the C library gave to a program that frees and
//! allocates at random; lines are prefetched as far ahead as the tracer does.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use memtrace_trace::rows::Kind;

#[allow(dead_code, unused_imports)] // its tests
#[path = "../src/record/state/blocks/mod.rs"]
mod blocks;
use blocks::{Block, Blocks, Part};

const EVENTS: usize = 1 << 20;
/// As in `record/fold/heap.rs`.
const EXPECTED: usize = 16;

fn main() {
    divan::main();
}

/// An acquire of this many bytes, or a release (0), of the block at an address.
type Call = (u64, u64);

/// Knuth's MMIX generator.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (((*state >> 32) * below as u64) >> 32) as usize
}

fn churn(slots: usize) -> (Vec<Call>, Vec<Call>) {
    let mut state = 1;
    let layout = |bytes| Layout::from_size_align(bytes, 8).expect("small");
    // SAFETY: no size is zero; each block is released once, with its layout.
    let new = |bytes| unsafe { alloc(layout(bytes)) };
    let mut live: Vec<(*mut u8, usize)> = (0..slots).map(|_| (new(16), 16)).collect();
    let first = live.iter().map(|(block, bytes)| (*block as u64, *bytes as u64)).collect();
    let mut calls = Vec::with_capacity(EVENTS);
    while calls.len() < EVENTS {
        let slot = &mut live[draw(&mut state, slots)];
        calls.push((slot.0 as u64, 0));
        // SAFETY: as above.
        unsafe { dealloc(slot.0, layout(slot.1)) };
        let bytes = 16 + 16 * draw(&mut state, 16);
        *slot = (new(bytes), bytes);
        calls.push((slot.0 as u64, bytes as u64));
    }
    for (block, bytes) in live {
        // SAFETY: as above.
        unsafe { dealloc(block, layout(bytes)) };
    }
    (first, calls)
}

fn block(bytes: u64, alloc: u64) -> Block {
    Block {
        bytes,
        alloc,
        thread: 0,
        span: None,
        ordinal: 0,
        kind: Kind::Malloc,
        site: None,
        part: Part::None,
    }
}

#[divan::bench(args = [1_000, 20_000, 100_000], sample_count = 20)]
fn random(bencher: Bencher, slots: usize) {
    let (first, calls) = churn(slots);
    let begin = || {
        let mut blocks = Blocks::default();
        for (address, bytes) in &first {
            blocks.insert(*address, block(*bytes, 0));
        }
        blocks
    };
    bencher.counter(ItemsCount::new(EVENTS)).with_inputs(begin).bench_local_values(|mut blocks| {
        let mut sum = 0u64;
        for (at, (address, bytes)) in calls.iter().enumerate() {
            calls.get(at + EXPECTED).into_iter().for_each(|(address, _)| blocks.expect(*address));
            calls.get(at + EXPECTED / 2).into_iter().for_each(|(address, _)| blocks.expect_soon(*address));
            match bytes {
                0 => sum += black_box(blocks.remove(*address)).map_or(0, |block| block.alloc),
                _ => sum += u64::from(blocks.insert(*address, block(*bytes, at as u64)).is_some()),
            }
        }
        (sum, blocks)
    });
}
