//! A segment from the tracer's side: made, sealed, read through typed views, and given up when no
//! process has it any more. What it says is never trusted: its geometry is the tracer's own copy.

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, ensure};
use memtrace_wire::handshake::Wants;
use memtrace_wire::layout::{ACTIVE, Geometry, SLOTS_OFFSET, SegmentHeader, Slot};
use memtrace_wire::ring::Reader;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, Resource, getrlimit, test_kill_process};

/// Segments at one time: fewer than a process may have mappings (vm.max_map_count).
const MOST: usize = 16_384;
/// Descriptors that are left for the trace and /proc: without one, nothing more is written.
const DESCRIPTORS_LEFT: u64 = 128;
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// As many as there are descriptors for; half of them where they are few.
fn most() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let ours = descriptors - DESCRIPTORS_LEFT.min(descriptors / 2);
    usize::try_from(ours).unwrap_or(MOST).min(MOST)
}

/// A segment, mapped.
pub struct Segment {
    base: *mut u8,
    geometry: Geometry,
    descriptor: OwnedFd,
    /// The process that it was made for; none if that is not known here.
    peer: Option<Pid>,
    /// No process can write it; a mapping of it is a copy.
    sealed: bool,
}

// SAFETY: memory that is made of atomics, or only changed by its owner.
unsafe impl Send for Segment {}

impl Segment {
    /// Makes an empty segment whose size can no longer change: a program that shrank it would kill
    /// the tracer with SIGBUS. Blocks of its image may be placed. The peer is the process that asked
    /// for it, or 0 ([`Credentials`](super::handshake::Credentials)).
    pub fn create(wants: Wants, placed: bool, peer: u32) -> Result<Segment> {
        let alive = ALIVE.load(Ordering::Relaxed);
        ensure!(alive < most(), "{alive} segments are in use already");
        let geometry = wants.geometry();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = memfd_create("memtrace", flags)
            .map_err(|error| anyhow!("cannot create shared memory: {error}"))?;
        ftruncate(&descriptor, geometry.bytes() as u64)
            .and_then(|()| fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW))
            .map_err(|error| anyhow!("cannot size shared memory: {error}"))?;
        let base = map(&descriptor, geometry, false)?;
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let segment = Segment { base, geometry, descriptor, peer: Pid::from_raw(peer as i32), sealed: false };
        segment.header().placed.store(placed.into(), Ordering::Relaxed);
        Ok(segment)
    }

    /// False once the process that it was made for has ended.
    pub fn peer_lives(&self) -> bool {
        self.peer.is_none_or(|peer| test_kill_process(peer) != Err(Errno::SRCH))
    }

    /// Unmaps it for good if no process can write it any more and all was read. (F_SEAL_WRITE,
    /// memfd_create(2): the kernel refuses it while there is a writable mapping.)
    ///
    /// # Errors
    /// It has to be mapped again, and cannot be.
    ///
    /// # Safety
    /// Nothing refers to its slots or rings.
    pub unsafe fn give_up(self) -> Result<Option<Segment>> {
        let mut segment = self;
        segment.unmap();
        if segment.sealed {
            return Ok(None);
        }
        segment.sealed = fcntl_add_seals(&segment.descriptor, SealFlags::WRITE).is_ok();
        // A thread may have claimed a slot and ended since they were looked through.
        if segment.sealed && !segment.is_claimed() {
            return Ok(None);
        }
        segment.base = map(&segment.descriptor, segment.geometry, segment.sealed)?;
        Ok(Some(segment))
    }

    /// True if one of its slots is active; it need not be mapped.
    fn is_claimed(&self) -> bool {
        let number = |offset: usize| {
            let mut bytes = [0; 4];
            let read = pread(&self.descriptor, &mut bytes, offset as u64);
            read.is_ok_and(|read| read == bytes.len()).then(|| u32::from_ne_bytes(bytes))
        };
        let used = number(offset_of!(SegmentHeader, slots_used)).unwrap_or(0) as usize;
        let state = |slot: usize| SLOTS_OFFSET + slot * size_of::<Slot>() + offset_of!(Slot, state);
        (0..used.min(self.geometry.slots)).any(|slot| number(state(slot)) == Some(ACTIVE))
    }

    fn unmap(&mut self) {
        let base = std::mem::replace(&mut self.base, null_mut());
        if !base.is_null() {
            // SAFETY: our own mapping; its readers were dropped before (`reader`).
            let unmapped = unsafe { munmap(base.cast(), self.geometry.bytes()) };
            debug_assert!(unmapped.is_ok());
        }
    }

    /// The descriptor to send to the probe.
    pub fn duplicate(&self) -> Result<OwnedFd> {
        self.descriptor.try_clone().context("cannot duplicate the shared memory's descriptor")
    }

    /// Head of the segment.
    pub fn header(&self) -> &SegmentHeader {
        // SAFETY: the start of the mapping; all fields are atomics.
        unsafe { &*self.base.cast() }
    }

    /// How many slots it has.
    pub fn slot_count(&self) -> usize {
        self.geometry.slots
    }

    /// Slots that were ever claimed.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let used = (self.header().slots_used.load(Ordering::Acquire) as usize).min(self.geometry.slots);
        // SAFETY: one of its slots; all fields are atomics.
        (0..used).map(|index| (index, unsafe { &*self.base.add(SLOTS_OFFSET).cast::<Slot>().add(index) }))
    }

    /// A reader for the ring of a slot that was just found active.
    ///
    /// # Safety
    /// It is dropped before the segment, and is the only one of the slot.
    pub unsafe fn reader(&self, index: usize) -> Reader {
        assert!(index < self.geometry.slots);
        // SAFETY: in the mapping, for as long as the caller says.
        unsafe {
            Reader::new(
                self.base.add(SLOTS_OFFSET).cast::<Slot>().add(index),
                self.base.add(self.geometry.ring(index)).cast::<AtomicU64>(),
                self.geometry.ring_words,
            )
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.unmap();
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn map(descriptor: &OwnedFd, geometry: Geometry, copied: bool) -> Result<*mut u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = if copied { MapFlags::PRIVATE } else { MapFlags::SHARED } | MapFlags::NORESERVE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { mmap(null_mut(), geometry.bytes(), protection, flags, descriptor, 0) };
    base.map(|base| base.cast()).map_err(|error| anyhow!("cannot map shared memory: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_when_no_process_has_it() {
        let segment = Segment::create(Wants::First, false, 0).unwrap();
        let theirs = map(&segment.descriptor, segment.geometry, false).unwrap();
        segment.header().slots_used.store(7, Ordering::Relaxed);
        // SAFETY: nothing refers to it.
        let segment = unsafe { segment.give_up() }.unwrap().expect("there is another mapping");
        assert_eq!(segment.slots().count(), 7, "it is as it was");
        // SAFETY: the mapping made above, not used any more.
        unsafe { munmap(theirs.cast(), segment.geometry.bytes()) }.unwrap();
        // SAFETY: nothing refers to it.
        assert!(unsafe { segment.give_up() }.unwrap().is_none());
    }

    #[test]
    fn what_was_claimed_last_is_read_before_it_is_given_up() {
        let segment = Segment::create(Wants::First, false, 0).unwrap();
        segment.header().slots_used.store(2, Ordering::Relaxed);
        segment.slots().skip(1).for_each(|(_, slot)| slot.state.store(ACTIVE, Ordering::Relaxed));
        // SAFETY: nothing refers to it.
        let segment = unsafe { segment.give_up() }.unwrap().expect("a slot is claimed");
        assert!(segment.sealed);
        let is_active = |(_, slot): (usize, &Slot)| slot.state.swap(0, Ordering::Relaxed) == ACTIVE;
        assert_eq!(segment.slots().filter(|each| is_active(*each)).count(), 1);
        // SAFETY: nothing refers to it.
        assert!(unsafe { segment.give_up() }.unwrap().is_none(), "it was read");
    }

    #[test]
    fn what_it_says_of_its_size_is_not_believed() {
        let segment = Segment::create(Wants::Further, false, 0).unwrap();
        segment.header().slots_used.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(segment.slots().count(), segment.slot_count());
        assert!(ftruncate(&segment.descriptor, 1).is_err());
    }
}
