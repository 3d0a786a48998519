//! Memory on devices: the functions by which the CUDA probe (`cuda-probe/`), and language bindings
//! (`include/memtrace.h`), report what happens to it. Blocks come with their call stack, large or
//! not: there are few of them.

use core::ffi::{c_char, c_int};

use memtrace_wire::device::{DeviceRecord, Memory, NAME_MAX, RECORD_BYTES};
use memtrace_wire::event::Kind;
use memtrace_wire::stack::words;

use crate::arch::entry::{Entry, entered};
use crate::ring::record::acquire_with_words;
use crate::ring::sampling;

entered! {
    /// Writes a device event of the kind with this code: [`memtrace_wire::device`] says what
    /// belongs in it. 0 if it is one.
    #[unsafe(no_mangle)]
    memtrace_probe_device_1(kind: u32, address: u64, record: *const DeviceRecord, name: *const c_char, name_bytes: usize) -> c_int => device_from;
    /// `memtrace_device_block` of `memtrace.h`.
    #[unsafe(no_mangle)]
    memtrace_device_block(address: u64, bytes: u64, device: u32, reserved: u64, used: u64) -> () => block_from;
}

unsafe extern "C" fn device_from(
    kind: u32,
    address: u64,
    record: *const DeviceRecord,
    name: *const c_char,
    name_bytes: usize,
    entry: Entry,
) -> c_int {
    let kind = u8::try_from(kind).ok().and_then(Kind::from_code).filter(|kind| kind.is_device());
    // SAFETY: the caller passes a record or null.
    let Some((kind, record)) = kind.zip(unsafe { record.as_ref() }) else { return -1 };
    let name_bytes = if name.is_null() { 0 } else { name_bytes.min(NAME_MAX) };
    let name = if name_bytes == 0 { c"".as_ptr() } else { name };
    // SAFETY: the caller passes that number of readable bytes.
    report(kind, address, record, unsafe { core::slice::from_raw_parts(name.cast(), name_bytes) }, entry);
    0
}

unsafe extern "C" fn block_from(
    address: u64,
    bytes: u64,
    device: u32,
    reserved: u64,
    used: u64,
    entry: Entry,
) {
    let memory = Memory::PoolBlock as u32;
    let record = DeviceRecord { memory, device, context: 0, owner: 0, bytes, extra: reserved, most: used };
    report(Kind::DeviceBlock, address, &record, &[], entry);
}

fn report(kind: Kind, address: u64, record: &DeviceRecord, name: &[u8], entry: Entry) {
    let acquires = matches!(kind, Kind::DeviceAcquire | Kind::DeviceBlock) && record.bytes > 0;
    let entry = (acquires && sampling::is_on()).then_some(entry);
    let text = record.words().into_iter().chain(words(name));
    acquire_with_words(kind, address, RECORD_BYTES + name.len(), text, entry);
}
