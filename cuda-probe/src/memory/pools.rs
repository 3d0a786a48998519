//! Stream-ordered memory: blocks of pools. The driver allocates and frees them in the order of the
//! calls; a pool retains what was freed until the program waits for the device, so pools are
//! sampled then too.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use memtrace_wire::event::Kind;

use super::{graphs, linear};
use crate::driver::errno::keeping_errno;
use crate::driver::query::current;
use crate::driver::{SUCCESS, Status, query};
use crate::probe::{acquired, releasing, report};

/// CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
const RESERVED: c_int = 5;
/// CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
const RESERVED_MOST: c_int = 6;
/// CU_MEMPOOL_ATTR_USED_MEM_CURRENT
const USED: c_int = 7;
/// CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
const POOL_HANDLE: c_int = 17;

/// A pool that blocks came from.
struct Pool {
    handle: AtomicU64,
    device: AtomicU32,
    /// What was reported of it last: reserved, used, the most it ever reserved.
    reported: [AtomicU64; 3],
}

/// Programs have one for each device, seldom more; those beyond are not sampled.
static POOLS: [Pool; 64] = [const {
    Pool {
        handle: AtomicU64::new(0),
        device: AtomicU32::new(NO_DEVICE),
        reported: [const { AtomicU64::new(0) }; 3],
    }
}; 64];
/// Some block came from a pool.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// Stands for a handle while a place is being filled in: no handle is that.
const FILLING: u64 = 1;
/// Threads that are sampling a pool, which must not be destroyed meanwhile.
static SAMPLING: AtomicU32 = AtomicU32::new(0);

/// CU_STREAM_LEGACY: the stream that all threads have in common.
pub const LEGACY: u64 = 1;
/// CU_STREAM_PER_THREAD: the thread's own.
pub const OWN: u64 = 2;

/// `cuMemAllocAsync`, whose stream 0 is this one.
pub unsafe fn alloc_async<const DEFAULT: u64>(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: usize,
    stream: u64,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { alloc_from(call, out, bytes, None, if stream == 0 { DEFAULT } else { stream }) }
}

/// `cuMemAllocFromPoolAsync`, likewise.
pub unsafe fn alloc_from_pool<const DEFAULT: u64>(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: usize,
    pool: u64,
    stream: u64,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { alloc_from(call, out, bytes, Some(pool), if stream == 0 { DEFAULT } else { stream }) }
}

/// `cuMemFreeAsync`
pub unsafe fn free_async(call: impl FnOnce() -> Status, address: u64, _stream: u64) -> Status {
    free(call, address)
}

/// `cuMemFree`, which takes blocks of pools as well.
pub unsafe fn free_now(call: impl FnOnce() -> Status, address: u64) -> Status {
    free(call, address)
}

/// The same with addresses of 32 bits, before CUDA 3.2.
pub unsafe fn free_short(call: impl FnOnce() -> Status, address: u32) -> Status {
    free(call, u64::from(address))
}

/// `cuMemPoolTrimTo`
pub unsafe fn trim(call: impl FnOnce() -> Status, pool: u64, _keep: usize) -> Status {
    let status = call();
    sample(pool);
    status
}

/// `cuMemPoolDestroy`
pub unsafe fn destroy(call: impl FnOnce() -> Status, pool: u64) -> Status {
    let mut device = None;
    while let Some(place) = place(pool) {
        device = Some(place.device.load(Ordering::Relaxed));
        place.handle.store(0, Ordering::SeqCst);
    }
    // A thread that found it before that samples it now, for some microseconds.
    let mut tries = 10_000;
    while SAMPLING.load(Ordering::SeqCst) != 0 && tries > 0 {
        // SAFETY: takes nothing and changes nothing.
        keeping_errno(|| unsafe { libc::sched_yield() });
        tries -= 1;
    }
    let status = releasing(Memory::Pool, 0, pool, call);
    if status != SUCCESS
        && let Some(device) = device
    {
        remember(pool, device);
    }
    status
}

/// `cuMemPoolImportPointer`
pub unsafe fn import_pointer(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    pool: u64,
    _share: *const c_void,
) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the call has stored the address there.
        let address = unsafe { *out };
        let bytes = linear::bytes_at(address) as u64;
        let (memory, device) = (Memory::ImportedPool as u32, linear::device_of(address));
        acquired(address, &DeviceRecord { memory, device, owner: pool, bytes, ..DeviceRecord::NONE });
    }
    status
}

/// The program has waited for a context, a stream or an event: what was freed may have left its
/// pool. Which streams have freed something that is still in flight is not known here, so each pool
/// is sampled that has reserved more than is used.
pub fn waited(status: Status) -> Status {
    if status == SUCCESS {
        for pool in &POOLS {
            let [reserved, used, _] = &pool.reported;
            if reserved.load(Ordering::Relaxed) > used.load(Ordering::Relaxed) {
                sample(pool.handle.load(Ordering::Relaxed));
            }
        }
    }
    status
}

/// The pool that the current device's blocks come from, 0 if the driver does not say.
fn device_pool() -> u64 {
    let mut pool = 0;
    // SAFETY: a place for the answer.
    keeping_errno(|| unsafe { query::device_pool(&mut pool, current().0 as c_int) });
    pool
}

/// A block of `pool`, or of the one that the block itself knows: a stream may be another device's
/// than the current one.
#[inline(always)]
unsafe fn alloc_from(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: usize,
    pool: Option<u64>,
    stream: u64,
) -> Status {
    let captured = graphs::is_capturing(stream);
    let status = call();
    if status != SUCCESS {
        return status;
    }
    // SAFETY: the call has stored the address there.
    let address = unsafe { *out };
    if captured {
        graphs::promised(address, bytes, linear::device_of(address));
        return status;
    }
    let pool = pool.or_else(|| pool_of(address)).unwrap_or_else(device_pool);
    let (memory, device) = (Memory::Pool as u32, linear::device_of(address));
    let record = DeviceRecord { memory, device, owner: pool, bytes: bytes as u64, ..DeviceRecord::NONE };
    acquired(address, &record);
    remember(pool, device);
    sample(pool);
    status
}

#[inline(always)]
fn free(call: impl FnOnce() -> Status, address: u64) -> Status {
    // Where no block ever came from a pool, none returns to one.
    let may_be = address != 0 && IN_USE.load(Ordering::Relaxed);
    let pool = may_be.then(|| pool_of(address)).flatten().and_then(place);
    let status = linear::release(Memory::Linear, call, address);
    if status == SUCCESS {
        graphs::sample_all();
    }
    if status == SUCCESS
        && let Some(pool) = pool
    {
        sample(pool.handle.load(Ordering::Relaxed));
    }
    status
}

/// The pool that a block belongs to, if it does and the driver says so.
fn pool_of(address: u64) -> Option<u64> {
    let mut pool = 0u64;
    // SAFETY: a place for a handle.
    let status =
        keeping_errno(|| unsafe { query::pointer_attribute((&raw mut pool).cast(), POOL_HANDLE, address) });
    (status == SUCCESS && pool != 0).then_some(pool)
}

fn place(pool: u64) -> Option<&'static Pool> {
    POOLS.iter().find(|place| pool > FILLING && place.handle.load(Ordering::SeqCst) == pool)
}

/// Assigns a place to a pool, if one is left.
fn remember(pool: u64, device: u32) {
    if pool <= FILLING || place(pool).is_some() {
        return;
    }
    IN_USE.store(true, Ordering::Relaxed);
    let free = |place: &&Pool| {
        place.handle.compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    if let Some(place) = POOLS.iter().find(free) {
        place.device.store(device, Ordering::Relaxed);
        place.reported.iter().for_each(|figure| figure.store(0, Ordering::Relaxed));
        place.handle.store(pool, Ordering::Release);
    }
}

/// Reports what a pool has reserved, and what of it is used, if that has changed.
fn sample(pool: u64) {
    // A thread that destroys the pool frees its place first, and waits for
    // those that sample it then.
    SAMPLING.fetch_add(1, Ordering::SeqCst);
    if let Some(place) = place(pool)
        && let Some(figures) = figures(pool)
    {
        let mut is_new = false;
        for (last, figure) in place.reported.iter().zip(figures) {
            is_new |= last.swap(figure, Ordering::Relaxed) != figure;
        }
        if is_new {
            let [bytes, extra, most] = figures;
            let (memory, device) = (Memory::Pool as u32, place.device.load(Ordering::Relaxed));
            let record =
                DeviceRecord { memory, device, owner: pool, bytes, extra, most, ..DeviceRecord::NONE };
            report(Kind::DevicePool, 0, &record);
        }
    }
    SAMPLING.fetch_sub(1, Ordering::SeqCst);
}

/// What a pool has reserved, what of it is used, and the most it ever reserved.
fn figures(pool: u64) -> Option<[u64; 3]> {
    let mut figures = [0; 3];
    for (figure, attribute) in figures.iter_mut().zip([RESERVED, USED, RESERVED_MOST]) {
        // SAFETY: a place for the answer.
        let status = keeping_errno(|| unsafe { query::pool_attribute(pool, attribute, figure) });
        if status != SUCCESS {
            return None;
        }
    }
    Some(figures)
}
