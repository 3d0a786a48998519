//! Recording a command: launch, drain, order, pair, fold, write.

mod fold;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod kernel;
mod launch;
mod live;
mod procfs;
mod samples;
mod session;
mod sites;
mod spans;
mod state;
mod transport;

pub use fold::Keep;
pub use kernel::Source;
pub use launch::{Cuda, find_cuda_probe, find_driver, find_probe, interrupted};
pub use live::PredictionOptions;
pub use procfs::limits::free_memory;
pub use procfs::whereabouts::Whereabouts;
pub use samples::{Accesses, can_count_faults, can_sample_accesses};
pub use session::{Attach, Earlier, Failure, Options, Outcome, Stacks, Wait, attach, run};
pub use state::garbage::Collecting;
pub use transport::placing::{PlacedBlock, PlacedProgram, Placing, tier_name};

/// What the processor's own counter is called.
pub const COUNTER: &str = memtrace_wire::arch::counter::NAME;

/// True if stamps may be read from the processor's own counter.
pub fn counter_is_steady() -> bool {
    transport::clock::Clock::counter_is_steady()
}
