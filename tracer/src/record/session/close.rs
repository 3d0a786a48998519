//! The end of a recording: what is left is folded, and the trace is closed.

use std::sync::atomic::Ordering;

use super::outcome::Outcome;
use super::recording::Session;
use crate::record::launch::Ending;
use crate::record::transport::drain::Sink;

impl Session {
    /// The command has ended: reads what is left and closes the trace. Where that fails, the
    /// command's status is its own all the same.
    pub fn close(self, ending: Ending) -> Outcome {
        let directory = self.directory().to_owned();
        let advice = |error| match directory.is_dir() {
            true => format!("{error}; memtrace recover {} closes what was written", directory.display()),
            false => format!("the trace is lost: {error}"),
        };
        Outcome { code: ending.code, cut_short: self.complete(ending).err().map(advice) }
    }

    fn complete(mut self, ending: Ending) -> memtrace_trace::Result<()> {
        self.still_running = self.count_running();
        self.recorder.detached.store(1, Ordering::SeqCst);
        while self.round(true) > 0 {}
        let missing = self.end_processes(ending);
        self.note_refusals();
        self.meta.notes = self.notes();
        self.meta.remarks = self.remarks();
        self.meta.notes.extend(missing);
        self.meta.recorded.extend(self.fold.kernel_recorded());
        self.meta.exit = self.exit(ending);
        self.meta.signal = ending.signal;
        if !self.fold.is_attached() {
            self.meta.user_ns = Some(ending.user_ns);
            self.meta.system_ns = Some(ending.system_ns);
        }
        self.write_tables(true);
        if let Some(error) = self.fold.take_failure() {
            return Err(error);
        }
        let last_figures = self.with_live(|live, recording| live.last_figures(recording));
        self.with_live(|live, recording| live.send_last_spans(recording));
        let (fold, meta, mut live) = self.into_parts();
        let (out, sites) = fold.into_parts();
        let directory = out.finish(&meta)?;
        // The trace is complete: nothing is lost with a tracer that is killed while it reads large
        // files.
        let (sites, frames) = sites.named();
        memtrace_trace::replace_stacks(directory.path(), &sites, &frames)?;
        last_figures.into_iter().for_each(|figures| live.send_last(figures));
        Ok(())
    }

    /// Folds what is left, and ends all processes. A sentence on what the kernel side has missed.
    fn end_processes(&mut self, ending: Ending) -> Option<String> {
        let stamp = self.fold.clock().stamp();
        let missing = self.fold.end_kernel(stamp);
        self.fold.note_silent_images();
        self.fold.advance(stamp);
        for (thread, usage) in self.drain.usage().collect::<Vec<_>>() {
            self.fold.writer_gone(thread, usage);
        }
        self.note_ending(ending);
        self.note_kills(ending.signal);
        let left = self.fold.processes().map(|process| process.row.process);
        for index in left.collect::<Vec<_>>() {
            self.fold.end_process(index, stamp);
            self.fold.write_peak(index);
        }
        missing
    }

    /// What the kernel says of the command when it has ended.
    fn note_ending(&mut self, ending: Ending) {
        let is_single = self.fold.processes_met() == 1;
        let (attached, own_peak) = (self.fold.is_attached(), self.own_peak);
        let Some(index) = self.fold.root_process().map(|process| process.row.process) else { return };
        let process = self.fold.process_mut(index);
        process.row.exit = (!attached).then_some(ending.code);
        // ru_maxrss also counts what memtrace itself had when it forked, and children of the
        // command.
        if is_single && ending.max_resident_bytes > own_peak {
            process.residency.note_peak(ending.max_resident_bytes);
        }
    }

    fn exit(&self, ending: Ending) -> Option<i32> {
        let seen =
            self.fold.root_process().and_then(|process| self.fold.with_kernel(process.row.clone()).exit);
        if self.fold.is_attached() { seen } else { Some(ending.code) }
    }

    fn count_running(&self) -> usize {
        self.fold.running().filter(|process| process.writers > 0).count()
    }
}
