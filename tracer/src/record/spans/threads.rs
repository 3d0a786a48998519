//! Which span each thread works for: the one it has begun, or one that another thread exported with
//! its work.
//!
//! A thread's spans are a chain of parents, and it is in the innermost one that still runs. Spans
//! that name their context (Python's `contextvars`) go by it and not by the order in which a thread
//! began them: coroutines take turns.

use super::Spans;

/// Of one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// The span of `--span`, around all others.
    root: Option<u32>,
    /// The span that the thread works for without having begun it; the root if there is none.
    base: Option<u32>,
    /// The innermost span it is in; it may have ended since.
    pub innermost: Option<u32>,
    /// Where it was, base and innermost, when it adopted the span that it works for.
    before: Option<(Option<u32>, Option<u32>)>,
}

impl Place {
    /// The spans it names.
    pub(super) fn spans(&self) -> impl Iterator<Item = u32> {
        let (base, innermost) = self.before.unwrap_or_default();
        [self.root, self.base, self.innermost, base, innermost].into_iter().flatten()
    }
}

impl Spans {
    /// True while `thread` is in no span: what it acquires belongs to none.
    #[inline(always)]
    pub fn is_outside(&self, thread: u32) -> bool {
        self.places.get(thread).is_none_or(|place| place.innermost.is_none())
    }

    /// The innermost span that `thread` is in.
    #[inline]
    pub fn innermost(&mut self, thread: u32) -> Option<u32> {
        let found = self.running(self.places.get(thread)?.innermost);
        self.places[thread].innermost = found;
        found
    }

    /// The span, or the innermost one around it that still runs.
    fn running(&self, span: Option<u32>) -> Option<u32> {
        self.held.around(span).find(|span| self.held.runs(*span))
    }

    pub(super) fn place(&mut self, thread: u32) -> &mut Place {
        self.places.get_or_insert(thread)
    }

    /// Puts a new thread into a span that is open already (`--span`).
    pub fn enter(&mut self, thread: u32, span: u32) {
        *self.place(thread) =
            Place { root: Some(span), base: Some(span), innermost: Some(span), before: None };
    }

    /// The thread is gone.
    pub fn thread_ended(&mut self, thread: u32) {
        self.places.remove(thread);
    }

    /// From now on `token` stands for the span that the thread is in.
    pub fn export(&mut self, process: u32, thread: u32, token: u64) {
        match self.innermost(thread) {
            Some(span) => self.exported.insert((process, token), span),
            None => self.exported.remove(&(process, token)),
        };
    }

    /// The thread works for the span that `token` stands for from now on, for none (or that of
    /// `--span`) if it stands for none; `last` if no other thread will. 0: it has done that work.
    pub fn adopt(&mut self, process: u32, thread: u32, token: u64, last: bool) {
        let key = (process, token);
        let exported = if last { self.exported.remove(&key) } else { self.exported.get(&key).copied() };
        let place = self.place(thread);
        if token == 0 {
            (place.base, place.innermost) = place.before.take().unwrap_or((place.root, place.root));
            return;
        }
        place.before = Some((place.base, place.innermost));
        place.base = exported.or(place.root);
        place.innermost = place.base;
    }

    /// The thread goes on in a context that is in the span with this id; 0: in none of its own.
    pub fn activate(&mut self, process: u32, thread: u32, id: u64) {
        let span = self.by_id.get(&(process, id)).copied();
        let place = self.place(thread);
        place.innermost = span.or(place.base);
    }

    /// The span that one begins in, whose context is in the span with the id `within`; `None` where
    /// there are no contexts.
    pub(super) fn parent_of_new(&mut self, process: u32, thread: u32, within: Option<u64>) -> Option<u32> {
        let innermost = self.innermost(thread);
        let Some(within) = within else { return innermost };
        let base = self.place(thread).base;
        let base = self.running(base);
        let announced = self.by_id.get(&(process, within)).copied();
        let own = self.held.around(innermost).take_while(|span| Some(*span) != base);
        let nearest = own.into_iter().find(|span| self.held.is_contextual(*span));
        match (nearest, announced) {
            // What C code has begun in between has no part in contexts.
            _ if nearest == announced => innermost,
            (None, Some(announced)) if self.held.around(innermost).any(|span| span == announced) => innermost,
            (_, Some(announced)) => Some(announced),
            (_, None) => base,
        }
    }

    /// The thread leaves a span. Returns those inside it that an exception or a longjmp left
    /// without an end.
    pub(super) fn leave(&mut self, thread: u32, span: u32) -> Vec<u32> {
        let innermost = self.place(thread).innermost;
        let inside: Vec<u32> = self.held.around(innermost).take_while(|inner| *inner != span).collect();
        let is_in = self.held.around(innermost).any(|around| around == span);
        if !is_in {
            return Vec::new();
        }
        self.place(thread).innermost = self.held.parent(span);
        inside.into_iter().filter(|inner| !self.held.is_contextual(*inner)).collect()
    }
}
