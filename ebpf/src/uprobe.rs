//! Functions of programs and libraries, probed where they begin (perf_event_open(2), uprobe PMU).

use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use aya_obj::generated::{BPF_ALU64, BPF_CALL, BPF_JMP, BPF_K, BPF_MOV, bpf_insn};

use crate::{Error, sys};

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The file that has it.
    pub file: PathBuf,
    /// Where in the file its code begins.
    pub offset: u64,
}

/// The first fields of `struct perf_event_attr`, which has this length since Linux
/// 3.3 (PERF_ATTR_SIZE_VER1).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    path: u64,
    offset: u64,
}

/// The program for the function with this index: it asks for a cookie, which kernels have since
/// Linux 5.15, and gets this number instead.
pub(crate) fn numbered(instructions: &[bpf_insn], index: u32) -> Vec<bpf_insn> {
    const GET_ATTACH_COOKIE: i32 = 174;
    let mut numbered = instructions.to_vec();
    for instruction in &mut numbered {
        if u32::from(instruction.code) == BPF_JMP | BPF_CALL && instruction.imm == GET_ATTACH_COOKIE {
            instruction.code = (BPF_ALU64 | BPF_MOV | BPF_K) as u8;
            instruction.imm = index as i32;
        }
    }
    numbered
}

/// The event, which detaches the program when it is closed.
pub(crate) fn attach(program: &OwnedFd, function: &Function) -> Result<OwnedFd, Error> {
    const CLOSE_ON_EXEC: u64 = 8;
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Error::Missing("uprobes".into()))?;
    let path = CString::new(function.file.as_os_str().as_encoded_bytes())
        .map_err(|_| Error::Function("a path has no NUL".into()))?;
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        path: path.as_ptr() as u64,
        offset: function.offset,
        ..Default::default()
    };
    // SAFETY: the attributes and the path live until the call returns; any process, on processor 0:
    // an uprobe's event counts on one processor, the program runs on all (perf_trace_event_init).
    let raw =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, 0, -1, CLOSE_ON_EXEC) };
    if raw < 0 {
        return Err(Error::call(format!("cannot probe {}", function.file.display())));
    }
    // SAFETY: the kernel has just made it for us.
    let event = unsafe { OwnedFd::from_raw_fd(raw as i32) };
    sys::attach_perf_event(program, &event)?;
    Ok(event)
}
