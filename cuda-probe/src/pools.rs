//! Stream-ordered memory: blocks of pools. The driver hands them out and takes them back in the order of the calls; a pool
//! keeps what was given back until the program waits for the device, so pools are looked at then too.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use memtrace_wire::event::Kind;

use crate::door::{acquired, aside, current, releasing, tell};
use crate::driver::{self, SUCCESS, Status};
use crate::{graphs, memory};

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
    /// What was last told of it: reserved, used, the most it ever reserved.
    told: [AtomicU64; 3],
}

/// Programs have one for each device, seldom more; those beyond are not looked at.
static POOLS: [Pool; 64] = [const {
    Pool {
        handle: AtomicU64::new(0),
        device: AtomicU32::new(NO_DEVICE),
        told: [const { AtomicU64::new(0) }; 3],
    }
}; 64];
/// Some block came from a pool.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// Stands for a handle while a place is being filled in: no handle is that.
const FILLING: u64 = 1;
/// Threads that look at pools, which are not to be destroyed under them.
static LOOKING: AtomicU32 = AtomicU32::new(0);

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
    look(pool);
    status
}

/// `cuMemPoolDestroy`
pub unsafe fn destroy(call: impl FnOnce() -> Status, pool: u64) -> Status {
    let mut device = None;
    while let Some(place) = place(pool) {
        device = Some(place.device.load(Ordering::Relaxed));
        place.handle.store(0, Ordering::SeqCst);
    }
    // Whoever found it before that looks at it now, for some microseconds.
    let mut patience = 10_000;
    while LOOKING.load(Ordering::SeqCst) != 0 && patience > 0 {
        // SAFETY: takes nothing and changes nothing.
        aside(|| unsafe { libc::sched_yield() });
        patience -= 1;
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
        let bytes = memory::bytes_at(address) as u64;
        let (memory, device) = (Memory::ImportedPool as u32, memory::device_of(address));
        acquired(address, &DeviceRecord { memory, device, owner: pool, bytes, ..DeviceRecord::NONE });
    }
    status
}

/// The program has waited for a context, a stream or an event: what was given back may have left its pool. Which streams have
/// given something back that is still under way is not known here, so each pool is looked at that has more than it handed out.
pub fn waited(status: Status) -> Status {
    if status == SUCCESS {
        for pool in &POOLS {
            let [reserved, used, _] = &pool.told;
            if reserved.load(Ordering::Relaxed) > used.load(Ordering::Relaxed) {
                look(pool.handle.load(Ordering::Relaxed));
            }
        }
    }
    status
}

/// The pool that the current device's blocks come from, 0 if the driver does not say.
fn device_pool() -> u64 {
    let mut pool = 0;
    // SAFETY: a place for the answer.
    aside(|| unsafe { driver::device_pool(&mut pool, current().0 as c_int) });
    pool
}

/// A block of `pool`, or of the one that the block itself knows: a stream may be another device's than the current one.
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
        graphs::promised(address, bytes, memory::device_of(address));
        return status;
    }
    let pool = pool.or_else(|| pool_of(address)).unwrap_or_else(device_pool);
    let (memory, device) = (Memory::Pool as u32, memory::device_of(address));
    let record = DeviceRecord { memory, device, owner: pool, bytes: bytes as u64, ..DeviceRecord::NONE };
    acquired(address, &record);
    remember(pool, device);
    look(pool);
    status
}

#[inline(always)]
fn free(call: impl FnOnce() -> Status, address: u64) -> Status {
    // Where no block ever came from a pool, none goes back to one.
    let may_be = address != 0 && IN_USE.load(Ordering::Relaxed);
    let pool = may_be.then(|| pool_of(address)).flatten().and_then(place);
    let status = memory::release(Memory::Linear, call, address);
    if status == SUCCESS {
        graphs::look_at_all();
    }
    if status == SUCCESS
        && let Some(pool) = pool
    {
        look(pool.handle.load(Ordering::Relaxed));
    }
    status
}

/// The pool that a block belongs to, if it does and the driver says so.
fn pool_of(address: u64) -> Option<u64> {
    let mut pool = 0u64;
    // SAFETY: a place for a handle.
    let status = aside(|| unsafe { driver::pointer_attribute((&raw mut pool).cast(), POOL_HANDLE, address) });
    (status == SUCCESS && pool != 0).then_some(pool)
}

fn place(pool: u64) -> Option<&'static Pool> {
    POOLS.iter().find(|place| pool > FILLING && place.handle.load(Ordering::SeqCst) == pool)
}

/// Gives a pool a place, if there is one left.
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
        place.told.iter().for_each(|figure| figure.store(0, Ordering::Relaxed));
        place.handle.store(pool, Ordering::Release);
    }
}

/// Tells what a pool has reserved, and handed out of it, if that has changed.
fn look(pool: u64) {
    // Who destroys it takes its place away first, and waits for those who look then.
    LOOKING.fetch_add(1, Ordering::SeqCst);
    if let Some(place) = place(pool)
        && let Some(figures) = figures(pool)
    {
        let mut is_new = false;
        for (told, figure) in place.told.iter().zip(figures) {
            is_new |= told.swap(figure, Ordering::Relaxed) != figure;
        }
        if is_new {
            let [bytes, extra, most] = figures;
            let (memory, device) = (Memory::Pool as u32, place.device.load(Ordering::Relaxed));
            let record =
                DeviceRecord { memory, device, owner: pool, bytes, extra, most, ..DeviceRecord::NONE };
            tell(Kind::DevicePool, 0, &record);
        }
    }
    LOOKING.fetch_sub(1, Ordering::SeqCst);
}

/// What a pool has reserved, handed out, and reserved at most.
fn figures(pool: u64) -> Option<[u64; 3]> {
    let mut figures = [0; 3];
    for (figure, attribute) in figures.iter_mut().zip([RESERVED, USED, RESERVED_MOST]) {
        // SAFETY: a place for the answer.
        let status = aside(|| unsafe { driver::pool_attribute(pool, attribute, figure) });
        if status != SUCCESS {
            return None;
        }
    }
    Some(figures)
}
