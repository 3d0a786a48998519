//! Samples processes through /proc: resident sizes and touched pages, at regular times and when one
//! is about to end.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, DynamicClockId, clock_gettime_dynamic};

use super::recording::Session;
use crate::record::procfs::cgroup::Cgroup;
use crate::record::procfs::environment;
use crate::record::procfs::image_memory::ImageMemory;
use crate::record::procfs::resident::{self, Pagemap, Resident};
use crate::terminal::say;

const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// When processes are sampled, and what could not be.
#[derive(Debug)]
pub struct Sampling {
    last: Instant,
    /// Page tables are not walked before this.
    measure_after: Instant,
    /// Some mapping was too large to be measured.
    passed_over: bool,
}

impl Sampling {
    /// From now on.
    pub fn start() -> Sampling {
        Sampling { last: Instant::now(), measure_after: Instant::now(), passed_over: false }
    }

    /// True if processes are to be sampled; whether page tables are to be walked.
    fn begin(&mut self) -> Option<bool> {
        if self.last.elapsed() < SAMPLE_EVERY {
            return None;
        }
        self.last = Instant::now();
        Some(Instant::now() >= self.measure_after)
    }

    /// Walking page tables of large mappings takes the recorder's time: at most a twentieth of a
    /// processor, and half the time where it has to wait for one, whatever samples without a walk
    /// follow. Where the kernel side reports faults, only pages that came without one are still to
    /// be found.
    fn walked(&mut self, taken: Duration, sees_faults: bool) {
        let rest = if sees_faults { 100 } else { 20 };
        self.measure_after = Instant::now() + (taken * rest).max(self.last.elapsed());
    }

    /// True if some mapping was too large to be measured.
    pub fn passed_over(&self) -> bool {
        self.passed_over
    }
}

impl Session {
    /// Samples all processes, at regular times.
    pub(super) fn sample(&mut self) {
        let Some(measure) = self.sampling.begin() else { return };
        for (thread, usage) in self.drain.usage() {
            let process = self.fold.process_of(thread);
            self.fold.process_mut(process).note_ring(usage.ring, usage.touched_bytes);
        }
        let running: Vec<u32> = self.fold.running().map(|process| process.row.process).collect();
        let start = processor_time();
        for index in running {
            self.sample_process(index, measure);
        }
        let sum: u64 = self.fold.running().map(|process| process.residency.now()).sum();
        let peak = &mut self.meta.peak.resident_sum_bytes;
        *peak = sum.max(*peak);
        if measure {
            self.sampling.walked(processor_time().saturating_sub(start), self.fold.sees_faults());
        }
        self.limit.warnings(&self.fold).iter().for_each(|sentence| say(sentence));
        self.with_live(|live, recording| live.publish(recording));
    }

    /// Processes that are about to end wait until they were sampled, where something could be
    /// missed.
    pub(super) fn sample_ending(&mut self) {
        for ending in self.fold.take_ending() {
            let index = self.fold.process_of(ending.thread);
            self.sample_process(index, true);
            let shown = self.shown_pid(index);
            self.fold.sites_mut().name_generated(index, shown);
            self.drain.sampled(ending.thread);
            if ending.exits {
                self.fold.part(index);
            }
        }
    }

    /// Ends processes whose last thread is gone, as soon as that is so.
    pub(super) fn end_silent(&mut self) {
        let silent = self.fold.take_silent();
        if !silent.is_empty() {
            // What they touched last may not have been reported.
            self.fold.fold_last_faults();
        }
        for index in silent {
            let process = self.fold.process(index);
            if process.end.is_some() || process.writers > 0 {
                continue;
            }
            // Threads that never allocated have no ring: /proc knows, unless the process announced
            // that it exits.
            let gone = process.parted.is_some()
                || self.shown_pid(index).and_then(resident::resident_thread).is_none();
            if gone {
                self.fold.fold_last_samples(index);
                let stamp = self.fold.clock().stamp();
                self.fold.end_process(index, stamp);
            } else {
                self.fold.keep_silent(index);
            }
        }
    }

    fn sample_process(&mut self, index: u32, measure: bool) {
        let stamp = self.fold.clock().stamp();
        if self.fold.process(index).end.is_some() {
            return;
        }
        let Some((thread, resident)) = self.shown_pid(index).and_then(resident::resident_thread) else {
            return;
        };
        let process = self.fold.process_mut(index);
        process.residency.note_peak(resident.peak);
        process.row.page_table_bytes = process.row.page_table_bytes.max(Some(resident.page_tables));
        if measure && process.residency.takes_image(resident.now) {
            let image = Pagemap::open(thread).and_then(|mut pagemap| ImageMemory::of(thread, &mut pagemap));
            // One that is just being torn down can no longer be sampled: what was found before
            // stays.
            if let Some(ImageMemory { stack, data }) = image {
                process.row.resident_stack_bytes = Some(stack);
                process.row.resident_data_bytes = Some(data);
            }
        }
        if measure
            && process.mappings.mapped_bytes() > 0
            && let Some(mut pagemap) = Pagemap::open(thread)
        {
            self.fold.measure(index, stamp, &mut pagemap);
            self.sampling.passed_over |= pagemap.passed_over;
        }
        self.note_resident(index, stamp, resident);
    }

    fn note_resident(&mut self, index: u32, stamp: u64, resident: Resident) {
        let process = self.fold.process_mut(index);
        let now = resident.now.saturating_sub(process.row.probe_bytes);
        process.residency.note_now(now);
        self.fold.spans_mut().resident(index, now);
        self.fold.write_sample(index, stamp, Some(now));
    }

    /// The pid under which /proc shows a process, found out when it is first sampled.
    fn shown_pid(&mut self, index: u32) -> Option<u32> {
        let process = self.fold.process(index);
        if let Some(shown) = process.shown {
            return shown;
        }
        let (pid, token) = (process.row.pid, self.listener.token());
        // A child forked in a pid namespace is known by its pid in there only.
        let forked_inside = process.namespaced && process.row.origin == "fork";
        let shown = if forked_inside {
            environment::shown_pid(pid, token)
        } else {
            environment::is_ours(pid, token).then_some(pid)
        };
        if let Some(pid) = shown {
            self.fold.cgroups_mut().watch(Cgroup::of(pid));
        }
        let process = self.fold.process_mut(index);
        process.shown = Some(shown);
        process.row.pid = shown.unwrap_or(pid);
        shown
    }
}

/// Of this thread: it may have to wait for a processor while it walks. Zero where it is not known.
fn processor_time() -> Duration {
    let time = clock_gettime_dynamic(DynamicClockId::Known(ClockId::ThreadCPUTime));
    time.map_or(Duration::ZERO, |time| {
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_walk_is_followed_by_samples_without_one() {
        let ago = |ms| Instant::now() - Duration::from_millis(ms);
        let mut sampling = Sampling { last: ago(100), measure_after: ago(1), passed_over: false };
        assert_eq!(sampling.begin(), Some(true));
        sampling.walked(Duration::from_millis(70), false);
        for _ in 0..3 {
            sampling.last = ago(60);
            assert_eq!(sampling.begin(), Some(false), "it rests 1.4 seconds");
        }
    }
}
