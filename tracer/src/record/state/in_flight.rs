//! Calls under way, which will release memory if they succeed.

use memtrace_trace::rows::Kind;
use rustc_hash::FxHashMap;

use super::blocks::Block;
use super::mappings::Piece;

/// A call under way, and what it will release if it succeeds.
#[derive(Debug)]
pub enum InFlight {
    /// `realloc`: the block it was given, and its address; or that none is known there.
    Realloc { block: Option<(u64, Block)>, unknown: Option<Unknown> },
    /// What unmaps this address.
    Unmap { address: u64, pieces: Vec<Piece> },
    /// `mremap`: what it was given.
    Remap { from: u64, kind: Kind, pieces: Vec<Piece> },
}

/// A block that is not known.
#[derive(Debug, Clone, Copy)]
pub struct Unknown {
    /// Its address.
    pub address: u64,
    /// The other thread whose release has just ended the block there.
    pub before: Option<u32>,
}

/// A call that has returned, and those inside it whose returns were lost.
pub struct Finished {
    /// The call.
    pub call: InFlight,
    /// Calls that have released nothing.
    pub lost: Vec<InFlight>,
}

/// The calls of one process, by thread; a signal handler's calls lie inside those that it
/// interrupted.
#[derive(Debug, Default)]
pub struct Calls {
    by_thread: FxHashMap<u32, Vec<InFlight>>,
}

impl Calls {
    /// A call begins.
    pub fn begin(&mut self, thread: u32, call: InFlight) {
        self.by_thread.entry(thread).or_default().push(call);
    }

    /// The innermost call that `is_it` returns.
    pub fn finish(&mut self, thread: u32, is_it: impl Fn(&InFlight) -> bool) -> Option<Finished> {
        let calls = self.by_thread.get_mut(&thread)?;
        let place = calls.iter().rposition(is_it)?;
        let lost = calls.split_off(place + 1);
        let call = calls.pop()?;
        Some(Finished { call, lost })
    }

    /// All of them: they never returned.
    pub fn take_all(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        std::mem::take(&mut self.by_thread).into_values().flatten()
    }

    /// The thread is gone; a call of its that never returned stays.
    pub fn thread_gone(&mut self, thread: u32) {
        if self.by_thread.get(&thread).is_some_and(Vec::is_empty) {
            self.by_thread.remove(&thread);
        }
    }

    /// Heap blocks that may be released.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.by_thread.values().flatten().filter_map(|call| match call {
            InFlight::Realloc { block, .. } => block.map(|(_, block)| block),
            _ => None,
        })
    }

    /// Pieces of mappings that may be released.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.by_thread.values().flatten().flat_map(|call| match call {
            InFlight::Unmap { pieces, .. } | InFlight::Remap { pieces, .. } => pieces.as_slice(),
            InFlight::Realloc { .. } => &[],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmap(address: u64) -> InFlight {
        InFlight::Unmap { address, pieces: Vec::new() }
    }

    #[test]
    fn calls_inside_one_that_returns_were_lost() {
        let mut calls = Calls::default();
        (1..=3).for_each(|address| calls.begin(7, unmap(address)));
        let is_second = |call: &InFlight| matches!(call, InFlight::Unmap { address: 2, .. });
        assert!(calls.finish(8, is_second).is_none(), "of another thread");
        let finished = calls.finish(7, is_second).unwrap();
        assert!(is_second(&finished.call) && finished.lost.len() == 1);
        assert!(calls.finish(7, is_second).is_none());
        calls.thread_gone(7);
        assert_eq!(calls.take_all().count(), 1, "the first one never returned");
    }
}
