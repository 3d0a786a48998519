//! The shared segment from the tracer's side: made, sealed, and read through typed views.

use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow};
use memtrace_wire::layout::{
    RING_WORDS, RINGS_OFFSET, SEGMENT_BYTES, SLOTS, SLOTS_OFFSET, SegmentHeader, Slot,
};
use memtrace_wire::ring::Reader;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// The segment, mapped for the life of the recording.
pub struct Segment {
    base: *mut u8,
    descriptor: OwnedFd,
}

impl Segment {
    /// Makes an empty segment whose size can no longer change: a program that shrank it would kill
    /// the tracer with SIGBUS.
    pub fn create() -> Result<Segment> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = memfd_create("memtrace", flags)
            .map_err(|error| anyhow!("cannot create shared memory: {error}"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        ftruncate(&descriptor, SEGMENT_BYTES as u64)
            .and_then(|()| fcntl_add_seals(&descriptor, seals))
            .map_err(|error| anyhow!("cannot size shared memory: {error}"))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(null_mut(), SEGMENT_BYTES, protection, flags, &descriptor, 0) }
            .map_err(|error| anyhow!("cannot map shared memory: {error}"))?;
        let segment = Segment { base: base.cast(), descriptor };
        segment.hold();
        Ok(segment)
    }

    /// Locks the tracer's robust mutex: probes see it marked when the calling thread dies.
    fn hold(&self) {
        let mutex = (&raw const self.header().tracer).cast_mut().cast();
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: the mutex lies in the mapping, and no other process has that yet.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(mutex, attributes.as_ptr());
            libc::pthread_mutex_lock(mutex);
        }
    }

    /// Head of the segment.
    pub fn header(&self) -> &SegmentHeader {
        // SAFETY: the start of the mapping; all fields are atomics.
        unsafe { &*self.base.cast() }
    }

    /// Slots that were ever claimed.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let used = (self.header().slots_used.load(Ordering::Acquire) as usize).min(SLOTS);
        // SAFETY: index < SLOTS; all fields are atomics.
        (0..used).map(|index| (index, unsafe { &*self.base.add(SLOTS_OFFSET).cast::<Slot>().add(index) }))
    }

    /// A reader for the ring of a slot that was just found active.
    pub fn reader(&self, index: usize) -> Reader {
        assert!(index < SLOTS);
        // SAFETY: in the mapping, which lives as long as the recording; the drain makes one per
        // claim.
        unsafe {
            Reader::new(
                self.base.add(SLOTS_OFFSET).cast::<Slot>().add(index),
                self.base.add(RINGS_OFFSET + index * RING_WORDS * 8).cast::<AtomicU64>(),
            )
        }
    }

    /// The descriptor to send to probes.
    pub fn duplicate(&self) -> Result<OwnedFd> {
        self.descriptor.try_clone().context("cannot duplicate the shared memory's descriptor")
    }
}
