//! The spans that are in memory: whole, while their rows may change, and of those whose rows were written
//! what live blocks, threads and inner spans refer to.

use rustc_hash::FxHashSet;

use super::Span;
use crate::record::state::sparse::Sparse;

/// So many spans that were written stay at least, before those that nothing refers to are forgotten.
const WRITTEN_MIN: usize = 1 << 16;

/// By number, in the order they began.
pub(super) struct Held {
    all: Sparse<Entry>,
    written: usize,
    /// When as many were written, some are to be forgotten.
    forget_at: usize,
}

enum Entry {
    Whole(Box<Span>),
    Written(Written),
}

/// A span whose row was written.
struct Written {
    parent: Option<u32>,
    operator: u32,
    contextual: bool,
}

impl Default for Held {
    fn default() -> Held {
        Held { all: Sparse::default(), written: 0, forget_at: WRITTEN_MIN }
    }
}

impl Held {
    /// How many spans there were.
    pub fn count(&self) -> u32 {
        self.all.given_out()
    }

    /// Adds one. Its number.
    pub fn push(&mut self, span: Span) -> u32 {
        self.all.push(Entry::Whole(Box::new(span)))
    }

    /// A span that is whole.
    pub fn get(&self, number: u32) -> Option<&Span> {
        match self.all.get(number)? {
            Entry::Whole(span) => Some(span),
            Entry::Written(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Span> {
        match self.all.get_mut(number)? {
            Entry::Whole(span) => Some(span),
            Entry::Written(_) => None,
        }
    }

    /// The row of a span is about to be written.
    pub fn take(&mut self, number: u32) -> Option<Span> {
        let entry = self.all.get_mut(number)?;
        let Entry::Whole(span) = entry else { return None };
        let (parent, operator, contextual) = (span.row.parent, span.operator, span.contextual);
        let written = Entry::Written(Written { parent, operator, contextual });
        let Entry::Whole(span) = std::mem::replace(entry, written) else { return None };
        self.written += 1;
        Some(*span)
    }

    /// True while the span runs.
    pub fn runs(&self, number: u32) -> bool {
        self.get(number).is_some_and(|span| span.end.is_none())
    }

    /// The span around it.
    pub fn parent(&self, number: u32) -> Option<u32> {
        match self.all.get(number)? {
            Entry::Whole(span) => span.row.parent,
            Entry::Written(written) => written.parent,
        }
    }

    /// The number of its operator.
    pub fn operator(&self, number: u32) -> Option<u32> {
        self.all.get(number).map(|entry| match entry {
            Entry::Whole(span) => span.operator,
            Entry::Written(written) => written.operator,
        })
    }

    /// True if it named the context that it began in.
    pub fn is_contextual(&self, number: u32) -> bool {
        self.all.get(number).is_some_and(|entry| match entry {
            Entry::Whole(span) => span.contextual,
            Entry::Written(written) => written.contextual,
        })
    }

    /// The span and those around it, innermost first.
    pub fn around(&self, span: Option<u32>) -> impl Iterator<Item = u32> {
        std::iter::successors(span, |span| self.parent(*span))
    }

    /// Passes those of them that run to `work`.
    #[inline]
    pub fn each_running(&mut self, span: Option<u32>, mut work: impl FnMut(&mut Span)) {
        let mut next = span;
        while let Some(number) = next {
            next = match self.all.get_mut(number) {
                Some(Entry::Whole(span)) => {
                    // Others may go on after the span they began in.
                    if span.end.is_none() {
                        work(span);
                    }
                    span.row.parent
                }
                Some(Entry::Written(written)) => written.parent,
                None => None,
            };
        }
    }

    /// True if spans were written that nothing may refer to any more.
    pub fn is_crowded(&self) -> bool {
        self.written >= self.forget_at
    }

    /// Forgets what was written, but for these spans and those around them.
    pub fn keep_only(&mut self, named: impl Iterator<Item = u32>) {
        let mut kept = FxHashSet::default();
        for number in named {
            for around in self.around(Some(number)) {
                if !kept.insert(around) {
                    break;
                }
            }
        }
        let is_left = |(number, entry): &(u32, &Entry)| match entry {
            Entry::Whole(_) => false,
            Entry::Written(_) => !kept.contains(number),
        };
        let left: Vec<u32> = self.all.iter().filter(is_left).map(|(number, _)| number).collect();
        self.written -= left.len();
        self.forget_at = WRITTEN_MIN.max(2 * self.written);
        left.into_iter().for_each(|number| drop(self.all.remove(number)));
    }
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::SpanRow;

    use super::*;

    fn span(parent: Option<u32>) -> Span {
        Span::new(SpanRow { parent, ..SpanRow::default() }, 7, 0, false)
    }

    #[test]
    fn what_something_refers_to_stays_with_all_that_is_around_it() {
        let mut held = Held::default();
        for parent in [None, Some(0), Some(1), Some(1), Some(3)] {
            held.push(span(parent));
        }
        (1..5).for_each(|number| drop(held.take(number)));
        assert_eq!((held.written, held.get(0).is_some(), held.get(2).is_some()), (4, true, false));
        held.keep_only([2].into_iter());
        assert_eq!(held.around(Some(2)).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!((held.parent(3), held.parent(4), held.operator(1)), (None, None, Some(7)));
        let mut running = Vec::new();
        held.each_running(Some(2), |span| running.push(span.row.parent));
        assert_eq!((running, held.runs(2), held.count(), held.written), (vec![None], false, 5, 2));
    }

    #[test]
    fn what_nothing_refers_to_takes_no_room() {
        let mut held = Held::default();
        for _ in 0..10 * WRITTEN_MIN {
            let number = held.push(span(None));
            held.take(number);
            if held.is_crowded() {
                held.keep_only([0].into_iter());
            }
        }
        assert!(held.written <= WRITTEN_MIN && held.operator(0) == Some(7));
    }
}
