//! What the kernel sees of a recorded process tree: resident pages to the page, faults, births and
//! ends, lack of memory, and, where no probe can be, system calls that map memory.
//!
//! Prints nothing, pins nothing, attaches nothing that outlives its file descriptors: the programs
//! end with the process, however it ends. Does without clang at build time: then every
//! [`Kernel::load`] is an error that says so.
//!
//! The programs are C (`bpf/`), compiled by `build.rs` and embedded; `aya-obj` relocates
//! them to the running kernel. [`Kernel`] loads and attaches them, says which processes to
//! watch, and reads [`Event`]s.

mod btf;
mod error;
mod event;
mod kernel;
mod locked;
mod object;
mod perf_event;
mod release;
mod ring;
mod sys;
mod uprobe;

pub use error::Error;
pub use event::{Call, Counters, Event, What};
pub use kernel::{Attached, Kernel, Leftover, Lost, Parts, Rest};
pub use uprobe::Function;

/// True if the programs were compiled when this crate was built.
pub(crate) const BUILT: bool = cfg!(programs_built);
