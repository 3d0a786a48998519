//! Work on several processors at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// Threads for work that is worth some: as many as there are processors, four at most.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(4))
}

/// Does `work` for each number below `count`, on some threads that each begin with something of their own; returns
/// what they have then.
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
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        let theirs = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::Trace("a thread that read it gave up".into())))
        });
        std::iter::once(mine).chain(theirs).collect()
    })
}
