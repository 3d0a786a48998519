//! Starts the recorded command: libraries to preload, signals to pass on, standard streams to
//! inherit.

mod command;
mod cuda;
mod descriptors;
mod libraries;
mod signals;
mod streams;

pub use command::{Ending, ending, start};
pub use cuda::{Cuda, find_cuda_probe, find_driver};
pub use libraries::find_probe;
pub use signals::interrupted;
