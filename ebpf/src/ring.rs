//! The ring that events come through (Documentation/bpf/ringbuf.rst): one page with our position,
//! one with the kernel's, and the data, mapped twice in a row so that no record is cut.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use memtrace_wire::arch::page::bytes as page_bytes;

use crate::Error;
use crate::event::Event;
use crate::sys::Map;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// The reading end.
pub(crate) struct Ring {
    consumer: *mut u8,
    producer: *mut u8,
    bytes: usize,
    page: usize,
}

// SAFETY: only this value has the mappings, and the kernel's side is atomic.
unsafe impl Send for Ring {}

impl Ring {
    pub(crate) fn open(map: &Map, bytes: usize) -> Result<Ring, Error> {
        let (fd, page) = (map.fd.as_raw_fd(), page_bytes() as usize);
        let shared = |length: usize, protection: i32, offset: usize| {
            // SAFETY: a new mapping of a descriptor of ours.
            let place = unsafe {
                libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, offset as i64)
            };
            (place != libc::MAP_FAILED)
                .then_some(place.cast::<u8>())
                .ok_or_else(|| Error::call("cannot map the BPF ring"))
        };
        let consumer = shared(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = shared(page + 2 * bytes, libc::PROT_READ, page).inspect_err(|_| {
            // SAFETY: just mapped.
            unsafe { libc::munmap(consumer.cast(), page) };
        })?;
        Ok(Ring { consumer, producer, bytes, page })
    }

    /// Passes on the events that have come, in the order in which they were begun; stops at one
    /// that is being written.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Event)) {
        // SAFETY: both pages begin with such a word, aligned to a page (kernel/bpf/ringbuf.c).
        let (read, written) =
            unsafe { (&*self.consumer.cast::<AtomicUsize>(), &*self.producer.cast::<AtomicUsize>()) };
        let mut at = read.load(Ordering::Relaxed);
        let end = written.load(Ordering::Acquire);
        while at < end {
            // SAFETY: records begin at multiples of 8 and, mapped twice, lie in one piece.
            let record = unsafe { self.producer.add(self.page + (at & (self.bytes - 1))) };
            // SAFETY: the header's first word is the length and two marks; the kernel sets it last.
            let length = unsafe { &*record.cast::<AtomicU32>() }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the kernel has written this many bytes behind the header.
                let written = unsafe { std::slice::from_raw_parts(record.add(HEADER), bytes) };
                Event::from_bytes(written).into_iter().for_each(&mut each);
            }
            at += (bytes + HEADER).next_multiple_of(8);
            read.store(at, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, with these lengths.
        unsafe {
            libc::munmap(self.consumer.cast(), self.page);
            libc::munmap(self.producer.cast(), self.page + 2 * self.bytes);
        }
    }
}
