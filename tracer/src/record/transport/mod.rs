//! The way from the recorded programs to the tracer: settings and segment that they share, its rings,
//! the order of their events, and the sockets that probes and clients connect to.

pub mod address_space;
pub mod backlog;
pub mod clock;
pub mod collection;
pub mod drain;
pub mod futex;
pub mod handshake;
pub mod listener;
pub mod pending;
pub mod placing;
pub mod segment;
pub mod segments;
pub mod settings;
