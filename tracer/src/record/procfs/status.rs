//! A process in /proc: its state, its parent, its command line, its memory.

use memtrace_wire::arch::page::bytes as page_bytes;

use super::maps;

/// `PF_EXITING` of the kernel's sched.h.
const PF_EXITING: u32 = 4;

/// Its parent's pid; 0 if it is gone.
pub fn parent_of(pid: u32) -> u32 {
    status(pid, 1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// False if it is gone, or a zombie.
pub fn is_running(pid: u32) -> bool {
    status(pid, 0).is_some_and(|state| state != "Z" && state != "X")
}

/// A field after the name (proc_pid_stat(5)): 0 the state, 1 the parent, 6 the flags.
fn status(pid: u32, field: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(field).map(str::to_owned)
}

/// True if it exits, or is gone. The kernel marks a task as exiting before it passes the tracepoint
/// of exits; its memory is released before that up to Linux 6.15, and after it since.
pub fn is_exiting(pid: u32) -> bool {
    let flags = status(pid, 6).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_none_or(|flags| flags & PF_EXITING != 0)
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
    Some(heap.end.next_multiple_of(page_bytes()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_exits_before_its_parent_waits_for_it() {
        assert!(!is_exiting(std::process::id()));
        let mut child = Command::new("true").spawn().unwrap();
        while is_running(child.id()) {
            std::thread::yield_now();
        }
        assert!(is_exiting(child.id()), "it is a zombie");
        child.wait().unwrap();
        assert!(is_exiting(child.id()), "it is gone");
    }
}
