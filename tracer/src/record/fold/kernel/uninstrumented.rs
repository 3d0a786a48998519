//! Processes that no probe is in: known by the kernel's images only.

use memtrace_trace::rows::{Kind, ProcessRow, split_command};

use super::Fold;
use crate::record::kernel::Image;
use crate::record::procfs::cgroup::Cgroup;
use crate::record::procfs::maps::{self, Listed};
use crate::record::procfs::status::{break_of, command_of, is_running, parent_of};
use crate::record::procfs::whereabouts::{Whereabouts, host};
use crate::record::state::blocks::Part;
use crate::record::state::mappings::Piece;
use crate::record::state::process::Process;
use crate::record::transport::clock::GRAIN_NS;

/// Times that are this far apart stay apart in the trace, whatever else is learnt of the clock:
/// before its first reading a tick counts as a nanosecond.
const APART_NS: usize = 8 * GRAIN_NS as usize;

impl Fold {
    /// Watches a process that runs already; false if it has ended. `Err` says why not.
    pub fn join(&mut self, pid: u32) -> Result<bool, memtrace_ebpf::Error> {
        let ns = self.clock.monotonic_now();
        let Some(programs) = self.kernel_programs() else { return Ok(false) };
        programs.watch(pid)?;
        if !is_running(pid) {
            programs.untrack(pid);
            return Ok(false);
        }
        let command = command_of(pid, &[0; 16]);
        let image = Image { pid, parent: parent_of(pid), begin_ns: ns, command, ..Image::default() };
        self.begin_image(Image { uninstrumented: true, joined: true, ..image });
        if let Some(index) = self.uninstrumented_process(pid) {
            self.take_mappings(index, pid);
        }
        Ok(true)
    }

    /// The row of the image that runs under this pid, made if need be; `None` if a probe is in it,
    /// or it is not known.
    pub(super) fn uninstrumented_process(&mut self, pid: u32) -> Option<u32> {
        let image = self.image_mut(pid)?.clone();
        if !image.uninstrumented || image.process.is_some() {
            return image.process.filter(|_| image.uninstrumented);
        }
        if image.executed {
            self.unrecorded.arrived(pid);
            self.cgroups.watch(Cgroup::of(pid));
        }
        if let Some(kernel) = &mut self.kernel {
            let (program, _) = split_command(&image.command);
            kernel.note_uninstrumented(program);
        }
        Some(self.add_uninstrumented(&image))
    }

    /// Programs without a probe may have been running before their system calls were reported: what
    /// they had mapped by then is read.
    pub(in crate::record::fold) fn join_the_uninstrumented(&mut self) {
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| kernel.calls_began()) else { return };
        let waits =
            |image: &&Image| image.uninstrumented && image.process.is_none() && image.end_ns.is_none();
        let waiting: Vec<u32> = kernel.images().iter().filter(waits).map(|image| image.pid).collect();
        for pid in waiting {
            if let Some(index) = self.uninstrumented_process(pid) {
                self.take_mappings(index, pid);
            }
            if let Some(image) = self.image_mut(pid) {
                image.program_break = break_of(pid);
            }
        }
    }

    /// Makes a row of an image.
    fn add_uninstrumented(&mut self, image: &Image) -> u32 {
        let index = self.processes.met();
        // Another process may have its pid by now.
        let has_ended = image.end_ns.is_some();
        let whereabouts = if has_ended { Whereabouts::default() } else { Whereabouts::of_process(image.pid) };
        let row = ProcessRow {
            process: index,
            host: host().into(),
            job: whereabouts.job,
            rank: whereabouts.rank,
            pid: image.pid,
            ppid: image.parent,
            command: image.command.clone(),
            origin: if image.executed || image.joined { "exec" } else { "fork" }.into(),
            ..ProcessRow::default()
        };
        let start = self.clock.stamp_of_monotonic(image.begin_ns);
        let mut process = Process::new(row, start);
        process.shown = Some(Some(image.pid));
        self.processes.push(process);
        if let Some(garbage) = &mut self.garbage {
            garbage.process(start, |ns| self.clock.ticks(ns));
        }
        self.sites.begin((image.pid, start), None);
        if let Some(kernel) = &mut self.kernel {
            kernel.images_mut().belongs(image, index);
        }
        index
    }

    /// The row of a thread of such a process.
    pub(super) fn uninstrumented_thread(&mut self, process: u32, tid: u32, ns: i64) -> u32 {
        let next = self.threads.met();
        let Some(kernel) = &mut self.kernel else { return next };
        let thread = kernel.thread(process, tid, next);
        if thread == next {
            self.add_thread(process, tid, ns);
        }
        self.threads[thread].events += 1;
        thread
    }

    /// What a process had mapped before the recording began: its memory, not its files.
    fn take_mappings(&mut self, index: u32, pid: u32) {
        let text = maps::read(pid);
        let begin = self.clock.to_monotonic(self.processes[index].start);
        let thread = self.uninstrumented_thread(index, pid, self.clock.of_monotonic(begin));
        let own = maps::parse(&text).filter_map(own_memory);
        for (found, ns) in own.zip((begin..).step_by(APART_NS)) {
            self.insert_piece(
                index,
                Piece {
                    start: found.start,
                    bytes: found.bytes,
                    // A time of its own: mappings of one time count as one call.
                    alloc: self.clock.stamp_of_monotonic(ns),
                    thread,
                    span: None,
                    ordinal: 0,
                    kind: found.kind,
                    site: None,
                    touched: 0,
                    faulted: 0,
                    measured: false,
                    part: Part::None,
                    share: None,
                },
            );
        }
    }

    /// Of what was executed or forked, and never said hello, only its resident memory is known.
    /// What lived between fork and exec is left out.
    pub(super) fn add_unmet(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        let unmet: Vec<Image> = kernel.images().iter().filter(|image| image.is_unmet()).cloned().collect();
        unmet.iter().for_each(|image| self.add_unmet_image(image));
    }

    /// The same of images that were over long ago, so that they can leave.
    pub fn add_unmet_of_old(&mut self) {
        while let Some(image) = self.kernel.as_mut().and_then(|kernel| kernel.images_mut().over_long_ago()) {
            self.add_unmet_image(&image);
        }
    }

    fn add_unmet_image(&mut self, image: &Image) {
        if image.executed && !image.uninstrumented {
            self.unrecorded.unmet(image.pid, split_command(&image.command).0);
        }
        let index = self.add_uninstrumented(image);
        if let Some(ns) = image.end_ns {
            let stamp = self.clock.stamp_of_monotonic(ns);
            self.at(stamp);
            self.end_process(index, stamp);
        }
    }

    /// Processes whose end was not reported: no room was left for it, or no parent waits for them.
    pub fn end_vanished(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        let vanished: Vec<u32> =
            kernel.images().running().map(|image| image.pid).filter(|pid| !is_running(*pid)).collect();
        let ns = self.clock.monotonic_now();
        for pid in vanished {
            self.end_uninstrumented(pid, ns);
            if let Some(image) = self.image_mut(pid) {
                image.end_ns = Some(ns);
            }
        }
    }

    /// The image ended: what is still live of it becomes rows.
    pub(super) fn end_uninstrumented(&mut self, pid: u32, ns: u64) {
        let stamp = self.clock.stamp_of_monotonic(ns);
        let ended = self.image_mut(pid).filter(|image| image.uninstrumented).and_then(|image| image.process);
        if let Some(index) = ended {
            self.at(stamp);
            self.end_process(index, stamp);
        }
    }
}

/// A mapping that is a program's own memory.
#[derive(Debug, PartialEq, Eq)]
struct OwnMemory {
    start: u64,
    bytes: u64,
    kind: Kind,
}

/// Anonymous memory that a program may write to, without stacks.
fn own_memory(listed: Listed) -> Option<OwnMemory> {
    let kind = match (listed.path, listed.rights.as_bytes().get(3)?) {
        ("[heap]", _) => Kind::MapBreak,
        ("", b'p') if !listed.of_file => Kind::MapAnonymous,
        (path, b's') if path.starts_with("/dev/zero") => Kind::MapShared,
        _ => return None,
    };
    let (start, bytes) = (listed.start, listed.bytes());
    listed.rights.starts_with("rw").then_some(OwnMemory { start, bytes, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_of_the_programs_own_is_taken() {
        let of = |rest: &str| maps::parse(&format!("1000-3000 {rest}")).find_map(own_memory);
        let own = |kind| Some(OwnMemory { start: 0x1000, bytes: 0x2000, kind });
        assert_eq!(of("rw-p 00000000 00:00 0"), own(Kind::MapAnonymous));
        assert_eq!(of("rw-p 00000000 00:00 0 [heap]"), own(Kind::MapBreak));
        assert_eq!(of("rw-s 00000000 00:01 7 /dev/zero (deleted)"), own(Kind::MapShared));
        assert_eq!(of("rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(of("r--p 00000000 00:00 0"), None);
        assert_eq!(of("rw-p 00001000 fe:00 42 /usr/lib/libc.so.6"), None);
    }
}
