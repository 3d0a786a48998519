//! What describing a call stack costs by itself: cargo bench --bench unwinding
//!
//! `remembered`: looking a stack of 12 frames up, each with a return address and a saved frame
//! pointer, among the stacks that go through it. `rules`: reading the rule of a program counter
//! from the C library's `.eh_frame`, which is done once for each.

use std::hint::black_box;
use std::mem::MaybeUninit;

use divan::Bencher;
use divan::counter::ItemsCount;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

#[path = "../../probe-lib/src/arch"]
mod arch {
    #[allow(dead_code)]
    #[path = "x86_64/unwind.rs"]
    pub mod unwind;
}
#[allow(dead_code)]
#[path = "../../probe-lib/src/stack/unwind/cache.rs"]
mod cache;
#[allow(dead_code)]
#[path = "../../probe-lib/src/stack/unwind/cfi/mod.rs"]
mod cfi;

use cache::{Cache, Read};

const FRAMES: usize = 12;
const LOOK_UPS: usize = 10_000;

fn main() {
    divan::main();
}

/// Puts stack number `of` where it would lie: each of its frames was called from one of two places.
fn enter(stack: &mut [u64; 2 * FRAMES], of: usize) {
    for frame in 0..FRAMES {
        stack[2 * frame] = 0x7ffe_0000 + frame as u64 * 64;
        stack[2 * frame + 1] = 0x5555_0000 + frame as u64 * 256 + (of >> frame & 1) as u64 * 32;
    }
}

fn words(stack: &[u64; 2 * FRAMES]) -> Vec<Read> {
    stack.iter().map(|word| Read { address: &raw const *word as usize, word: *word }).collect()
}

#[divan::bench(args = [1, 100, 700])]
fn remembered(bencher: Bencher, stacks: usize) {
    // SAFETY: all zeroes is an empty one.
    let mut cache: Box<Cache> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
    let mut stack = Box::new([0; 2 * FRAMES]);
    for of in 0..stacks {
        enter(&mut stack, of);
        // SAFETY: all that is kept can be read.
        if let Err(missed) = unsafe { cache.find(1, 2) } {
            cache.keep(&missed, &words(&stack)).expect("there is room");
        }
    }
    let mut of = 0usize;
    bencher.counter(ItemsCount::new(LOOK_UPS)).bench_local(|| {
        for _ in 0..LOOK_UPS {
            of = of.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            enter(&mut stack, (of >> 33) % stacks);
            // SAFETY: as above.
            black_box(unsafe { cache.find(1, 2) }).expect("it is remembered");
        }
    });
}

/// Only entering, to be subtracted.
#[divan::bench]
fn entered(bencher: Bencher) {
    let mut stack = Box::new([0; 2 * FRAMES]);
    let mut of = 0usize;
    bencher.counter(ItemsCount::new(LOOK_UPS)).bench_local(|| {
        for _ in 0..LOOK_UPS {
            of = of.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            enter(&mut stack, (of >> 33) % 700);
            black_box(&stack);
        }
    });
}

#[divan::bench]
fn rules(bencher: Bencher) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().last()).find(|path| path.contains("libc.so"));
    let data = std::fs::read(path.expect("a C library")).expect("it was just loaded");
    let file = object::File::parse(&*data).expect("ELF");
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
    let mut memory = vec![0u8; end as usize];
    for segment in file.segments() {
        let (at, data) = (segment.address() as usize, segment.data().expect("it is there"));
        memory[at..at + data.len()].copy_from_slice(data);
    }
    let base = memory.as_ptr() as usize;
    let index = base + file.section_by_name(".eh_frame_hdr").expect("of x86-64").address() as usize;
    let functions = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.size() > 8);
    let counters: Vec<usize> = functions.map(|symbol| base + symbol.address() as usize + 4).collect();
    bencher.counter(ItemsCount::new(counters.len())).bench_local(|| {
        for counter in &counters {
            // SAFETY: the file's segments are where they belong, seen from `base`.
            black_box(unsafe { cfi::rule(index, *counter) });
        }
    });
}
