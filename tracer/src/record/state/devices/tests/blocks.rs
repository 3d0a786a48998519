//! Blocks of the driver: how they come, go and end.

use super::*;

#[test]
fn blocks_come_and_go() {
    let mut process = Process::default();
    process.devices.found(0, b"Stand-in", 80 << 30);
    process.alloc(0x1000, 10 * MIB);
    process.acquire(Memory::Array, 0x1000, 5 * MIB, 0);
    assert_eq!(process.now(), (15 * MIB, 15 * MIB as i64));
    let freed = process.free(0x1000);
    assert_eq!(freed.ended[0].1.memory, Memory::Linear, "an array's handle is no address");
    assert_eq!(freed.used, [Change { span: Some(7), site: None, bytes: -10 * MIB as i64, carved: false }]);
    process.release(Memory::Array, 0x1000, 0);
    assert_eq!(process.now(), (0, 0));
    let row = process.row();
    assert_eq!((row.name.as_deref(), row.total_bytes), (Some("Stand-in"), Some(80 << 30)));
    assert_eq!(
        (row.peak_driver_bytes, row.peak_used_bytes, row.used_at_peak_bytes),
        (15 * MIB, 15 * MIB, 15 * MIB)
    );
    assert_eq!((row.allocations, row.requested_bytes, row.peak_ns), (2, 15 * MIB, 2));
}

#[test]
fn memory_of_the_host_is_none_of_a_device() {
    let mut process = Process::default();
    process.acquire(Memory::Managed, 0x1000, 3, 0);
    process.acquire(Memory::Host, 0x2000, 5, 0);
    process.acquire(Memory::Ipc, 0x3000, 7, 0);
    process.acquire(Memory::ImportedPhysical, 0, 11, 4);
    assert_eq!(process.now(), (0, 0));
    let rows = process.devices.rows(0, |stamp| stamp as i64);
    let [host, device] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((host.device, host.peak_host_bytes, host.peak_managed_bytes), (None, 5, 0));
    assert_eq!((device.peak_managed_bytes, device.peak_imported_bytes), (3, 18));
    assert_eq!(device.peak_driver_bytes, 0);
}

#[test]
fn physical_memory_stays_until_nothing_refers_to_it() {
    let mut process = Process::default();
    process.acquire(Memory::Physical, 0, 2 * MIB, 9);
    process.acquire(Memory::Mapped, 0x200000, 2 * MIB, 9);
    process.acquire(Memory::Mapped, 0x400000, 2 * MIB, 9);
    process.acquire(Memory::Physical, 0, 0, 9); // retained
    assert_eq!(process.now().0, 2 * MIB, "once, however often it is mapped");
    assert_eq!(process.row().allocations, 3);
    assert_eq!(process.release(Memory::Physical, 0, 9).ended, []);
    assert_eq!(process.release(Memory::Physical, 0, 9).ended, []);
    assert!(process.release_failed(Memory::Physical, 0, 9).is_some(), "that one failed");
    assert_eq!(process.release(Memory::Physical, 0, 9).ended, []);
    assert_eq!(process.devices.unmap(0x200000, 2 * MIB, 50).ended.len(), 1);
    assert_eq!(process.now().0, 2 * MIB);
    let last = process.devices.unmap(0x400000, 2 * MIB, 51).ended;
    assert_eq!(
        last.iter().map(|(_, live)| live.memory).collect::<Vec<_>>(),
        [Memory::Mapped, Memory::Physical]
    );
    assert_eq!(process.now(), (0, 0));
    process.release(Memory::Physical, 0, 9);
    assert_eq!(process.devices.unseen(), 1);
}

#[test]
fn a_handle_that_is_used_again_is_other_memory() {
    let mut process = Process::default();
    process.acquire(Memory::Physical, 0, 2 * MIB, 9);
    assert_eq!(process.acquire(Memory::Physical, 0, 4 * MIB, 9).ended.len(), 1);
    assert_eq!(process.now().0, 4 * MIB);
    assert_eq!(process.release(Memory::Physical, 0, 9).ended.len(), 1);
    assert_eq!((process.now().0, process.devices.unseen()), (0, 0));
}

#[test]
fn memory_of_another_process_is_there_until_it_was_closed_as_often_as_opened() {
    let mut process = Process::default();
    process.acquire(Memory::Ipc, 0x1000, 7, 0);
    process.acquire(Memory::Ipc, 0x1000, 7, 0);
    process.now += 10 * PATIENCE;
    assert_eq!(process.release(Memory::Ipc, 0x1000, 0).ended, []);
    assert_eq!(process.release(Memory::Ipc, 0x1000, 0).ended.len(), 1);
    assert_eq!((process.row().allocations, process.devices.unseen()), (1, 0));
    process.release(Memory::Ipc, 0x1000, 0);
    assert_eq!(process.devices.unseen(), 1);
}

/// Another thread gets an address of a context between its end and the report of that.
#[test]
fn of_what_ended_with_its_context_no_release_is_pending() {
    let mut process = Process::default();
    process.alloc(0x1000, 10);
    let record = DeviceRecord { context: 2, ..Process::record(Memory::Linear, 20, 0) };
    let live = DeviceBlock::new(process.block(Memory::Linear, 20), Memory::Linear, &record);
    process.devices.acquire(Key { class: Class::Device, address: 0x1000 }, live);
    assert_eq!(process.devices.end(1, None, process.now).ended, []);
    assert_eq!(process.free(0x1000).ended.len(), 1);
    assert_eq!((process.now(), process.devices.unseen()), ((0, 0), 0));
}

#[test]
fn a_release_that_fails_changes_nothing() {
    let mut process = Process::default();
    process.alloc(0x1000, 10);
    let before = process.devices.blocks.clone();
    process.free(0x1000);
    let outcome = process.release_failed(Memory::Linear, 0x1000, 0).unwrap();
    assert_eq!(outcome.used, [Change { span: Some(7), site: None, bytes: 10, carved: false }]);
    assert_eq!((process.devices.blocks.clone(), process.now()), (before, (10, 10)));
    assert_eq!(process.row().allocations, 1);
    // Nothing was there, and nothing was released.
    process.free(0x5000);
    assert_eq!(process.devices.unseen(), 1);
    process.release_failed(Memory::Linear, 0x5000, 0).unwrap();
    assert_eq!(process.devices.unseen(), 0);
    assert_eq!(process.release_failed(Memory::Linear, 0x5000, 0), None, "once");
    // Of another block, or another thread.
    process.free(0x1000);
    assert_eq!(process.release_failed(Memory::Linear, 0x2000, 0), None);
    assert_eq!(process.now(), (0, 0));
}

/// A block is released before the driver can allocate its address again.
#[test]
fn an_end_that_was_missed_hides_no_release() {
    for (memory, owner) in [(Memory::Linear, 0), (Memory::Pool, 5), (Memory::Array, 0), (Memory::Host, 0)] {
        let mut process = Process::default();
        process.acquire(memory, 0x1000, 10, owner);
        let second = process.acquire(memory, 0x1000, 20, owner);
        assert_eq!(second.ended[0].1.block.bytes, 10);
        let freed = process.release(memory_of_releases(memory), 0x1000, 0).ended;
        assert_eq!(freed.iter().map(|(_, live)| live.block.bytes).collect::<Vec<_>>(), [20], "{memory:?}");
        assert_eq!((process.devices.iter().count(), process.devices.unseen()), (0, 0));
    }
}

/// What kernels use is released by its address only.
fn memory_of_releases(memory: Memory) -> Memory {
    if memory == Memory::Pool { Memory::Linear } else { memory }
}

#[test]
fn an_early_release_meets_its_block() {
    let mut process = Process::default();
    let key = Key { class: Class::Device, address: 0x1000 };
    process.devices.release(1, key, None, 1, PATIENCE);
    process.alloc(0x1000, 10);
    assert_eq!(process.devices.early_release(0, key, 2, PATIENCE), Some(1));
    assert_eq!(process.devices.unseen(), 0);
    assert_eq!(process.devices.early_release(0, key, 2, PATIENCE), None);
}

#[test]
fn a_context_ends_with_what_is_its_own() {
    let mut process = Process::default();
    process.alloc(0x100000, MIB);
    process.torch(0x100200, 512);
    process.acquire(Memory::Host, 0x100000, 5, 0);
    process.acquire(Memory::Pool, 0x900000, MIB, 5);
    process.acquire(Memory::Physical, 0, 2 * MIB, 9);
    let ended = process.devices.end(1, None, 90).ended;
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert_eq!(process.now(), (3 * MIB, 3 * MIB as i64));
    process.pool_reported(Memory::Pool, 5, [32 * MIB, MIB, 32 * MIB]);
    assert_eq!(process.devices.end(0, Some(0), 91).ended.len(), 2);
    assert_eq!(process.now(), (0, 0));
}
