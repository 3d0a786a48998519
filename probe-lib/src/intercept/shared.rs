//! Which memory a mapping shares with other processes: a file that exists in memory only
//! (memfd_create(2), shm_open(3), tmpfs(5)), or a segment of shmget(2). The tracer counts each such
//! object once, however many mappings of it there are.

use core::ffi::c_int;

use memtrace_wire::event::{Kind, SEGMENTS};

use crate::connection::process;
use crate::ring::record::event;
use crate::{sandbox, sys};

/// The thread maps this file next, if it is memory; true then.
pub fn file(descriptor: c_int, offset: i64) -> bool {
    if !process::is_recorded() || sandbox::is_filtered() {
        return false;
    }
    // SAFETY: all zeroes is valid for both, and the kernel fills them in.
    let (is_memory, about) = unsafe {
        let mut system: libc::statfs = core::mem::zeroed();
        let mut about: libc::stat = core::mem::zeroed();
        let descriptor = descriptor as usize;
        sys::syscall(libc::SYS_fstatfs, [descriptor, (&raw mut system) as usize, 0, 0, 0, 0]);
        let is_memory = matches!(system.f_type, libc::TMPFS_MAGIC | libc::HUGETLBFS_MAGIC)
            && sys::syscall(libc::SYS_fstat, [descriptor, (&raw mut about) as usize, 0, 0, 0, 0]) == 0;
        (is_memory, about)
    };
    if is_memory {
        event(Kind::Object, about.st_ino as usize, about.st_dev as usize, offset as u64);
    }
    is_memory
}

/// The thread attaches this segment next.
pub fn segment(id: c_int) {
    event(Kind::Object, id as usize, SEGMENTS as usize, 0);
}
