//! Why nothing is sampled, each in one sentence.

/// What keeps an event from being opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This user may not.
    #[error(
        "perf events are not allowed to this user (kernel.perf_event_paranoid is {0}; 2 or less would do, or CAP_PERFMON)"
    )]
    NotAllowed(String),
    /// The user may, but something else forbids the call.
    #[error("perf_event_open is forbidden here, most likely by the container's system call filter")]
    Filtered,
    /// No PEBS, no IBS.
    #[error("this machine has no unit that samples memory accesses (virtual machines seldom have one)")]
    NoUnit,
    /// No decoder for the architecture's instructions.
    #[error("which memory instructions touch is known on x86-64 only: sample hardware or faults here")]
    NotDecoded,
    /// The kernel has no such event, or not for processes.
    #[error("{event} cannot be sampled: {error}")]
    Open {
        /// Which one.
        event: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The ring cannot be had: `perf_event_mlock_kb`, memory.
    #[error("no ring for samples (kernel.perf_event_mlock_kb): {0}")]
    Ring(std::io::Error),
}

impl Error {
    /// Of a perf_event_open(2) that failed.
    pub(crate) fn open(event: &str, error: std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
                match paranoid.map(|level| level.trim().to_owned()) {
                    Ok(level) if level.parse::<i32>().is_ok_and(|level| level > 2) => {
                        Error::NotAllowed(level)
                    }
                    _ => Error::Filtered,
                }
            }
            _ => Error::Open { event: event.to_owned(), error },
        }
    }
}
