//! Constraints: `no_std`, no allocation, no I/O, no system call.
//!
//! The shared memory that memtrace's probe (inside the recorded program) and its tracer agree on:
//! where things are ([`layout`]), what an event looks like ([`event`]), how a ring of events is
//! written and read ([`ring`]), how a call stack travels ([`stack`]) and which blocks come with one
//! ([`sampling`]), what is reported of a GPU's memory ([`device`]), what is exchanged before it is
//! shared ([`handshake`]), which memory blocks go to ([`placement`]), what the probe does to a program
//! ([`preloading`]), and what both need of the processor ([`arch`]).
#![no_std]

pub mod arch;
mod atomic;
pub mod device;
pub mod event;
pub mod handshake;
pub mod layout;
pub mod placement;
pub mod preloading;
pub mod ring;
pub mod sampling;
pub mod stack;
