//! What the spans of each operator come to. Threads read the pieces of a trace's spans, and join what
//! they found in the order of the pieces: it is as if one had read all spans one after the other.

use std::collections::BTreeMap;

use memtrace_trace::{SpanRecord, Trace};

use crate::error::Error;
use crate::parallel::{Turns, in_parallel, threads};

/// A recording has some hundred.
pub(super) const OPERATORS_MAX: usize = 100_000;

/// The figures of each operator, by its name: spans that `add` adds in the order of their rows, and
/// `join` adds those of later rows.
///
/// # Errors
/// The table cannot be read, or has more operators than a recording.
pub(super) fn figures<T: Default + Send>(
    trace: &Trace,
    add: impl Fn(&mut T, &SpanRecord) + Sync,
    join: impl Fn(&mut T, T) + Sync,
) -> Result<BTreeMap<String, T>, Error> {
    let groups = trace.span_groups()?;
    let read =
        |index: usize, part: &mut ByOperator<T>| Ok(groups[index].records(|span| part.add(span, &add))?);
    let all = joined(groups.len(), threads().min(groups.len()), read, join)?;
    if all.too_many {
        let trace = trace.directory().display();
        return Err(Error::Trace(format!("{trace} has more than {OPERATORS_MAX} operators")));
    }
    Ok(all.figures)
}

/// What `read` finds in each of so many pieces, together.
fn joined<T: Default + Send>(
    pieces: usize,
    threads: usize,
    read: impl Fn(usize, &mut ByOperator<T>) -> Result<(), Error> + Sync,
    join: impl Fn(&mut T, T) + Sync,
) -> Result<ByOperator<T>, Error> {
    let all = Turns::new(ByOperator::default());
    let piece = |(): &mut (), index| {
        let turn = all.turn(index);
        let mut part = ByOperator::default();
        read(index, &mut part)?;
        turn.take(|all| all.join(part, &join));
        Ok(())
    };
    in_parallel(pieces, threads, || (), piece)?;
    Ok(all.into_inner())
}

/// Figures by the name of an operator.
#[derive(Default)]
struct ByOperator<T> {
    figures: BTreeMap<String, T>,
    too_many: bool,
}

impl<T: Default> ByOperator<T> {
    fn add(&mut self, span: SpanRecord, add: impl Fn(&mut T, &SpanRecord)) {
        match self.figures.get_mut(&span.operator) {
            Some(figures) => add(figures, &span),
            None => {
                let mut figures = T::default();
                add(&mut figures, &span);
                self.insert(span.operator, figures);
            }
        }
    }

    fn join(&mut self, later: ByOperator<T>, join: impl Fn(&mut T, T)) {
        self.too_many |= later.too_many;
        for (name, later) in later.figures {
            match self.figures.get_mut(&name) {
                Some(figures) => join(figures, later),
                None => self.insert(name, later),
            }
        }
    }

    fn insert(&mut self, name: String, figures: T) {
        match self.figures.len() == OPERATORS_MAX {
            true => self.too_many = true,
            false => drop(self.figures.insert(name, figures)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(span: u32, operator: &str) -> SpanRecord {
        SpanRecord {
            span,
            process: 0,
            operator: operator.into(),
            call: 0,
            start_ns: 0,
            end_ns: None,
            input_bytes: 0,
            working_peak_bytes: 0,
            one_time_bytes: 0,
            device_peak_bytes: None,
            device_driver_peak_bytes: None,
        }
    }

    /// The numbers of the spans of each operator, in the order in which they were added.
    fn numbers(pieces: &[Vec<SpanRecord>], threads: usize) -> BTreeMap<String, Vec<u32>> {
        let add = |numbers: &mut Vec<u32>, span: &SpanRecord| numbers.push(span.span);
        let read = |index: usize, part: &mut ByOperator<Vec<u32>>| {
            pieces[index].iter().for_each(|span| part.add(span.clone(), add));
            Ok(())
        };
        let all = joined(pieces.len(), threads, read, |numbers, later| numbers.extend(later));
        all.unwrap().figures
    }

    proptest! {
        #[test]
        fn threads_find_what_one_reader_finds(
            pieces in prop::collection::vec(prop::collection::vec(0..4usize, 0..40), 0..20),
            threads in 1..5usize,
        ) {
            let mut number = 0;
            let mut next = |operator: &usize| {
                number += 1;
                span(number, ["a", "b", "c", "d"][*operator])
            };
            let pieces: Vec<Vec<SpanRecord>> =
                pieces.iter().map(|piece| piece.iter().map(&mut next).collect()).collect();
            prop_assert_eq!(numbers(&pieces, threads), numbers(&[pieces.concat()], 1));
        }
    }

    #[test]
    fn operators_without_end_are_counted_out_in_one_piece_and_in_several() {
        let named = |number: usize| span(number as u32, &number.to_string());
        for (pieces, of_one, too_many) in
            [(1, OPERATORS_MAX, false), (1, OPERATORS_MAX + 1, true), (3, OPERATORS_MAX / 2, true)]
        {
            let read = |index: usize, part: &mut ByOperator<u32>| {
                (0..of_one)
                    .for_each(|number| part.add(named(index * of_one + number), |calls, _| *calls += 1));
                Ok(())
            };
            let all = joined(pieces, 2, read, |calls, later| *calls += later).unwrap();
            assert_eq!(all.too_many, too_many);
            assert!(all.figures.len() <= OPERATORS_MAX);
        }
    }

    #[test]
    fn a_piece_that_cannot_be_read_fails_all() {
        for threads in 1..4 {
            let read = |index: usize, _: &mut ByOperator<u32>| match index {
                3 => Err(Error::Trace("damaged".into())),
                _ => Ok(()),
            };
            assert!(joined(9, threads, read, |_, _| ()).is_err());
        }
    }
}
