//! Notes of the trace: sentences on what was not seen.

use super::recording::Session;
use super::run::GRACE;
use crate::record::fold::OwnMappings;
use crate::record::procfs::executable::described;
use crate::record::procfs::resident;
use crate::units::Bytes;

/// Programs named that no probe was in.
const PROGRAMS_MAX: usize = 5;

impl Session {
    /// Sentences on what could not be seen, and what to do about it.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.notes_on_interpreters();
        notes.extend(self.notes_on_losses());
        notes.extend(self.notes_on_programs());
        notes.extend(self.notes_on_samples());
        notes.extend(self.fold.placements().note());
        notes
    }

    /// Sentences that ask for nothing.
    pub(super) fn remarks(&self) -> Vec<String> {
        let waited = self.fold.waited_ns() / 1_000_000;
        let waited = (waited > 0).then(|| format!("The program waited {waited} ms for the tracer."));
        let of_recording = waited.into_iter().chain(self.thinned_note()).chain(self.own_mappings_note());
        of_recording.chain(self.fold.placements().remark()).collect()
    }

    fn thinned_note(&self) -> Option<String> {
        let thinned = self.fold.kernel().map_or(0, |kernel| kernel.images().thinned());
        (thinned > 0).then(|| format!(
            "Of {thinned} page faults the addresses were not reported, because there were too many at a time: parts of blocks that were never touched are upper bounds."
        ))
    }

    fn notes_on_losses(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.still_running > 0 {
            notes.push(format!(
                "{} processes outlived the command by more than {} s; what they did after that was not recorded (--wait all waits for them).",
                self.still_running,
                GRACE.as_secs()
            ));
        }
        let without_slot = self.drain.lost_without_slot();
        if without_slot > 0 {
            notes.push(format!(
                "Some threads got no memory for their events: {without_slot} events were lost, so peaks are lower bounds. Where ulimit -v is set, an eighth of it is for events."
            ));
        }
        let unserved = self.listener.unserved();
        if unserved > 0 {
            notes.push(format!(
                "{unserved} requests for memory to record in were refused, because memtrace has no more descriptors, mappings or address space (raise ulimit -n, or ulimit -v where it is set): what those processes and threads did may be missing."
            ));
        }
        let turned_away = self.listener.turned_away();
        if turned_away > 0 {
            notes.push(format!(
                "{turned_away} connections to the recorder came to nothing (they were silent, or a system call failed): if processes of the command were among them, they were not recorded."
            ));
        }
        if self.sampling.passed_over() {
            notes.push(format!(
                "Mappings of more than {} were not measured: what is touched of them is not in live bytes.",
                Bytes(resident::MEASURED_MAX)
            ));
        }
        let malformed = self.fold.spans().malformed();
        if malformed > 0 {
            notes.push(format!("{malformed} descriptions of spans could not be read."));
        }
        for operator in self.fold.spans().missing(&self.operators) {
            let hint = match operator.starts_with("__main__:") {
                true => "",
                false => " A script's own functions are in the module __main__.",
            };
            notes.push(format!(
                "{operator} was never called, or is not a function that can be watched.{hint}"
            ));
        }
        let unmet: Vec<&String> = self.fold.spans().missing(&self.predicted).collect();
        let is_none_met = self.operators.is_empty() && unmet.len() == self.predicted.len();
        if let Some(first) = unmet.first().filter(|_| is_none_met) {
            notes.push(format!(
                "Nothing was predicted: no operator of the model was recorded. Name those that are not of a library with --operator, e.g. --operator {first}."
            ));
        }
        notes
    }

    fn notes_on_programs(&self) -> Vec<String> {
        if self.fold.is_attached() {
            return vec![
                "Attached from the kernel side: mappings made by system calls, page faults and resident memory are recorded, blocks inside them (malloc) are not. Meanwhile every system call on this machine took 40 to 90 ns longer.".into(),
            ];
        }
        if let Some(programs) = self.uninstrumented() {
            let note = format!(
                "No probe could be loaded into {programs}: the kernel side recorded system calls (mappings; not those of 32-bit programs), page faults and resident memory instead; blocks inside them (malloc) are not seen. Meanwhile every system call on this machine took 40 to 90 ns longer."
            );
            return [note].into_iter().chain(self.fold.unrecorded_note()).collect();
        }
        if self.fold.processes_met() == 0 {
            let command = self.meta.command.first().map(String::as_str).unwrap_or_default();
            let command = described(command, "it allocates nothing through the C library");
            let hint = match self.fold.kernel() {
                Some(_) => "",
                None => {
                    " The kernel side records mappings and resident memory without a probe; memtrace doctor says what it takes."
                }
            };
            return vec![format!("No event was recorded of {command}.{hint}")];
        }
        self.fold.unrecorded_note().into_iter().collect()
    }

    fn notes_on_samples(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.fold.samples().note().into_iter().collect();
        let lost = self.fold.lost_by_kernel();
        if lost > 0 {
            notes.push(format!("{lost} events of the kernel side found no room and are not in the trace. Resident peaks are still exact, unless the end of a process was among them."));
        }
        notes
    }

    /// Programs that only the kernel side has recorded.
    fn uninstrumented(&self) -> Option<String> {
        let programs = self.fold.kernel()?.uninstrumented();
        let otherwise =
            "linked with a sanitizer or another C library, started without it, or by another memtrace";
        let named: Vec<String> =
            programs.iter().take(PROGRAMS_MAX).map(|program| described(program, otherwise)).collect();
        let more = if programs.len() > named.len() { ", …" } else { "" };
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }

    /// An allocator inside a library or a program that exports no symbols is seen as the mappings
    /// it makes.
    fn own_mappings_note(&self) -> Option<String> {
        const WORTH_A_NOTE: u64 = 16 << 20;
        let all = self.fold.processes().map(OwnMappings::of).chain(self.fold.retired().largest());
        let OwnMappings { pid, peak_bytes, bytes } = all.max_by_key(|own| own.peak_bytes)?;
        (bytes > WORTH_A_NOTE && bytes > peak_bytes / 8).then(|| {
            format!(
                "{} of the peak are mappings that process {} made itself. Where an allocator of its own made them (Python's for small objects, see --python-allocators; those inside pyarrow or polars), its blocks cannot be distinguished, only what is touched.",
                Bytes(bytes),
                pid
            )
        })
    }
}
