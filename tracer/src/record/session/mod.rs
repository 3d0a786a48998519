//! One recording from start to end: [`run`] records a command, [`attach`] a process that runs
//! already.

mod attach;
mod close;
mod interpreters;
mod metadata;
mod notes;
mod options;
mod out_of_memory;
mod outcome;
mod place;
mod recorder_text;
mod recording;
mod refused;
mod run;
mod sampling;
mod timing;

pub use self::attach::{Attach, attach};
pub use self::options::{Options, Stacks, Wait};
pub use self::outcome::{Failure, Outcome};
pub use self::place::Earlier;
pub use self::run::run;
