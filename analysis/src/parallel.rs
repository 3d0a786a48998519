//! Work on several processors at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::error::Error;

/// Threads for work that is worth some: as many as there are processors, four at most.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(4))
}

/// Does `work` for each number below `count`, on some threads that each begin with something of
/// their own; returns what they have then.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    begin: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, usize) -> Result<(), Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let one = || {
        let mut own = begin();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(own);
            }
            if let Err(error) = work(&mut own, index) {
                next.store(count, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    std::thread::scope(|scope| {
        // There may be no more of them: those that are there do it all.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, one).ok();
        let workers: Vec<_> = (1..threads).filter_map(start).collect();
        let mine = one();
        let theirs = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::Trace("a thread that read it gave up".into())))
        });
        std::iter::once(mine).chain(theirs).collect()
    })
}

/// Something that threads come to in the order of their numbers, from 0, each once.
pub(crate) struct Turns<T> {
    /// Whose turn it is; `None` if a thread gave up.
    state: Mutex<(Option<usize>, T)>,
    changed: Condvar,
}

/// A number in that order. To drop it without having taken the turn is to give up, for all that
/// wait.
pub(crate) struct Turn<'a, T> {
    turns: &'a Turns<T>,
    number: usize,
    taken: bool,
}

impl<T> Turns<T> {
    pub(crate) fn new(what: T) -> Turns<T> {
        Turns { state: Mutex::new((Some(0), what)), changed: Condvar::new() }
    }

    pub(crate) fn turn(&self, number: usize) -> Turn<'_, T> {
        Turn { turns: self, number, taken: false }
    }

    /// Reads it out of turn.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        work(&self.lock().1)
    }

    pub(crate) fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1
    }

    fn lock(&self) -> MutexGuard<'_, (Option<usize>, T)> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Turn<'_, T> {
    /// Waits for the turn; `None` if one before has given up.
    pub(crate) fn take<R>(mut self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.turns.lock();
        while state.0.is_some_and(|now| now != self.number) {
            state = self.turns.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.0?;
        let result = work(&mut state.1);
        state.0 = Some(self.number + 1);
        self.taken = true;
        self.turns.changed.notify_all();
        Some(result)
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if !self.taken {
            self.turns.lock().0 = None;
            self.turns.changed.notify_all();
        }
    }
}
