//! PyTorch's caching allocator reports each block that it hands out or takes back to a profiler,
//! attached or not, by `c10::reportMemoryUsageToProfiler`. That is called by its name, across
//! libraries, so it comes here first.

use core::ffi::c_void;

use memtrace_wire::device::{DeviceRecord, Memory};
use memtrace_wire::event::Kind;

use crate::arch::report::report_code;
use crate::driver::errno::keeping_errno;
use crate::driver::function::{Function, c_name};
use crate::driver::linker;
use crate::probe::report;

/// `c10::Device`: two bytes, passed in a register whose other bytes mean nothing.
#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i8,
    index: i8,
}

/// `c10::DeviceType::CUDA`
const CUDA: i8 = 1;

/// A function of PyTorch's base library: its call is reported, and then it is jumped to, so that it
/// returns (or throws) to its caller.
macro_rules! reports {
    ($($name:ident $find:ident;)*) => {
        $(
            /// Reports a block and jumps on.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                report_code!(block_changed, $find)
            }

            extern "C" fn $find() -> *mut c_void {
                static NEXT: Function = Function::new(c_name(concat!(stringify!($name), "\0")));
                next(&NEXT)
            }
        )*
    };
}

reports! {
    // (void*, int64_t, size_t, size_t, Device), from 2.1
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE find_unsigned;
    // (void*, int64_t, int64_t, int64_t, Device), before
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE find_signed;
}

/// The next definition: seldom in the global scope (`RTLD_NEXT`), because Python opens libraries
/// with local scope.
fn next(function: &'static Function) -> *mut c_void {
    let known = function.known();
    if !known.is_null() {
        return known;
    }
    keeping_errno(|| {
        // SAFETY: only finds a library that is loaded already; our caller is it, or depends on it.
        let library = unsafe { libc::dlopen(c"libc10.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        let place = if library.is_null() { libc::RTLD_NEXT } else { library };
        let found = linker::symbol(place, function.name());
        if !found.is_null() {
            function.learn(found);
        }
        found
    })
}

extern "C" fn block_changed(block: u64, bytes: i64, allocated: u64, reserved: u64, device: Device) {
    if device.kind != CUDA || bytes == 0 {
        return;
    }
    let record = DeviceRecord {
        memory: Memory::TorchBlock as u32,
        device: u32::from(device.index.max(0).unsigned_abs()),
        context: 0,
        owner: 0,
        bytes: bytes.max(0).unsigned_abs(),
        extra: reserved,
        most: allocated,
    };
    report(Kind::DeviceBlock, block, &record);
}
