//! Recording a command: launch, drain, order, pair, fold, write.

mod clock;
mod close;
mod drain;
mod fold;
mod handshake;
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
mod spans;
mod text;

pub use session::{Options, Wait, run};
