//! Processes begin to work, announce their end, and end.

use memtrace_wire::event::{ENDING_EXIT, ENDING_WAITS, Event, Kind as Wire};

use super::Fold;
use crate::record::state::process::Process;
use crate::record::state::shared::Share;

/// A thread that waits until its process was sampled, because it is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndingThread {
    /// The thread.
    pub thread: u32,
    /// It ends by exit, and not by exec.
    pub exits: bool,
}

/// What the session is to do about processes that come to their end.
#[derive(Debug, Default)]
pub struct Lifecycle {
    ending: Vec<EndingThread>,
    /// Images that another one has replaced by exec: none of their threads is left.
    replaced: Vec<u32>,
    /// Processes without a thread that has a ring.
    silent: Vec<u32>,
}

impl Lifecycle {
    /// No thread of the process has a ring.
    pub fn silent(&mut self, process: u32) {
        self.silent.push(process);
    }

    /// The image was replaced by exec.
    pub fn replaced(&mut self, process: u32) {
        self.replaced.push(process);
    }
}

impl Fold {
    /// Threads that wait for a sample of their process since this was last called.
    pub fn take_ending(&mut self) -> Vec<EndingThread> {
        std::mem::take(&mut self.lifecycle.ending)
    }

    /// Images that another one has replaced by exec since this was last called.
    pub fn take_replaced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lifecycle.replaced)
    }

    /// Processes whose last thread with a ring is gone; to be [kept](Fold::keep_silent) if they
    /// still run.
    pub fn take_silent(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lifecycle.silent)
    }

    /// The process still runs, with threads that never allocated.
    pub fn keep_silent(&mut self, process: u32) {
        self.lifecycle.silent(process);
    }

    #[cold]
    pub(super) fn first_event(&mut self, writer: u32, stamp: u64) {
        let thread = &mut self.threads[writer];
        thread.start_ns = self.clock.ns(stamp);
        let process = thread.process;
        let replaced = self.processes[process].replaces.take();
        if let Some(replaced) = replaced.filter(|replaced| self.processes.get(*replaced).is_some()) {
            self.processes[replaced].replaced = true;
            self.end_process(replaced, stamp);
        }
    }

    /// A program is about to be executed, or was spawned and may be at work already.
    pub(super) fn started(&mut self, event: Event, text: &[u8]) {
        const SPAWNING_NS: u64 = 10_000_000_000;
        let pid = event.address as u32;
        let before = if event.kind == Wire::Spawned { self.clock.ticks(SPAWNING_NS) } else { 0 };
        let known = self.images.arrived_since(pid, event.stamp.saturating_sub(before));
        self.unrecorded.started(pid, text, known);
    }

    /// The program could not be executed: the process goes on.
    pub(super) fn exec_failed(&mut self, writer: u32, event: Event) {
        self.process_mut_of(writer).announced_end = false;
        self.unrecorded.failed(event.address as u32);
    }

    /// The process announces that it will exit or become another program.
    pub(super) fn ending(&mut self, writer: u32, event: Event) {
        let process = self.process_mut_of(writer);
        process.residency.note_peak(event.bytes);
        process.announced_end = true;
        let exits = event.address & !ENDING_WAITS == ENDING_EXIT;
        if exits {
            self.main_ended(self.process_of(writer));
        }
        if event.address & ENDING_WAITS != 0 {
            self.lifecycle.ending.push(EndingThread { thread: writer, exits });
        } else if exits {
            self.part(self.process_of(writer));
        }
    }

    /// The bytes of a process no longer count for all together: the kernel releases them now.
    pub fn part(&mut self, index: u32) -> &mut Process {
        if self.processes[index].parted.is_none() {
            self.part_devices(index);
        }
        let process = &mut self.processes[index];
        if process.parted.is_none() {
            process.parted = Some(self.now);
            self.totals.remove(process.live(), process.heap.bytes());
            process
                .each_block(|block| self.sites.accounts_mut().count_block(block.site, -(block.bytes as i64)));
            process.each_piece(|piece| self.sites.accounts_mut().change(piece.site, -(piece.touched as i64)));
            let shares: Vec<Share> = process.mappings.shared().map(|(_, share)| *share).collect();
            self.pass_on(shares.into_iter());
        }
        &mut self.processes[index]
    }

    /// Ends what is left of a process: its live blocks become rows without a release.
    pub fn end_process(&mut self, index: u32, stamp: u64) {
        if self.processes[index].end.is_some() {
            return;
        }
        let process = &mut self.processes[index];
        process.restore_all();
        process.count_missing_releases();
        let is_replaced = process.replaced;
        self.processes.end(index, stamp);
        if !is_replaced {
            self.main_ended(index);
        }
        let process = &self.processes[index];
        let whole = process.whole_span;
        if let Some(span) = whole {
            self.spans.end_whole(span, stamp, process);
        }
        let one_time = self.spans.process_ended(index);
        // Before spans are written: those of its blocks may be forgotten then.
        let process = &self.processes[index];
        let retained = (!process.announced_end).then(|| self.retained(process));
        self.garbage_ended(index, stamp);
        self.spans.process_left(index);
        self.write_settled_spans();
        let process = self.part(index);
        process.killed_with = retained;
        let blocks = process.heap.take();
        let mappings = std::mem::take(&mut process.mappings);
        for (address, block) in blocks.iter() {
            if self.is_large(&block) {
                self.note_untouched(index, address, &block, None);
            }
            self.write_block(index, address, &block, None, &one_time);
        }
        for piece in mappings.iter() {
            self.write_piece(index, piece, None, &one_time);
        }
        self.end_devices(index);
        self.sites.end(index);
    }
}
