//! The settings of a recording, and what its tracer is doing: memory that every recorded process
//! reads and none can change.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

use anyhow::{Result, anyhow, ensure};
use memtrace_wire::layout::{
    CLOCK_COUNTER, CLOCK_MONOTONIC, MAGIC, RECORDER_OFFSET, Recorder, SETTINGS_BYTES, Settings, TEXT_OFFSET,
    VERSION,
};
use memtrace_wire::sampling::Sampling;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::placing::Placing;

/// The descriptor to send to probes, and the tracer's own view.
pub struct Sealed {
    /// To be mapped for reading.
    pub descriptor: OwnedFd,
    /// What the tracer says that it is doing.
    pub recorder: &'static Recorder,
}

/// Writes the settings, with the text that Python interpreters run when they start, and seals them
/// (F_SEAL_FUTURE_WRITE, memfd_create(2), since Linux 5.1): only the mapping that is made here can
/// write them. A process with other rights than the tracer's could otherwise change what an
/// interpreter with the tracer's rights runs. The calling thread is the tracer: probes see when it
/// dies.
///
/// # Errors
/// The text is too long, or there is no shared memory.
pub fn seal(counts: bool, sampling: Sampling, text: &str, placing: Option<&Placing>) -> Result<Sealed> {
    const TEXT_BYTES: usize = SETTINGS_BYTES - TEXT_OFFSET;
    ensure!(text.len() < TEXT_BYTES, "too many operators: their names take more than {TEXT_BYTES} bytes");
    let table = placing.map(Placing::table).unwrap_or_default();
    let settings = Settings {
        magic: MAGIC,
        version: VERSION,
        clock: if counts { CLOCK_COUNTER } else { CLOCK_MONOTONIC },
        stacks_from: sampling.exact_from,
        stacks_mean: sampling.mean_bytes,
        placement: placing.map(|placing| placing.settings(table.len())).unwrap_or_default(),
    };
    let table: Vec<u8> = table.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let failed = |error: std::io::Error| anyhow!("cannot create shared memory: {error}");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let descriptor = memfd_create("memtrace-settings", flags).map_err(|error| failed(error.into()))?;
    let file = File::from(descriptor);
    // Zeroes follow the text.
    ftruncate(&file, (SETTINGS_BYTES + table.len()) as u64)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all_at(&settings.encode(), 0))
        .and_then(|()| file.write_all_at(text.as_bytes(), TEXT_OFFSET as u64))
        .and_then(|()| file.write_all_at(&table, SETTINGS_BYTES as u64))
        .map_err(failed)?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { mmap(null_mut(), TEXT_OFFSET, protection, flags, &file, 0) }
        .map_err(|error| failed(error.into()))?;
    // SAFETY: in the mapping, which is never unmapped: signal handlers use it to the end.
    let recorder: &'static Recorder = unsafe { &*base.byte_add(RECORDER_OFFSET).cast() };
    hold(recorder);
    let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(|error| anyhow!("cannot seal shared memory: {error}"))?;
    Ok(Sealed { descriptor: file.into(), recorder })
}

/// Locks the tracer's robust mutex: probes see it marked when the calling thread dies. What the C
/// library keeps in it is out of the reach of recorded processes.
fn hold(recorder: &Recorder) {
    let mutex = (&raw const recorder.tracer).cast_mut().cast();
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;

    use rustix::mm::{MprotectFlags, mprotect};

    use super::*;

    #[test]
    fn no_process_can_change_them() {
        let sampling = Sampling { exact_from: 3, mean_bytes: 4 };
        let Sealed { descriptor, recorder } = seal(true, sampling, "pass", None).unwrap();
        let file = File::from(descriptor);
        let bytes = std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(&bytes[TEXT_OFFSET..TEXT_OFFSET + 5], b"pass\0");
        assert_eq!(bytes[16], 3);
        let refused = |done: std::io::Result<()>| {
            assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EPERM));
        };
        recorder.detached.store(1, Ordering::Relaxed);
        let now = std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!((bytes[RECORDER_OFFSET], now[RECORDER_OFFSET]), (0, 1), "the tracer itself can");
        refused(file.write_all_at(b"x", 0));
        let map = |protection| {
            // SAFETY: a new mapping.
            unsafe { mmap(null_mut(), SETTINGS_BYTES, protection, MapFlags::SHARED, &file, 0) }
        };
        refused(map(ProtFlags::READ | ProtFlags::WRITE).map(|_| ()).map_err(Into::into));
        // SAFETY: the mapping that was just made.
        let changed = unsafe { mprotect(map(ProtFlags::READ).unwrap(), 4096, MprotectFlags::WRITE) };
        assert_eq!(changed, Err(rustix::io::Errno::ACCESS));
        refused(file.set_len(1));
        refused(file.set_len(2 * SETTINGS_BYTES as u64));
        refused(fcntl_add_seals(&file, SealFlags::empty()).map_err(Into::into));
        assert!(seal(true, sampling, &"x".repeat(SETTINGS_BYTES), None).is_err());
    }
}
