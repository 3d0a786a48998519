//! What an acquire needs to know of the call stack that led to it.

use crate::tls::Thread;

/// The call stack of an acquire. Call both with the guard held.
pub trait CallStack: Copy {
    /// The number of the stack, if the thread has described it before.
    fn known(self, thread: &mut Thread) -> Option<u16>;

    /// The number of the stack in any case; 0 if it could not be described.
    fn number(self, thread: &mut Thread) -> u16;
}

/// That of an event that has none.
#[derive(Clone, Copy)]
pub enum NoStack {}

impl CallStack for NoStack {
    fn known(self, _: &mut Thread) -> Option<u16> {
        match self {}
    }

    fn number(self, _: &mut Thread) -> u16 {
        match self {}
    }
}
