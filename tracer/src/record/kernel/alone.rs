//! Processes that no probe is in: known by the kernel's images alone.

use memtrace_trace::rows::{Kind, ProcessRow, ThreadRow};

use super::Image;
use crate::record::blocks::Part;
use crate::record::fold::Fold;
use crate::record::launch::{self, statically_linked};
use crate::record::mappings::Piece;
use crate::record::maps::{self, Listed};
use crate::record::oom::Cgroup;
use crate::record::process::Process;

const PAGE: u64 = 4096;
/// Times that are so far apart stay apart, whatever else is learnt of the clock.
const APART_NS: usize = 16;

impl Fold {
    /// Watches a process that runs already; false if it has ended. `Err` says why not.
    pub fn join(&mut self, pid: u32) -> Result<bool, memtrace_ebpf::Error> {
        let ns = self.clock.monotonic_now();
        let Some(side) = self.kernel.as_mut().and_then(super::Kernel::side) else { return Ok(false) };
        side.watch(pid)?;
        if !is_running(pid) {
            side.let_go(pid);
            return Ok(false);
        }
        let command = super::join::command_of(pid, &[0; 16]);
        let image = Image { pid, parent: parent_of(pid), begin_ns: ns, command, ..Image::default() };
        self.begin(Image { alone: true, joined: true, ..image });
        if let Some(index) = self.process_alone(pid) {
            self.take_mappings(index, pid);
        }
        Ok(true)
    }

    /// The row of the image that runs under this pid, made if need be; `None` if a probe tells of it, or nobody.
    pub(super) fn process_alone(&mut self, pid: u32) -> Option<u32> {
        let image = self.image(pid)?.clone();
        if !image.alone || image.process.is_some() {
            return image.process.filter(|_| image.alone);
        }
        if image.executed {
            self.launched.arrived(pid);
            self.cgroups.watch(Cgroup::of(pid));
        }
        if let Some(kernel) = &mut self.kernel {
            let program = image.command.split(' ').next().unwrap_or_default();
            kernel.probeless.insert(program.into());
        }
        Some(self.add_alone(&image))
    }

    /// Programs without a probe may have been running before their system calls were told of: what they had mapped by
    /// then is read.
    pub fn join_the_probeless(&mut self) {
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| kernel.calls_begin()) else { return };
        let waits = |image: &&Image| image.alone && image.process.is_none() && image.end_ns.is_none();
        let waiting: Vec<u32> = kernel.images.iter().filter(waits).map(|image| image.pid).collect();
        for pid in waiting {
            if let Some(index) = self.process_alone(pid) {
                self.take_mappings(index, pid);
            }
            if let Some(image) = self.image(pid) {
                image.program_break = break_of(pid);
            }
        }
    }

    /// Makes a row of an image.
    pub(super) fn add_alone(&mut self, image: &Image) -> u32 {
        let index = self.processes.len() as u32;
        let row = ProcessRow {
            process: index,
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
            kernel.images.belongs(image, index);
        }
        index
    }

    /// The row of a thread of such a process.
    pub(super) fn thread_alone(&mut self, process: u32, tid: u32, ns: i64) -> u32 {
        let next = self.threads.len() as u32;
        let Some(kernel) = &mut self.kernel else { return next };
        let thread = *kernel.threads.entry((process, tid)).or_insert(next);
        if thread == next {
            self.threads.push(ThreadRow { thread, process, tid, start_ns: ns, events: 0 });
        }
        self.threads[thread as usize].events += 1;
        thread
    }

    /// What a process had mapped before anybody looked: its memory, not its files.
    fn take_mappings(&mut self, index: u32, pid: u32) {
        let text = maps::read(pid);
        let begin = self.clock.to_monotonic(self.processes[index as usize].start);
        let thread = self.thread_alone(index, pid, self.clock.of_monotonic(begin));
        for ((start, bytes, kind), ns) in
            maps::parse(&text).filter_map(own_memory).zip((begin..).step_by(APART_NS))
        {
            let (span, ordinal, site) = (None, 0, None);
            let (touched, faulted, measured) = (0, 0, false);
            // A time of its own: mappings of one time count as one call.
            let alloc = self.clock.stamp_of_monotonic(ns);
            let part = Part::None;
            let piece = Piece {
                start,
                bytes,
                alloc,
                thread,
                span,
                ordinal,
                kind,
                site,
                touched,
                faulted,
                measured,
                part,
            };
            self.insert_piece(index, piece);
        }
    }

    /// Processes whose end was not told: no room was left for it, or nobody waits for them.
    pub fn end_the_vanished(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        let vanished: Vec<u32> =
            kernel.images.running().map(|image| image.pid).filter(|pid| !is_running(*pid)).collect();
        let ns = self.clock.monotonic_now();
        for pid in vanished {
            self.end_alone(pid, ns);
            if let Some(image) = self.image(pid) {
                image.end_ns = Some(ns);
            }
        }
    }

    /// The image ended: what it still held becomes rows.
    pub(super) fn end_alone(&mut self, pid: u32, ns: u64) {
        let stamp = self.clock.stamp_of_monotonic(ns);
        let ended = self.image(pid).filter(|image| image.alone).and_then(|image| image.process);
        if let Some(index) = ended {
            self.at(stamp);
            self.end_process(index, stamp);
        }
    }
}

/// True if nothing can load a probe into the program that the process executes, or it was started without one: no
/// dynamic linker, one that is told to be careful (AT_SECURE, ld.so(8)), or an environment that does not ask for it.
pub(super) fn cannot_load_probe(pid: u32, token: &str) -> bool {
    statically_linked(format!("/proc/{pid}/exe").as_ref())
        || is_secure(&std::fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default())
        || launch::lacks_probe(pid, token)
}

/// True if the auxiliary vector (getauxval(3)) has AT_SECURE set.
fn is_secure(vector: &[u8]) -> bool {
    let (words, _) = vector.as_chunks::<8>();
    let mut pairs =
        words.chunks_exact(2).map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1])));
    pairs.any(|(key, value)| key == libc::AT_SECURE && value != 0)
}

/// Anonymous memory that a program may write to, stacks aside.
fn own_memory(listed: Listed) -> Option<(u64, u64, Kind)> {
    let kind = match (listed.path, listed.rights.as_bytes().get(3)?) {
        ("[heap]", _) => Kind::MapBreak,
        ("", b'p') if !listed.of_file => Kind::MapAnonymous,
        (path, b's') if path.starts_with("/dev/zero") => Kind::MapShared,
        _ => return None,
    };
    listed.rights.starts_with("rw").then_some((listed.start, listed.bytes(), kind))
}

/// Its parent's pid; 0 if it is gone.
pub fn parent_of(pid: u32) -> u32 {
    status(pid, 1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// False if it is gone, or a zombie.
fn is_running(pid: u32) -> bool {
    status(pid, 0).is_some_and(|state| state != "Z" && state != "X")
}

/// A field after the name (proc_pid_stat(5)): 0 the state, 1 the parent.
fn status(pid: u32, field: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(field).map(str::to_owned)
}

/// Where the program break of a process is: the end of its heap, if it has one.
pub(super) fn break_of(pid: u32) -> Option<u64> {
    let text = maps::read(pid);
    let heap = maps::parse(&text).filter(|listed| listed.path == "[heap]").last()?;
    Some(heap.end.next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_of_the_programs_own_is_taken() {
        let of = |rest: &str| maps::parse(&format!("1000-3000 {rest}")).find_map(own_memory);
        assert_eq!(of("rw-p 00000000 00:00 0"), Some((0x1000, 0x2000, Kind::MapAnonymous)));
        assert_eq!(of("rw-p 00000000 00:00 0 [heap]"), Some((0x1000, 0x2000, Kind::MapBreak)));
        assert_eq!(of("rw-s 00000000 00:01 7 /dev/zero (deleted)"), Some((0x1000, 0x2000, Kind::MapShared)));
        assert_eq!(of("rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(of("r--p 00000000 00:00 0"), None);
        assert_eq!(of("rw-p 00001000 fe:00 42 /usr/lib/libc.so.6"), None);
    }

    #[test]
    fn a_set_user_id_program_is_told_by_its_auxiliary_vector() {
        let vector = |secure: u64| {
            let words = [libc::AT_PAGESZ, PAGE, libc::AT_SECURE, secure, libc::AT_NULL, 0];
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        assert!(is_secure(&vector(1)));
        assert!(!is_secure(&vector(0)));
        assert!(!is_secure(&vector(1)[..25]));
        assert!(!is_secure(&[]));
    }
}
