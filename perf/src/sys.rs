//! perf_event_open(2), its rings and poll(2): all that is unsafe here.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;

use crate::arch::registers;
use crate::event::{Content, Event, Rate};
use crate::record::sample_type;
use crate::ring;

/// Bytes of a page.
pub(crate) fn page() -> usize {
    // SAFETY: reads a number of the C library's.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Opens an event on one processor for the programs that children of this thread will execute;
/// `leader` is for a group, and `wake` how many unread bytes wake a waiter.
pub(crate) fn open(event: &Event, config: [u64; 3], setting: Setting) -> Result<OwnedFd> {
    let mut attributes = abi::perf_event_attr {
        type_: event.unit,
        size: size_of::<abi::perf_event_attr>() as u32,
        config: config[0],
        sample_type: sample_type(event.content),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.__bindgen_anon_3.config1 = config[1];
    attributes.__bindgen_anon_4.config2 = config[2];
    attributes.__bindgen_anon_2.wakeup_watermark = setting.wake;
    match (event.rate, setting.samples) {
        (Rate::Period(period), true) => attributes.__bindgen_anon_1.sample_period = period,
        (Rate::Frequency(hertz), true) => {
            attributes.__bindgen_anon_1.sample_freq = hertz;
            attributes.set_freq(1);
        }
        // A leader only opens the way for its group.
        (_, false) => {}
    }
    // Children inherit the event, disabled as it is here, and it is enabled
    // when one executes a program.
    attributes.set_disabled(u64::from(setting.leader.is_none()));
    attributes.set_inherit(1);
    attributes.set_enable_on_exec(u64::from(setting.leader.is_none()));
    attributes.set_exclude_kernel(u64::from(setting.user_only));
    attributes.set_use_clockid(1);
    attributes.set_watermark(1);
    attributes.set_sample_id_all(1);
    match event.content {
        Content::Accesses => attributes.set_precise_ip(u64::from(event.precise)),
        Content::Registers => attributes.sample_regs_user = registers::MASK,
        // Forks and names of processes.
        Content::Faults => {
            attributes.set_task(1);
            attributes.set_comm(1);
            attributes.set_comm_exec(1);
        }
    }
    let leader = setting.leader.map_or(-1, AsRawFd::as_raw_fd);
    let flags = u64::from(abi::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attributes` is a whole structure of the size that it states.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(&mut attributes, 0, setting.cpu as i32, leader, flags)
    };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How an event is opened.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) cpu: u32,
    pub(crate) user_only: bool,
    pub(crate) leader: Option<&'a OwnedFd>,
    pub(crate) samples: bool,
    pub(crate) wake: u32,
}

/// The ring of an event: a page that says what was written and read, and the data.
pub(crate) struct Mapping {
    page: *mut abi::perf_event_mmap_page,
    /// Bytes of the data, a power of two.
    size: usize,
}

// SAFETY: only this value has the mapping, and the kernel's side is atomic.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `pages` of data, a power of two.
    pub(crate) fn new(event: &OwnedFd, pages: usize) -> Result<Mapping> {
        let (length, protection) = ((1 + pages) * page(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of a descriptor of ours.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        Ok(Mapping { page: start.cast(), size: pages * page() })
    }

    /// Moves what is unread to the end of `bytes`. False if the ring says what cannot be.
    pub(crate) fn drain(&mut self, bytes: &mut Vec<u8>) -> bool {
        // SAFETY: both lie in the first page, aligned, and are written atomically by the kernel.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*self.page).data_head),
                AtomicU64::from_ptr(&raw mut (*self.page).data_tail),
            )
        };
        let (written, read) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let page = page();
        let pieces = ring::unread(self.size, read, written);
        for piece in pieces.iter().flatten() {
            // SAFETY: the piece lies in the data, which follows the first page; the kernel writes
            // to it again only after `tail` has passed it.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.page.cast::<u8>().add(page + piece.start), piece.len())
            });
        }
        tail.store(written, Ordering::Release);
        pieces.is_some()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length.
        unsafe { libc::munmap(self.page.cast(), page() + self.size) };
    }
}

/// Waits until one of the descriptors is readable.
pub(crate) fn wait(descriptors: &mut [libc::pollfd]) {
    // SAFETY: a slice with its length.
    unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, -1) };
}

pub(crate) fn readable(descriptor: RawFd) -> libc::pollfd {
    libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 }
}
