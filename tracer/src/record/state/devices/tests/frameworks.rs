//! Blocks that frameworks suballocate of memory that they have from the driver.

use super::*;

/// A framework reports a release once it is done, when another thread may have got the block
/// already.
#[test]
fn a_late_release_is_settled() {
    let mut process = Process::default();
    process.torch(0x1000, 10);
    let second = process.torch(0x1000, 20);
    assert_eq!(second.ended[0].1.block.bytes, 10);
    assert_eq!(process.release(Memory::TorchBlock, 0x1000, 0).ended, [], "that of the first");
    assert_eq!(process.devices.used(), 20);
    assert_eq!(process.release(Memory::TorchBlock, 0x1000, 0).ended.len(), 1);
    assert_eq!((process.now(), process.devices.unseen()), ((0, 0), 0));
    // One that never comes is none after some time.
    process.torch(0x1000, 10);
    process.torch(0x1000, 20);
    process.now += 10 * PATIENCE;
    assert_eq!(process.release(Memory::TorchBlock, 0x1000, 0).ended.len(), 1);
    assert_eq!(process.devices.unseen(), 1);
}

/// PyTorch requests a segment and suballocates it: neither the segment nor both together were ever
/// used.
#[test]
fn blocks_of_frameworks_count_in_place_of_what_they_lie_in() {
    let mut process = Process::default();
    process.alloc(0x100000, 20 * MIB);
    let first = process.torch(0x100000, 3 * MIB);
    let carved = Change { span: Some(7), site: None, bytes: -20 * MIB as i64, carved: true };
    assert_eq!(first.used[0], carved);
    process.torch(0x400000, 4 * MIB);
    process.alloc(0x9000000, MIB); // not by the framework
    assert_eq!(process.now(), (21 * MIB, 8 * MIB as i64));
    process.release(Memory::TorchBlock, 0x100000, 0);
    process.release(Memory::TorchBlock, 0x400000, 0);
    assert_eq!(process.now(), (21 * MIB, MIB as i64), "what is cached is not used");
    process.free(0x100000);
    assert_eq!(process.now(), (MIB, MIB as i64));
    let row = process.row();
    assert_eq!(
        (row.peak_driver_bytes, row.peak_used_bytes, row.used_at_peak_bytes),
        (21 * MIB, 8 * MIB, 8 * MIB)
    );
    assert_eq!(row.peak_framework_bytes, Some(7 * MIB));
}

/// Expandable segments: pieces of physical memory, mapped side by side, under one block.
#[test]
fn blocks_over_mapped_memory_count_in_its_place() {
    let mut process = Process::default();
    for piece in 0..3 {
        process.acquire(Memory::Physical, 0, 2 * MIB, 100 + piece);
        process.acquire(Memory::Mapped, (1 + piece) * 2 * MIB, 2 * MIB, 100 + piece);
    }
    process.torch(2 * MIB, 3 * MIB);
    assert_eq!(process.now(), (6 * MIB, 5 * MIB as i64), "the third piece has no block in it");
    assert_eq!(
        process.devices.around(3 * MIB).map(|(start, live)| (start, live.is_framework())),
        Some((2 * MIB, true))
    );
    process.release(Memory::TorchBlock, 2 * MIB, 0);
    assert_eq!(process.row().peak_used_bytes, 5 * MIB);
}

#[test]
fn blocks_in_managed_memory_are_not_used_bytes_of_the_device() {
    let mut process = Process::default();
    process.acquire(Memory::Managed, 0x1000, MIB, 0);
    process.acquire(Memory::PoolBlock, 0x1100, 256, 0);
    assert_eq!((process.now(), process.row().peak_framework_bytes), ((0, 0), Some(256)));
}
