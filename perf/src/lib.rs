//! Samples of what programs touch: page faults, which every machine counts; loads and stores where
//! the processor has a unit that knows their addresses (PEBS, IBS); and, on every machine again, the
//! instructions that take time, from whose registers the addresses are computed.
//! perf_event_open(2) is the rule for all of it.
//!
//! Prints nothing, needs no privilege where `perf_event_paranoid` is 2 or less, attaches nothing
//! that outlives its descriptors. What comes out of a ring is parsed without trust: a damaged
//! record is counted, never a panic.
//!
//! [`memory_events`] says what the machine can sample, [`Sampler`] samples it in the programs that
//! the calling thread's children execute, and returns [`Record`]s.

mod arch;
mod data_source;
mod error;
mod event;
mod operand;
mod record;
mod ring;
mod sampler;
mod sys;
mod unit;

pub use arch::code::Function;
pub use arch::registers::Registers;
pub use data_source::{Memory, Operation};
pub use error::Error;
pub use event::{Content, Event, Rate};
pub use operand::{Operand, Place};
pub use record::{Record, What, parse};
pub use sampler::{Missing, Sampler, Waiter};
pub use unit::memory_events;
