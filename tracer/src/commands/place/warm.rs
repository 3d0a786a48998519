//! Memory that is handed out for the first time costs a virtual machine more than any other: its host
//! has to find it, too. Two runs that are to be compared must not differ by that.

use std::ptr::null_mut;

use memtrace_wire::placement::Tier;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::record::free_memory;

/// Uses this much memory once, pages of the tier's size, and releases it. Without it, what is
/// compared is less exact: what fails is left.
pub fn warm(tier: Tier, bytes: u64) {
    let bytes = bytes.min(free_memory().unwrap_or(0) / 2) as usize;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    if bytes == 0 {
        return;
    }
    // SAFETY: a new mapping, which no other code knows, and which is unmapped again.
    unsafe {
        let Ok(base) = mmap_anonymous(null_mut(), bytes, protection, flags) else { return };
        let pages = if tier == Tier::HugePages { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        let _ = madvise(base, bytes, pages);
        let _ = madvise(base, bytes, Advice::LinuxPopulateWrite);
        let _ = munmap(base, bytes);
    }
}
