//! Notes on Python interpreters that cannot be read.

use std::collections::BTreeMap;

use memtrace_trace::rows::{ModuleRow, split_command};
use memtrace_wire::event::{
    PYTHON_DEBUG, PYTHON_FREE_THREADED, PYTHON_OWN_ALLOCATOR, PYTHON_PYPY, PYTHON_VERSION,
};

use super::recording::Session;
use crate::record::state::process::{Interpreter, Process};

/// Processes whose interpreter cannot be read: why, how many, and the pid of the first one.
#[derive(Debug, Default, Clone)]
pub struct Unread {
    processes: BTreeMap<String, (usize, u32)>,
}

impl Unread {
    fn add(&mut self, pid: u32, why: Option<String>) {
        if let Some(why) = why {
            self.processes.entry(why).or_insert((0, pid)).0 += 1;
        }
    }

    fn notes(self) -> Vec<String> {
        let note = |(why, (count, pid)): (String, (usize, u32))| {
            let processes = if count == 1 { format!("process {pid}") } else { format!("{count} processes") };
            format!("Python frames cannot be read in {processes}: {why}.")
        };
        self.processes.into_iter().map(note).collect()
    }
}

impl Session {
    /// One sentence for each kind of interpreter whose frames cannot be read.
    pub(super) fn notes_on_interpreters(&self) -> Vec<String> {
        let mut unread = self.unread.clone();
        self.fold.processes().for_each(|process| unread.add(process.row.pid, self.why_unread(process)));
        unread.notes()
    }

    /// The process leaves: what is to be said of its interpreter is kept.
    pub(super) fn note_interpreter(&mut self, index: u32) {
        let process = self.fold.process(index);
        let (pid, why) = (process.row.pid, self.why_unread(process));
        self.unread.add(pid, why);
    }

    fn why_unread(&self, process: &Process) -> Option<String> {
        why_unread(process).or_else(|| self.why_not_found(process))
    }

    /// Where a process has no interpreter that the probe has found: it may have loaded one later.
    fn why_not_found(&self, process: &Process) -> Option<String> {
        let mut opened = self.fold.sites().opened_by(process.row.process).iter();
        let is_python = |module: &&ModuleRow| base_name(&module.path).starts_with("libpython");
        let library = opened.find(is_python).filter(|_| process.interpreter.is_none())?;
        Some(format!(
            "the program loaded {} after its start (dlopen); run it with that library in LD_PRELOAD",
            base_name(&library.path)
        ))
    }
}

/// Why the frames of a process's interpreter cannot be read, and what to do; `None` if they can.
fn why_unread(process: &Process) -> Option<String> {
    let Interpreter { reading, version } = process.interpreter?;
    let (major, minor) = (version >> 8, version & 0xff);
    let runs = match reading {
        PYTHON_VERSION if version > 3 << 8 | 14 => format!("Python {major}.{minor} is too new"),
        PYTHON_VERSION => format!("it runs Python {major}.{minor}"),
        PYTHON_DEBUG => format!("it runs a debug build of Python {major}.{minor}"),
        PYTHON_FREE_THREADED => format!("it runs a free-threaded build of Python {major}.{minor}"),
        PYTHON_PYPY => "it runs PyPy".into(),
        PYTHON_OWN_ALLOCATOR if is_named_python(&process.row.command) => {
            "its executable contains an allocator of its own".into()
        }
        _ => return None,
    };
    Some(format!("{runs}; run it with a release build of CPython 3.8 to 3.14 that has the GIL"))
}

/// True if the command line begins with `python3` or `/usr/bin/python3.11`.
fn is_named_python(command: &str) -> bool {
    base_name(split_command(command).0).starts_with("python")
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::ProcessRow;
    use memtrace_wire::event::PYTHON_READ;

    use super::*;

    fn why(reading: u64, version: u32, command: &str) -> Option<String> {
        let row = ProcessRow { command: command.into(), ..ProcessRow::default() };
        let mut process = Process::new(row, 0);
        process.interpreter = Some(Interpreter { reading, version });
        why_unread(&process)
    }

    #[test]
    fn each_reason_is_named_with_what_to_do() {
        assert_eq!(why(PYTHON_READ, 3 << 8 | 11, "python3"), None);
        for (reading, version, says) in [
            (PYTHON_VERSION, 2 << 8 | 7, "it runs Python 2.7;"),
            (PYTHON_VERSION, 3 << 8 | 15, "Python 3.15 is too new"),
            (PYTHON_DEBUG, 3 << 8 | 12, "a debug build"),
            (PYTHON_FREE_THREADED, 3 << 8 | 13, "a free-threaded build"),
            (PYTHON_PYPY, 0, "it runs PyPy;"),
        ] {
            let why = why(reading, version, "x").unwrap();
            assert!(why.contains(says) && why.contains("CPython 3.8 to 3.14"), "{why}");
        }
    }

    #[test]
    fn an_allocator_in_the_executable_matters_to_python_only() {
        assert_eq!(why(PYTHON_OWN_ALLOCATOR, 0, "/usr/bin/redis-server python"), None);
        assert!(why(PYTHON_OWN_ALLOCATOR, 0, "/opt/bin/python3.12 x.py").is_some());
    }
}
