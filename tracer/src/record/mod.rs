//! Recording a command: launch, drain, order, pair, fold, write.

mod attach;
mod backlog;
mod blocks;
mod clock;
mod close;
mod cuda;
mod curve;
mod devices;
mod drain;
mod fold;
mod foresee;
mod futex;
mod garbage;
mod handshake;
mod image_memory;
mod kernel;
mod late;
mod launch;
mod launched;
mod limits;
mod live;
mod look;
mod mappings;
mod maps;
mod modules;
mod notes;
mod oom;
mod options;
mod process;
mod sample;
mod samples;
mod segment;
mod session;
mod sites;
mod spans;
mod text;
mod uprobe;

pub use attach::{Attach, attach};
pub use cuda::{Cuda, find_cuda_probe, find_driver};
pub use fold::Keep;
pub use foresee::Foretell;
pub use garbage::Collecting;
pub use kernel::Source;
pub use launch::{find_probe, interrupted};
pub use limits::free_memory;
pub use options::{Options, Stacks, Wait};
pub use samples::{Accesses, can_count_faults, can_sample_accesses};
/// True if stamps may be read from the processor's own counter.
pub fn tsc_is_invariant() -> bool {
    clock::Clock::tsc_is_invariant()
}

pub use session::{Failure, run};
