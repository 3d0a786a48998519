//! The settings of a recording: memory that every recorded process reads and none can change.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use anyhow::{Result, anyhow, ensure};
use memtrace_wire::layout::{
    CLOCK_MONOTONIC, CLOCK_TSC, MAGIC, SETTINGS_BYTES, Settings, TEXT_OFFSET, VERSION,
};
use memtrace_wire::sampling::Sampling;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// Writes the settings, with the text that Python interpreters run when they start, and seals them
/// (memfd_create(2)). A process with other rights than the tracer's could otherwise change what an
/// interpreter with the tracer's rights runs.
///
/// # Errors
/// The text is too long, or there is no shared memory.
pub fn sealed(tsc: bool, sampling: Sampling, text: &str) -> Result<OwnedFd> {
    const TEXT_BYTES: usize = SETTINGS_BYTES - TEXT_OFFSET;
    ensure!(text.len() < TEXT_BYTES, "too many operators: their names take more than {TEXT_BYTES} bytes");
    let settings = Settings {
        magic: MAGIC,
        version: VERSION,
        clock: if tsc { CLOCK_TSC } else { CLOCK_MONOTONIC },
        stacks_from: sampling.exact_from,
        stacks_mean: sampling.mean_bytes,
    };
    let failed = |error: std::io::Error| anyhow!("cannot create shared memory: {error}");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let descriptor = memfd_create("memtrace-settings", flags).map_err(|error| failed(error.into()))?;
    let mut file = File::from(descriptor);
    file.write_all(&settings.encode()).and_then(|()| file.write_all(text.as_bytes())).map_err(failed)?;
    // Zeroes follow the text.
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    ftruncate(&file, SETTINGS_BYTES as u64)
        .and_then(|()| fcntl_add_seals(&file, seals))
        .map_err(|error| failed(error.into()))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn no_process_can_change_them() {
        let sampling = Sampling { exact_from: 3, mean_bytes: 4 };
        let file = File::from(sealed(true, sampling, "pass").unwrap());
        let bytes = std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(&bytes[TEXT_OFFSET..TEXT_OFFSET + 5], b"pass\0");
        assert_eq!(bytes[16], 3);
        let refused = |done: std::io::Result<()>| {
            assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EPERM));
        };
        refused((&file).write_all(b"x"));
        refused(file.set_len(1));
        refused(file.set_len(2 * SETTINGS_BYTES as u64));
        refused(fcntl_add_seals(&file, SealFlags::empty()).map_err(Into::into));
        assert!(sealed(true, sampling, &"x".repeat(SETTINGS_BYTES)).is_err());
    }
}
