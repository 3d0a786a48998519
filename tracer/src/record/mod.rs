//! Recording a command: launch, drain, order, pair, fold, write.

mod clock;
mod drain;
mod fold;
mod handshake;
mod launch;
mod mappings;
mod modules;
mod process;
mod sample;
mod segment;
mod session;
mod sites;
mod spans;
mod text;

pub use session::{Options, run};
