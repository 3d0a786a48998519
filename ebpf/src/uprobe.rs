//! Functions of programs and libraries, probed where they begin (perf_event_open(2), uprobe PMU).

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use aya_obj::generated::{BPF_ALU64, BPF_CALL, BPF_JMP, BPF_K, BPF_MOV, bpf_insn};

use crate::{Error, perf_event};

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The file that has it.
    pub file: PathBuf,
    /// Where in the file its code begins.
    pub offset: u64,
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
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Error::Missing("uprobes".into()))?;
    let path = CString::new(function.file.as_os_str().as_encoded_bytes())
        .map_err(|_| Error::Function("a path has no NUL".into()))?;
    perf_event::attach_to_file(program, kind, &path, function.offset)
}
