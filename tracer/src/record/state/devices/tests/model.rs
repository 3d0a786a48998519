//! Random processes against simple models.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What can happen in a small process: kind of memory, place, size.
#[derive(Debug, Clone)]
enum Step {
    Acquire(Memory, u64, u64),
    Release(u64),
    Fails(u64),
    Report(u64),
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let memory = prop::sample::select(vec![
        Memory::Linear,
        Memory::Array,
        Memory::Managed,
        Memory::Host,
        Memory::Pool,
        Memory::Physical,
    ]);
    let step = prop_oneof![
        6 => (memory, 0..12u64, 1..100u64).prop_map(|(memory, place, bytes)| Step::Acquire(memory, place, bytes)),
        4 => (0..12u64).prop_map(Step::Release),
        1 => (0..12u64).prop_map(Step::Fails),
        2 => (0..50u64).prop_map(Step::Report),
        1 => Just(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

/// The simple model: all blocks by place, and the one pool.
#[derive(Default)]
struct Model {
    live: BTreeMap<u64, (Memory, u64)>,
    reserved: u64,
    peak_driver: u64,
    peak_used: u64,
}

impl Model {
    fn sum(&self, kinds: &[Memory]) -> u64 {
        self.live.values().filter(|(memory, _)| kinds.contains(memory)).map(|(_, bytes)| bytes).sum()
    }

    fn now(&self) -> (u64, i64) {
        let own = self.sum(&[Memory::Linear, Memory::Array, Memory::Physical]);
        let blocks = self.sum(&[Memory::Pool]);
        (own + self.reserved.max(blocks), (own + blocks) as i64)
    }

    fn note(&mut self) {
        let (driver, used) = self.now();
        self.peak_driver = self.peak_driver.max(driver);
        self.peak_used = self.peak_used.max(used as u64);
    }
}

/// Where the block of a place lies, and which handle it has.
fn place(memory: Memory, place: u64) -> (u64, u64) {
    match memory {
        Memory::Physical => (0, place + 1),
        Memory::Pool => (0x1000 * (place + 1), 77),
        _ => (0x1000 * (place + 1), 0),
    }
}

proptest! {
    /// Against adding everything up anew after each step.
    #[test]
    fn sums_and_peaks_are_those_of_a_simple_model(steps in steps()) {
        let (mut process, mut model) = (Process::default(), Model::default());
        let mut allocations = 0;
        for step in steps {
            match step {
                Step::Acquire(memory, at, bytes) if !model.live.contains_key(&at) => {
                    let (address, owner) = place(memory, at);
                    let outcome = process.acquire(memory, address, bytes, owner);
                    prop_assert_eq!(outcome.ended, []);
                    model.live.insert(at, (memory, bytes));
                    allocations += 1;
                }
                Step::Acquire(..) => {}
                Step::Release(at) => {
                    let Some((memory, bytes)) = model.live.remove(&at) else { continue };
                    let (address, owner) = place(memory, at);
                    let ended = process.release(memory, address, owner).ended;
                    prop_assert_eq!(ended.len(), 1);
                    prop_assert_eq!((ended[0].1.memory, ended[0].1.block.bytes), (memory, bytes));
                }
                Step::Fails(at) => {
                    let memory = model.live.get(&at).map_or(Memory::Linear, |(memory, _)| *memory);
                    let (address, owner) = place(memory, at);
                    process.release(memory, address, owner);
                    prop_assert!(process.release_failed(memory, address, owner).is_some());
                }
                Step::Report(more) => {
                    model.reserved = model.sum(&[Memory::Pool]) + more;
                    let reserved = model.reserved;
                    process.pool_reported(Memory::Pool, 77, [reserved, 0, reserved]);
                }
                Step::End => {
                    let is_of = |memory: &Memory| matches!(memory, Memory::Linear | Memory::Array | Memory::Host);
                    let ended = model.live.values().filter(|(memory, _)| is_of(memory)).count();
                    prop_assert_eq!(process.devices.end(1, None, process.now).ended.len(), ended);
                    model.live.retain(|_, (memory, _)| !is_of(memory));
                }
            }
            model.note();
            prop_assert_eq!(process.now(), model.now());
            prop_assert_eq!(process.devices.iter().count(), model.live.len());
        }
        let rows = process.devices.rows(0, |stamp| stamp as i64);
        prop_assert_eq!(rows.iter().map(|row| row.peak_driver_bytes).sum::<u64>(), model.peak_driver);
        prop_assert_eq!(rows.iter().map(|row| row.peak_used_bytes).sum::<u64>(), model.peak_used);
        prop_assert_eq!(rows.iter().map(|row| row.allocations).sum::<u64>(), allocations);
        prop_assert_eq!(process.devices.unseen(), 0);
    }

    /// A caching allocator: segments that it requests when it needs one, blocks of them. Used are
    /// its blocks, and what the program has from the driver itself; driver bytes are the segments
    /// and that.
    #[test]
    fn used_bytes_are_those_of_blocks(
        steps in prop::collection::vec((0..3u8, 0..6u64, 1..20u64), 1..150),
    ) {
        const SEGMENT: u64 = 100;
        let (mut process, mut blocks) = (Process::default(), BTreeMap::new());
        let (mut segments, mut own) = (BTreeMap::new(), BTreeMap::new());
        let (mut peak_used, mut peak_driver) = (0, 0);
        for (what, at, bytes) in steps {
            let (segment, slot) = (at / 4, at % 4);
            let base = 0x10000 * (segment + 1);
            match what {
                0 => {
                    // A new segment is requested just before its first block.
                    segments.entry(base).or_insert_with(|| process.alloc(base, SEGMENT));
                    if blocks.insert(base + slot * 25, bytes).is_none() {
                        process.torch(base + slot * 25, bytes);
                    } else {
                        blocks.insert(base + slot * 25, process.devices.around(base + slot * 25).unwrap().1.block.bytes);
                    }
                }
                1 => {
                    if blocks.remove(&(base + slot * 25)).is_some() {
                        process.release(Memory::TorchBlock, base + slot * 25, 0);
                    } else if !blocks.keys().any(|address| (base..base + SEGMENT).contains(address))
                        && segments.remove(&base).is_some()
                    {
                        process.free(base);
                    }
                }
                _ => {
                    let address = 0x9000000 + 0x1000 * at;
                    if own.remove(&address).is_some() {
                        process.free(address);
                    } else {
                        own.insert(address, bytes);
                        process.alloc(address, bytes);
                    }
                }
            }
            let of_own: u64 = own.values().sum();
            let (driver, used) = (segments.len() as u64 * SEGMENT + of_own, blocks.values().sum::<u64>() + of_own);
            (peak_driver, peak_used) = (driver.max(peak_driver), used.max(peak_used));
            prop_assert_eq!(process.now(), (driver, used as i64));
        }
        let row = process.row();
        prop_assert_eq!((row.peak_driver_bytes, row.peak_used_bytes), (peak_driver, peak_used));
    }
}
