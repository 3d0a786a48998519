//! Writing events into the calling thread's ring.

mod deferred;
mod guard;
pub mod hot;
pub mod record;
pub mod refused;
pub mod room;
pub mod sampling;
pub mod stack;
pub mod thread_memory;
