//! Folds loops: repetitions of a stretch that releases all it allocates become one repetition.
//!
//! Such a stretch leaves nothing behind, so how often it runs does not change the peak.

use std::collections::HashMap;

use super::align::{Course, Sized};
use crate::profile::Event;

/// Longest stretch that is recognised, events.
const MAX_STRETCH: usize = 256;
/// Longer sequences are left as they are: folding compares stretches pairwise.
const MAX_EVENTS: usize = 200_000;

/// An event told by its distance from its partner, so that repetitions compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    event: Event,
    /// Events from the allocation to the release; 0 for a block that is never released.
    span: usize,
    kind: memtrace_trace::rows::Kind,
}

impl Token {
    fn like(&self, other: &Token) -> bool {
        let same_way = matches!(self.event, Event::Alloc(_)) == matches!(other.event, Event::Alloc(_));
        same_way && self.span == other.span && self.kind == other.kind
    }
}

/// One repetition instead of many, inner loops first; a repetition stands for the others only if
/// each of its blocks is at least as large as theirs.
pub fn fold(sized: &Sized) -> Sized {
    let mut sized = sized.clone();
    while sized.course.events.len() <= MAX_EVENTS {
        let kept = kept(&sized);
        if kept.len() == sized.course.events.len() {
            break;
        }
        sized = renumbered(&sized, &kept);
    }
    sized
}

/// The events that stay after one pass from left to right.
fn kept(sized: &Sized) -> Vec<Event> {
    let tokens = tokens(sized);
    let mut kept = Vec::with_capacity(tokens.len());
    let mut position = 0;
    while position < tokens.len() {
        let longest = MAX_STRETCH.min((tokens.len() - position) / 2);
        let found = (2..=longest).find_map(|length| repetition(&tokens[position..], length, &sized.bytes));
        let (start, stretch, covered) = found.unwrap_or((0, 1, 1));
        kept.extend(tokens[position + start..][..stretch].iter().map(|token| token.event));
        position += covered;
    }
    kept
}

/// If `tokens` begins with repetitions of a closed stretch of this length: where the largest of
/// them starts, its length, and how many events all of them cover.
fn repetition(tokens: &[Token], length: usize, bytes: &[u64]) -> Option<(usize, usize, usize)> {
    let stretch = &tokens[..length];
    let alike = |other: &[Token]| other.iter().zip(stretch).all(|(a, b)| a.like(b));
    if !alike(&tokens[length..2 * length]) || !is_closed(stretch) {
        return None;
    }
    let count = tokens.chunks_exact(length).take_while(|other| alike(other)).count();
    let sizes = |which: usize| {
        let events = tokens[which * length..][..length].iter();
        events
            .filter_map(|token| if let Event::Alloc(block) = token.event { Some(bytes[block]) } else { None })
    };
    let largest = (0..count).max_by_key(|&which| sizes(which).map(u128::from).sum::<u128>())?;
    let dominates = |which: usize| sizes(largest).zip(sizes(which)).all(|(large, small)| large >= small);
    (0..count).all(dominates).then_some((largest * length, length, count * length))
}

/// True if every block allocated in the stretch is released in it, and no other.
fn is_closed(stretch: &[Token]) -> bool {
    stretch.iter().enumerate().all(|(position, token)| match token.event {
        Event::Alloc(_) => token.span > 0 && position + token.span < stretch.len(),
        Event::Free(_) => token.span <= position,
    })
}

fn tokens(sized: &Sized) -> Vec<Token> {
    let mut allocated: HashMap<usize, usize> = HashMap::new();
    let mut tokens: Vec<Token> = Vec::with_capacity(sized.course.events.len());
    for (position, &event) in sized.course.events.iter().enumerate() {
        let (Event::Alloc(block) | Event::Free(block)) = event;
        let mut span = 0;
        if let Event::Free(block) = event {
            let start = allocated.get(&block).copied().unwrap_or(position);
            span = position - start;
            tokens[start..].iter_mut().take(1).for_each(|token| token.span = span);
        } else {
            allocated.insert(block, position);
        }
        tokens.push(Token { event, span, kind: sized.course.kinds[block] });
    }
    tokens
}

/// The sequence reduced to `events`, its blocks numbered anew.
fn renumbered(sized: &Sized, events: &[Event]) -> Sized {
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut reduced = Sized { course: Course::default(), bytes: Vec::new() };
    for &event in events {
        match event {
            Event::Alloc(block) => {
                numbers.insert(block, reduced.bytes.len());
                reduced.course.events.push(Event::Alloc(reduced.bytes.len()));
                reduced.course.kinds.push(sized.course.kinds[block]);
                reduced.bytes.push(sized.bytes[block]);
            }
            Event::Free(block) => {
                reduced.course.events.extend(numbers.get(&block).map(|&number| Event::Free(number)));
            }
        }
    }
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrace_trace::rows::Kind;

    fn sized(text: &str) -> Sized {
        // A capital allocates a block of its place in the alphabet, the small letter releases it.
        let mut sized = Sized::default();
        let mut open: HashMap<char, usize> = HashMap::new();
        for letter in text.chars() {
            if letter.is_ascii_uppercase() {
                open.insert(letter, sized.bytes.len());
                sized.course.events.push(Event::Alloc(sized.bytes.len()));
                sized.course.kinds.push(Kind::Malloc);
                sized.bytes.push(u64::from(letter as u32 - 'A' as u32) + 1);
            } else {
                sized.course.events.push(Event::Free(open[&letter.to_ascii_uppercase()]));
            }
        }
        sized
    }

    fn folded(text: &str) -> (usize, Vec<u64>) {
        let folded = fold(&sized(text));
        assert_eq!(folded.peak(), sized(text).peak(), "{text}");
        (folded.course.events.len(), folded.bytes)
    }

    #[test]
    fn closed_stretches_fold_to_their_largest() {
        assert_eq!(folded("ZAaAaAaz"), (4, vec![26, 1]));
        assert_eq!(folded("AaBbAa"), (2, vec![2]));
        assert_eq!(folded("BCcAabBCcAab"), (4, vec![2, 3]));
    }

    #[test]
    fn what_is_left_behind_or_not_dominated_stays() {
        assert_eq!(folded("AB"), (2, vec![1, 2]));
        assert_eq!(folded("ABabBAba").0, 8);
        assert_eq!(folded("ACcaBAab").0, 8);
    }
}
