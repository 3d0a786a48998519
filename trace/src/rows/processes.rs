use serde::{Deserialize, Serialize};

use crate::column::table;

table! {
    Processes,
    /// A process image: `fork` starts one, `exec` starts one and ends the one before.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct ProcessRow {
        /// Index used by the other tables.
        pub process: u32,
        /// Process id.
        pub pid: u32,
        /// Process id of its parent.
        pub ppid: u32,
        /// Command line, separated by spaces; the program in single quotes if its path has one.
        pub command: String,
        /// Name of the machine it ran on.
        pub host: String,
        /// Id of its job, as the scheduler writes it: `4711`, or `4711_3` of an array (Slurm),
        /// `4711[3].server` (PBS), `4711[3]` (LSF); without a scheduler, what `mpirun` calls its job
        /// (`PMIX_NAMESPACE`). As its environment said when it was started.
        #[null("it ran outside of jobs, or that is not known")]
        pub job: Option<String>,
        /// Its rank, as `mpirun` or `srun` said it in its environment. What a rank starts has the same.
        #[null("nothing said one: a launcher, a batch script, a program without ranks")]
        pub rank: Option<u32>,
        /// How the image came to be: `exec` or `fork`.
        pub origin: String,
        /// Time of its first event.
        pub start_ns: i64,
        /// When it was seen to have ended.
        #[null("it outlived the recording")]
        pub end_ns: Option<i64>,
        /// Until when it counts in sums over all processes: it said that it would exit, or was seen
        /// to have ended.
        #[null("it outlived the recording")]
        pub parted_ns: Option<i64>,
        /// When its program ended, before it tidied up: `main` returned, `__main__` of a Python
        /// interpreter ended, or it called `exit`; of one that was killed, when that was seen.
        #[null("another program took its place, or it is not known")]
        pub main_end_ns: Option<i64>,
        /// Live bytes then.
        #[null("as `main_end_ns`")]
        pub live_bytes_at_end: Option<u64>,
        /// Exit status, 128+N after signal N; known for the recorded command itself.
        #[null("not known")]
        pub exit: Option<i32>,
        /// Peak of live bytes.
        pub peak_live_bytes: u64,
        /// Peak of the bytes that came through an allocator's symbols.
        pub peak_heap_bytes: u64,
        /// Peak of the program's own mappings, touched or not.
        pub peak_mapped_bytes: u64,
        /// Peak resident size as the kernel counts it, less `probe_bytes`; 0 if it was never
        /// sampled.
        pub peak_resident_bytes: u64,
        /// Resident bytes of the probe's own rings.
        pub probe_bytes: u64,
        /// When live bytes peaked.
        pub peak_ns: i64,
        /// Blocks allocated.
        pub allocations: u64,
        /// Sum of their sizes.
        pub requested_bytes: u64,
        /// Events dropped because a ring was full or unavailable.
        pub lost_events: u64,
        /// Releases of blocks inherited over `fork`.
        pub inherited_releases: u64,
        /// Releases of blocks the trace never saw allocated.
        pub unseen_releases: u64,
        /// Blocks allocated by threads that were in no span while spans of other threads of the
        /// process ran: what those spans may be missing.
        pub unattributed_allocations: u64,
        /// Sum of their sizes.
        pub unattributed_bytes: u64,
        /// Lower bound of the peak of live bytes without garbage.
        #[null("garbage was not tracked (`--gc`)")]
        pub gc_independent_bytes: Option<u64>,
        /// Its upper bound.
        #[null("garbage was not tracked (`--gc`)")]
        pub gc_independent_upper_bytes: Option<u64>,
        /// Known garbage among the bytes of that peak.
        #[null("garbage was not tracked (`--gc`)")]
        pub garbage_at_peak_bytes: Option<u64>,
        /// Garbage collections seen; 0 where the recording did not watch them.
        pub collections: u64,
        /// How long they took, together.
        pub collect_ns: u64,
        /// When the resident peak ended: the last moment at which this much was in memory.
        /// `peak_resident_bytes` is exact to the page then.
        #[null("there was no kernel side (`meta.recorded.kernel`)")]
        pub resident_peak_ns: Option<i64>,
        /// Anonymous memory at the resident peak.
        #[null("there was no kernel side (`meta.recorded.kernel`)")]
        pub resident_anon_bytes: Option<u64>,
        /// Pages of files then: code, libraries, mapped files.
        #[null("there was no kernel side (`meta.recorded.kernel`)")]
        pub resident_file_bytes: Option<u64>,
        /// Shared memory then, `probe_bytes` included.
        #[null("there was no kernel side (`meta.recorded.kernel`)")]
        pub resident_shmem_bytes: Option<u64>,
        /// Live bytes then. What is left of anonymous memory is stacks, static data, and what
        /// allocators keep for themselves or have not released to the kernel.
        #[null("there was no kernel side (`meta.recorded.kernel`), or no probe was in the process")]
        pub resident_live_bytes: Option<u64>,
        /// Of them, bytes of heap blocks of 1 MiB and more that were not touched by then.
        #[null("there was no kernel side (`meta.recorded.kernel`), it reported no faults, or no probe was in the process")]
        pub resident_untouched_bytes: Option<u64>,
        /// Bytes mapped by the program itself then, touched or not.
        #[null("there was no kernel side (`meta.recorded.kernel`), or no probe was in the process")]
        pub resident_mapped_bytes: Option<u64>,
        /// Resident bytes of its first stack, in the sample with most memory (samples are 50 ms
        /// apart; a short run may have none).
        #[null("/proc was never sampled closely")]
        pub resident_stack_bytes: Option<u64>,
        /// Resident bytes of variables of its executable and libraries then, and of what was
        /// written elsewhere in private mappings of files: anonymous memory that no call allocated.
        #[null("/proc was never sampled closely")]
        pub resident_data_bytes: Option<u64>,
        /// Page faults, those of the kernel on its behalf included. Counted by perf events
        /// (`meta.recorded.page_faults`) it is a multiple of `meta.recorded.page_faults_period`,
        /// below the true number by less than that for each thread and processor it ran on; with
        /// `perf_user` those of the kernel are missing.
        #[null("not counted (`meta.recorded.kernel`, `.page_faults`)")]
        pub page_faults: Option<u64>,
        /// Largest sampled size of its page tables (`VmPTE`): memory that no resident size
        /// includes.
        #[null("/proc was never sampled")]
        pub page_table_bytes: Option<u64>,
        /// Settings of the C library's allocator in its environment when it was started, separated
        /// by spaces: variables that begin with `MALLOC_` (mallopt(3)), and the part of
        /// `GLIBC_TUNABLES` on malloc. Empty if there are none. What a program sets by calling
        /// `mallopt` is not seen.
        #[null("not known")]
        pub allocator_settings: Option<String>,
    }
}

/// The program of a command line, and its arguments, as the column `command` has them.
pub fn split_command(command: &str) -> (&str, &str) {
    match command.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
        Some((program, arguments)) => (program, arguments.trim_start()),
        None => command.split_once(' ').unwrap_or((command, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_space_in_its_path_is_quoted() {
        assert_eq!(split_command("'/a b/python' run.py 'x'"), ("/a b/python", "run.py 'x'"));
        assert_eq!(split_command("python -c 'a b'"), ("python", "-c 'a b'"));
        assert_eq!(split_command("true"), ("true", ""));
        assert_eq!(split_command("'cut"), ("'cut", ""));
        assert_eq!(split_command(""), ("", ""));
    }
}
