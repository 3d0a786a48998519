//! Which processes were killed for lack of memory, and what they retained.

use memtrace_trace::{OutOfMemory, Share, SiteShare};

use super::recording::Session;
use crate::record::procfs::cgroup::Kills;
use crate::record::state::process::{Process, Retained};

/// Operators named per killed process.
const OPERATORS_MAX: usize = 5;
/// Call stacks named per killed process.
const SITES_MAX: usize = 5;

impl Session {
    /// Finds out which processes were killed for lack of memory: the command by this signal, others
    /// if they vanished.
    pub(super) fn note_kills(&mut self, signal: Option<i32>) {
        let reported =
            self.fold.processes().filter(|process| self.fold.is_victim(process.row.process)).count();
        let counted = self.fold.cgroups().kills();
        if reported == 0 && counted.is_none() {
            return;
        }
        // Without a group whose count has risen, the whole machine was short of memory.
        let Kills { count, limit } = counted.unwrap_or(Kills { count: reported as u64, limit: None });
        let root = self.fold.root();
        let killed_root = signal == Some(libc::SIGKILL);
        self.end_vanished(root, killed_root);
        let is_victim = |process: &Process| match reported {
            0 => process.row.pid != root || killed_root,
            _ => self.fold.is_victim(process.row.process),
        };
        let victims = self.fold.processes().filter(|process| is_victim(process) && !process.replaced);
        let mut victims: Vec<_> =
            victims.filter_map(|process| Some((process, process.killed_with.as_ref()?))).collect();
        victims.sort_by_key(|(_, retained)| std::cmp::Reverse(retained.live));
        victims.truncate((count as usize).max(reported));
        let killed = victims.into_iter().map(|(process, retained)| self.victim(process, retained, limit));
        self.meta.out_of_memory = killed.collect();
    }

    /// Processes without a thread that has a ring were killed, and the command by that signal.
    fn end_vanished(&mut self, root: u32, killed_root: bool) {
        let stamp = self.fold.clock().stamp();
        let vanished = |process: &&Process| process.writers == 0 || process.row.pid == root && killed_root;
        let vanished = self.fold.processes().filter(vanished).map(|process| process.row.process);
        for index in vanished.collect::<Vec<_>>() {
            self.fold.end_process(index, stamp);
        }
    }

    fn victim(&self, process: &Process, retained: &Retained, limit_bytes: Option<u64>) -> OutOfMemory {
        let (operators, sites) = self.shares(retained);
        OutOfMemory {
            process: process.row.process,
            pid: process.row.pid,
            command: process.row.command.clone(),
            live_bytes: retained.live,
            resident_bytes: self.fold.resident_when_killed(process),
            limit_bytes,
            operators,
            sites,
        }
    }

    /// The largest parts of what a process retained, by operator and by call stack.
    pub(super) fn shares(&self, retained: &Retained) -> (Vec<Share>, Vec<SiteShare>) {
        let operators = retained.operators.iter().take(OPERATORS_MAX);
        let sites = retained.sites.iter().take(SITES_MAX);
        let ids = self.fold.sites();
        (
            operators.map(|(name, bytes)| Share { name: name.clone(), bytes: *bytes }).collect(),
            sites.map(|(site, bytes)| SiteShare { site: ids.id(*site), bytes: *bytes }).collect(),
        )
    }
}
