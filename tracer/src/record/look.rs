//! Looking at processes through /proc: resident sizes and touched pages, at regular times and when one is about
//! to end.

use std::time::{Duration, Instant};

use super::image_memory::ImageMemory;
use super::launch;
use super::oom::Cgroup;
use super::sample::{self, Pagemap, Resident};
use super::session::Session;

const SAMPLE_EVERY: Duration = Duration::from_millis(50);

impl Session {
    /// Looks at all processes, at regular times.
    pub(super) fn sample(&mut self) {
        if self.last_sample.elapsed() < SAMPLE_EVERY {
            return;
        }
        self.last_sample = Instant::now();
        let measure = Instant::now() >= self.measure_after;
        for (thread, usage) in self.drain.usage() {
            let process = self.fold.threads[thread as usize].process;
            self.fold.processes[process as usize].note_ring(usage.slot, usage.touched_bytes);
        }
        for index in 0..self.fold.processes.len() as u32 {
            self.look_at(index, measure);
        }
        let now = self.fold.processes.iter().filter(|process| process.end.is_none());
        let sum: u64 = now.map(|process| process.resident_now).sum();
        let peak = &mut self.meta.peak.resident_sum_bytes;
        *peak = sum.max(*peak);
        // Walking page tables of large mappings takes time: at most a twentieth of it. Where the kernel side tells of
        // faults, only pages that came without one are still to be found.
        let rest = if self.fold.kernel.is_some() { 100 } else { 20 };
        self.measure_after = Instant::now() + self.last_sample.elapsed() * rest;
        self.warn_of_excess();
        self.publish();
    }

    /// Processes that are about to end wait to be looked at, where something could be missed.
    pub(super) fn look_at_the_ending(&mut self) {
        for (thread, exits) in std::mem::take(&mut self.fold.ending) {
            let index = self.fold.threads[thread as usize].process;
            self.look_at(index, true);
            let shown = self.shown_pid(index);
            self.fold.sites.name_generated(index, shown);
            self.drain.looked_at(thread);
            if exits {
                self.fold.part(index);
            }
        }
    }

    /// Ends processes whose last thread is gone, as soon as that is so.
    pub(super) fn end_the_silent(&mut self) {
        if !self.fold.silent.is_empty() {
            // What they touched last may not have been told: it is where they last were.
            self.fold.fold_last_faults();
        }
        for index in std::mem::take(&mut self.fold.silent) {
            let process = &self.fold.processes[index as usize];
            if process.end.is_some() || process.writers > 0 {
                continue;
            }
            // Threads that never allocated have no ring: ask unless the process said that it exits.
            let gone =
                process.parted.is_some() || self.shown_pid(index).and_then(sample::resident_thread).is_none();
            if gone {
                self.fold.end_process(index, self.fold.clock.stamp());
            } else {
                self.fold.silent.push(index);
            }
        }
    }

    fn look_at(&mut self, index: u32, measure: bool) {
        let stamp = self.fold.clock.stamp();
        let process = &self.fold.processes[index as usize];
        if process.end.is_some() {
            return;
        }
        let Some((thread, resident)) = self.shown_pid(index).and_then(sample::resident_thread) else {
            return;
        };
        let process = &mut self.fold.processes[index as usize];
        process.resident_peak = process.resident_peak.max(resident.peak);
        process.row.page_table_bytes = process.row.page_table_bytes.max(Some(resident.page_tables));
        // What is found when the most was resident is close to what there was at the peak.
        if measure && resident.now > process.image_looked_at + process.image_looked_at / 16 {
            process.image_looked_at = resident.now;
            let image = Pagemap::open(thread).and_then(|mut pagemap| ImageMemory::of(thread, &mut pagemap));
            // One that is just being torn down can no longer be looked at: what was found before stays.
            if let Some(ImageMemory { stack, data }) = image {
                process.row.resident_stack_bytes = Some(stack);
                process.row.resident_data_bytes = Some(data);
            }
        }
        if measure
            && process.mappings.mapped_bytes() > 0
            && let Some(mut pagemap) = Pagemap::open(thread)
        {
            self.fold.measure(index, stamp, |piece| pagemap.touched(piece));
            self.passed_over |= pagemap.passed_over;
        }
        self.note_resident(index, stamp, resident);
    }

    fn note_resident(&mut self, index: u32, stamp: u64, resident: Resident) {
        let process = &mut self.fold.processes[index as usize];
        let now = resident.now.saturating_sub(process.row.probe_bytes);
        process.resident_now = now;
        self.fold.spans.resident(index, now);
        self.fold.sample(index, stamp, Some(now));
    }

    /// Where /proc shows a process, found out when it is first looked at.
    fn shown_pid(&mut self, index: u32) -> Option<u32> {
        let process = &self.fold.processes[index as usize];
        if let Some(shown) = process.shown {
            return shown;
        }
        let (pid, token) = (process.row.pid, &self.doorman.token);
        // A child forked in a pid namespace is known by its pid in there only.
        let forked_inside = process.namespaced && process.row.origin == "fork";
        let shown = if forked_inside {
            launch::shown_pid(pid, token)
        } else {
            launch::is_ours(pid, token).then_some(pid)
        };
        if let Some(pid) = shown {
            self.fold.cgroups.watch(Cgroup::of(pid));
        }
        let process = &mut self.fold.processes[index as usize];
        process.shown = Some(shown);
        process.row.pid = shown.unwrap_or(pid);
        shown
    }
}
