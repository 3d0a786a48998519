//! What the trace says in words: what was not seen, and who was killed for lack of memory.

use std::sync::atomic::Ordering;

use memtrace_trace::{OutOfMemory, Share, SiteShare};
use memtrace_wire::layout::SLOTS;

use super::oom::Kills;
use super::sample;
use super::session::{GRACE, Session};

/// Operators named per killed process.
const OPERATORS_MAX: usize = 5;
/// Programs named that no probe was in.
const PROGRAMS_MAX: usize = 5;
/// Call stacks named per killed process.
const SITES_MAX: usize = 5;

impl Session {
    /// Sentences on what could not be seen.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.still_running > 0 {
            notes.push(format!(
                "{} processes outlived the command by more than {} s; what they did after that was not recorded (--wait all waits for them).",
                self.still_running,
                GRACE.as_secs()
            ));
        }
        let without_slot = self.segment.header().lost_without_slot.load(Ordering::Relaxed);
        if without_slot > 0 {
            notes.push(format!(
                "More than {SLOTS} threads were at work at one time: {without_slot} events were lost, so peaks are lower bounds."
            ));
        }
        if self.passed_over {
            notes.push(format!(
                "Mappings of more than {} GiB were not looked into: what is touched of them is not in live bytes.",
                sample::LOOK_MAX >> 30
            ));
        }
        let malformed = self.fold.spans.malformed;
        if malformed > 0 {
            notes.push(format!("{malformed} descriptions of spans could not be read."));
        }
        let waited = self.fold.waited_ns / 1_000_000;
        if waited > 0 {
            notes.push(format!("The program waited {waited} ms for the tracer."));
        }
        for operator in self.fold.spans.missing(&self.operators) {
            notes.push(format!("{operator} was never called, or is not a function that can be watched."));
        }
        if self.fold.attached {
            notes.push(
                "Attached from the kernel side: mappings made by system calls, page faults and resident memory are recorded, blocks inside them (malloc) are not. Meanwhile every system call on this machine took 40 to 90 ns longer.".into(),
            );
        } else if let Some(programs) = self.probeless() {
            notes.push(format!(
                "No probe could be loaded into {programs} (statically linked, set-user-ID, or started without it): the kernel side recorded system calls (mappings), page faults and resident memory instead; blocks inside them (malloc) are not seen. Meanwhile every system call on this machine took 40 to 90 ns longer."
            ));
            notes.extend(self.fold.launched.note());
        } else if self.fold.processes.is_empty() {
            notes.push(
                "No event was recorded: the command is statically linked, setuid, or allocates nothing through the C library.".into(),
            );
        } else {
            notes.extend(self.fold.launched.note());
        }
        notes.extend(self.own_mappings_note());
        let thinned = self.fold.kernel.as_ref().map_or(0, |kernel| kernel.images.thinned());
        if thinned > 0 {
            notes.push(format!(
                "Of {thinned} page faults the addresses were not told, because there were too many at a time: parts of blocks that were never touched are upper bounds."
            ));
        }
        notes.extend(self.fold.samples.note());
        let lost = self.fold.lost_by_kernel();
        if lost > 0 {
            notes.push(format!("{lost} events of the kernel side found no room and are not in the trace. Resident peaks are still exact, unless the end of a process was among them."));
        }
        notes
    }

    /// What was recorded by the kernel side alone.
    fn probeless(&self) -> Option<String> {
        let programs = &self.fold.kernel.as_ref()?.probeless;
        let named: Vec<&str> = programs.iter().take(PROGRAMS_MAX).map(String::as_str).collect();
        let more = if programs.len() > named.len() { ", …" } else { "" };
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }

    /// An allocator inside a library or a program that exports no symbols is seen as the mappings it makes.
    fn own_mappings_note(&self) -> Option<String> {
        const WORTH_A_NOTE: u64 = 16 << 20;
        let largest = self.fold.processes.iter().max_by_key(|process| process.row.peak_live_bytes)?;
        let mappings = largest.row.peak_live_bytes.saturating_sub(largest.at_peak.1);
        (mappings > WORTH_A_NOTE && mappings > largest.row.peak_live_bytes / 8).then(|| {
            format!(
                "{} MiB of the peak are mappings that process {} made itself. Where an allocator of its own made them (Python's for small objects, see --python-allocators; those inside pyarrow or polars), its blocks cannot be told apart, only what is touched.",
                mappings >> 20,
                largest.row.pid
            )
        })
    }

    /// Finds out who was killed for lack of memory: `root` by this signal, others if they vanished.
    pub(super) fn note_kills(&mut self, root: u32, signal: Option<i32>) {
        let told = (0..self.fold.processes.len() as u32).filter(|index| self.fold.is_victim(*index)).count();
        let counted = self.fold.cgroups.kills();
        if told == 0 && counted.is_none() {
            return;
        }
        // Without a group whose count has risen, the whole machine was short of memory.
        let Kills { count, limit } = counted.unwrap_or(Kills { count: told as u64, limit: None });
        let stamp = self.fold.clock.stamp();
        let killed_root = signal == Some(libc::SIGKILL);
        for index in 0..self.fold.processes.len() as u32 {
            let process = &self.fold.processes[index as usize];
            if process.writers == 0 || process.row.pid == root && killed_root {
                self.fold.end_process(index, stamp);
            }
        }
        let mut victims: Vec<_> = self
            .fold
            .processes
            .iter()
            .filter(|process| told == 0 || self.fold.is_victim(process.row.process))
            .filter(|process| told > 0 || process.row.pid != root || killed_root)
            .filter_map(|process| Some((process, process.killed_with.as_ref()?)))
            .filter(|(process, _)| !process.replaced)
            .collect();
        victims.sort_by_key(|(_, held)| std::cmp::Reverse(held.live));
        self.meta.out_of_memory = victims
            .into_iter()
            .take((count as usize).max(told))
            .map(|(process, held)| OutOfMemory {
                process: process.row.process,
                pid: process.row.pid,
                command: process.row.command.clone(),
                live_bytes: held.live,
                resident_bytes: self.fold.resident_now(process),
                limit_bytes: limit,
                operators: held
                    .operators
                    .iter()
                    .take(OPERATORS_MAX)
                    .map(|(name, bytes)| Share { name: name.clone(), bytes: *bytes })
                    .collect(),
                sites: held
                    .sites
                    .iter()
                    .take(SITES_MAX)
                    .map(|(site, bytes)| SiteShare { site: self.fold.sites.id(*site), bytes: *bytes })
                    .collect(),
            })
            .collect();
    }
}
