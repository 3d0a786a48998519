//! What resident memory was made of, at its peak.

use memtrace_trace::rows::ProcessRow;

/// Parts of a process's resident memory at its peak, bytes, the probe's rings left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtPeak {
    /// Anonymous and shared memory: what a program allocates, and its stacks and data.
    pub memory: u64,
    /// Pages of files: code, libraries, mapped files.
    pub file: u64,
    /// Live bytes then, where a probe or mapping calls told of them.
    pub live: Option<u64>,
    /// `memory` less `live`: stacks, static data, what allocators keep for themselves; below 0 where more was asked
    /// for than touched.
    pub unexplained: Option<i64>,
}

impl AtPeak {
    /// `None` where no kernel side saw it.
    pub fn of(process: &ProcessRow) -> Option<AtPeak> {
        let memory = process.resident_anon_bytes?.saturating_add(process.resident_shmem_bytes?);
        let memory = memory.saturating_sub(process.probe_bytes);
        let live = process.resident_live_bytes;
        Some(AtPeak {
            memory,
            file: process.resident_file_bytes?,
            live,
            unexplained: live.map(|live| memory as i64 - live as i64),
        })
    }
}
