//! Why there is no kernel side, each in one sentence.

/// What keeps the programs from being loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Built without clang.
    #[error("memtrace was built without clang, so it has no kernel side")]
    NotBuilt,
    /// Neither root nor the two capabilities.
    #[error("BPF programs need root, or CAP_BPF and CAP_PERFMON")]
    NotAllowed,
    /// The kernel was built without BTF, or it cannot be read.
    #[error("this kernel does not describe its types (/sys/kernel/btf/vmlinux): {0}")]
    NoBtf(std::io::Error),
    /// Its BTF is not what it should be.
    #[error("the types of this kernel cannot be read: {0}")]
    BadBtf(&'static str),
    /// Pids would mean something else.
    #[error("in a pid namespace of its own memtrace cannot identify processes by the kernel's ids")]
    Namespace,
    /// Times of programs would mean something else.
    #[error("in a time namespace of its own memtrace cannot convert times of the kernel's clock")]
    Time,
    /// A table of the programs is too short.
    #[error("this machine can have {0} processors, the programs are made for 512")]
    Processors(usize),
    /// Linux before 5.11 counts maps and programs as locked memory.
    #[error(
        "Linux before 5.11 counts BPF programs as locked memory, and this user may lock {0} KiB (ulimit -l)"
    )]
    Locked(u64),
    /// A type, member or tracepoint is missing.
    #[error("this kernel has no {0}, which the programs need (Linux 5.10 has all)")]
    Missing(String),
    /// The object and this kernel do not go together.
    #[error("the programs do not fit this kernel (they need Linux 5.10 or newer): {0}")]
    Unfit(String),
    /// A bpf(2) call failed.
    #[error("{what}: {error}")]
    Call {
        /// What was attempted.
        what: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// There are no more threads.
    #[error("cannot start a thread that loads the programs: {0}")]
    Thread(std::io::Error),
    /// A thread panicked.
    #[error("the thread that loads the programs gave up")]
    GaveUp,
    /// No such function.
    #[error("{0}")]
    Function(String),
}

impl Error {
    pub(crate) fn call(what: impl Into<String>) -> Error {
        Error::Call { what: what.into(), error: std::io::Error::last_os_error() }
    }
}
