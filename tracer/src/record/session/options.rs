//! What to record, and how much of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use memtrace_wire::sampling::Sampling;

use crate::record::fold::Keep;
use crate::record::kernel::Source;
use crate::record::launch::Cuda;
use crate::record::live::PredictionOptions;
use crate::record::samples::Accesses;
use crate::record::state::garbage::Collecting;
use crate::record::transport::placing::Placing;

/// What to record.
pub struct Options {
    /// Trace directory.
    pub output: PathBuf,
    /// The trace that is there may be replaced.
    pub replace: bool,
    /// Command and arguments.
    pub command: Vec<OsString>,
    /// What the command prints goes to standard error, as standard output has memtrace's answer.
    pub prints_to_stderr: bool,
    /// Python functions that are operators, `module:function`.
    pub operators: Vec<String>,
    /// Automatic spans: Python modules whose functions are operators when an argument is large, and
    /// Dask and PyTorch.
    pub automatic: Option<Vec<String>>,
    /// How long children are waited for.
    pub wait: Wait,
    /// Python objects come from `malloc`.
    pub python_allocators: bool,
    /// The whole command as one span.
    pub span: Option<(String, memtrace_trace::rows::ArrayInfo)>,
    /// How garbage is distinguished from memory in use.
    pub gc: Option<Collecting>,
    /// Which blocks get rows.
    pub keep: Keep,
    /// Bytes that the trace may take.
    pub max_bytes: Option<u64>,
    /// Which blocks get a call stack.
    pub stacks: Stacks,
    /// What sees the kernel's side of memory.
    pub kernel: Source,
    /// Which memory accesses are sampled.
    pub accesses: Accesses,
    /// Whether memory on devices is recorded.
    pub cuda: Cuda,
    /// Which memory large blocks go to.
    pub placing: Option<Placing>,
    /// What is predicted of operators while they run.
    pub prediction: Option<PredictionOptions>,
}

impl Options {
    /// For a command of which nothing special is wanted.
    pub fn of(output: PathBuf, command: Vec<OsString>) -> Options {
        Options {
            output,
            replace: false,
            command,
            prints_to_stderr: false,
            operators: Vec::new(),
            automatic: None,
            wait: Wait::Main,
            python_allocators: false,
            span: None,
            gc: None,
            keep: Keep::default(),
            max_bytes: None,
            stacks: Stacks::Auto,
            kernel: Source::Auto,
            accesses: Accesses::Off,
            cuda: Cuda::Auto,
            placing: None,
            prediction: None,
        }
    }

    /// For a process that runs already.
    pub fn of_running(output: PathBuf, pid: u32) -> Options {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = command.split(|byte| *byte == 0).filter(|argument| !argument.is_empty());
        let command = arguments.map(|argument| OsString::from_vec(argument.to_vec())).collect();
        let (stacks, kernel, cuda) = (Stacks::None, Source::Ebpf, Cuda::Off);
        Options { stacks, kernel, cuda, ..Options::of(output, command) }
    }
}

/// Which blocks and mappings are recorded with their call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// Large ones; of small blocks a sample, without bias.
    Auto,
    /// All.
    All,
    /// None.
    None,
}

impl Stacks {
    pub fn name(self) -> &'static str {
        match self {
            Stacks::Auto => "auto",
            Stacks::All => "all",
            Stacks::None => "none",
        }
    }

    pub fn sampling(self) -> Sampling {
        match self {
            Stacks::Auto => Sampling::AUTO,
            Stacks::All => Sampling::ALL,
            Stacks::None => Sampling::NONE,
        }
    }
}

/// How long the recording goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until the command has ended; children that outlive it are given two seconds.
    Main,
    /// Until all its children have ended too.
    All,
}
