//! A process in /proc: its state, its parent, its command line, its memory.

use super::maps;

const PAGE: u64 = 4096;

/// Its parent's pid; 0 if it is gone.
pub fn parent_of(pid: u32) -> u32 {
    status(pid, 1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// False if it is gone, or a zombie.
pub fn is_running(pid: u32) -> bool {
    status(pid, 0).is_some_and(|state| state != "Z" && state != "X")
}

/// A field after the name (proc_pid_stat(5)): 0 the state, 1 the parent.
fn status(pid: u32, field: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(field).map(str::to_owned)
}

/// True of a process that has not begun to exit, by proc(5), statm.
pub fn has_memory(pid: u32) -> bool {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    pages.split_whitespace().next().is_some_and(|size| size != "0")
}

/// Arguments separated by spaces, bounded.
pub fn command_line(raw: &[u8]) -> String {
    let mut arguments: Vec<_> =
        raw.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(String::from_utf8_lossy).collect();
    // As memtrace_trace::rows::split_command reads it.
    if let Some(program) = arguments.first_mut().filter(|program| program.contains(' ')) {
        *program = format!("'{program}'").into();
    }
    arguments.join(" ").chars().take(4096).collect()
}

/// The command line as /proc has it, if the process is still there.
pub fn command_of(pid: u32, name: &[u8; 16]) -> String {
    let line = command_line(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    if !line.is_empty() {
        return line;
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Where the program break of a process is: the end of its heap, if it has one.
pub fn break_of(pid: u32) -> Option<u64> {
    let text = maps::read(pid);
    let heap = maps::parse(&text).filter(|listed| listed.path == "[heap]").last()?;
    Some(heap.end.next_multiple_of(PAGE))
}
