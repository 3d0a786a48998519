//! Pools of the driver, and graphs.

use super::*;

#[test]
fn a_graph_may_run_again() {
    let mut process = Process::default();
    process.acquire(Memory::Graph, 0x1000, 7, 0);
    assert_eq!(process.free(0x1000).ended.len(), 1);
    process.free(0x1000);
    process.acquire(Memory::Graph, 0x1000, 9, 0);
    process.acquire(Memory::Graph, 0x1000, 9, 0);
    process.now += 10 * PATIENCE;
    process.free(0x1000);
    process.devices.end_all();
    assert_eq!(process.devices.unseen(), 0);
}

#[test]
fn pools_reserve_and_their_blocks_are_used() {
    let mut process = Process::default();
    process.acquire(Memory::Pool, 0x1000, 3 * MIB, 5);
    assert_eq!(process.now(), (3 * MIB, 3 * MIB as i64), "as much at least");
    process.pool_reported(Memory::Pool, 5, [32 * MIB, 3 * MIB, 32 * MIB]);
    process.acquire(Memory::Pool, 0x2000, 4 * MIB, 5);
    process.pool_reported(Memory::Pool, 5, [32 * MIB, 7 * MIB, 32 * MIB]);
    process.free(0x1000);
    assert_eq!(process.now(), (32 * MIB, 4 * MIB as i64));
    process.release(Memory::Pool, 0, 5); // destroyed
    assert_eq!(process.now().0, 32 * MIB, "until its last block is gone");
    process.free(0x2000);
    assert_eq!(process.now(), (0, 0));
    let row = process.row();
    assert_eq!((row.peak_driver_bytes, row.peak_pool_bytes), (32 * MIB, 32 * MIB));
    assert_eq!((row.peak_used_bytes, row.used_at_peak_bytes), (7 * MIB, 7 * MIB));
}

#[test]
fn a_pool_that_could_not_be_destroyed_is_there() {
    let mut process = Process::default();
    process.pool_reported(Memory::Pool, 5, [32 * MIB, 0, 32 * MIB]);
    process.release(Memory::Pool, 0, 5);
    assert_eq!(process.now().0, 0);
    process.release_failed(Memory::Pool, 0, 5).unwrap();
    assert_eq!(process.now().0, 32 * MIB);
}

#[test]
fn what_a_pool_had_between_two_reports_counts_for_the_peak() {
    let mut process = Process::default();
    process.alloc(0x1000, MIB);
    process.pool_reported(Memory::Graph, 0, [0, 0, 64 * MIB]);
    assert_eq!(process.now().0, MIB);
    assert_eq!((process.row().peak_driver_bytes, process.row().peak_pool_bytes), (65 * MIB, 64 * MIB));
    process.acquire(Memory::Graph, 0x9000, 8 * MIB, 0);
    process.pool_reported(Memory::Graph, 0, [64 * MIB, 8 * MIB, 64 * MIB]);
    assert_eq!(process.now(), (65 * MIB, 9 * MIB as i64), "as the driver reports, not by addresses");
}
