//! Recording a command: launch, drain, order, pair, fold, write.

mod backlog;
mod blocks;
mod clock;
mod close;
mod curve;
mod drain;
mod fold;
mod garbage;
mod handshake;
mod kernel;
mod launch;
mod launched;
mod look;
mod mappings;
mod modules;
mod notes;
mod oom;
mod process;
mod sample;
mod segment;
mod session;
mod sites;
mod spans;
mod text;

pub use fold::Keep;
pub use garbage::Collecting;
pub use kernel::Source;
pub use session::{Options, Stacks, Wait, run};
