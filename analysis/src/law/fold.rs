//! Folds loops: repetitions of a stretch that releases as much as it allocates become the fewest
//! that show everything.
//!
//! Such a stretch leaves no more behind the longer it runs, so how often it runs does not change
//! the peak. A stretch may release what the repetition before it allocated (a variable that is
//! bound anew in each turn): as many repetitions are kept as such blocks live through.

use std::collections::HashMap;

use super::course::SizedCourse;
use crate::profile::Event;

/// Longest stretch that is recognised, events.
const MAX_STRETCH: usize = 256;
/// Events compared in vain, for each event of a sequence.
const MAX_COMPARISONS: usize = 512;
/// Longer sequences are left as they are: folding compares stretches pairwise.
const MAX_EVENTS: usize = 2_000_000;

/// An event described by its distance from its partner, so that repetitions compare equal.
#[derive(Debug, Clone, Copy)]
struct Token {
    allocates: bool,
    /// Events between an allocation and its release; 0 for a block that is never released.
    distance: usize,
    kind: memtrace_trace::rows::Kind,
    /// Bytes of the block.
    bytes: u64,
    /// The block's site, where it is known.
    site: Option<u64>,
}

impl Token {
    fn like(&self, other: &Token) -> bool {
        (self.allocates, self.distance, self.kind) == (other.allocates, other.distance, other.kind)
    }
}

/// A stretch and its repetitions.
struct Loop {
    length: usize,
    /// How often it runs.
    count: usize,
    /// How many of these are kept.
    kept: usize,
    /// The repetition whose blocks are at least as large as those of all others.
    largest: usize,
}

/// The fewest repetitions instead of all, inner loops first.
pub fn fold(sized: &SizedCourse) -> SizedCourse {
    let mut tokens = tokens(sized);
    while tokens.len() <= MAX_EVENTS {
        let shorter = pass(&tokens);
        if shorter.len() == tokens.len() {
            break;
        }
        tokens = shorter;
    }
    rebuilt(&tokens)
}

/// Where an event is after a pass, or the one that stands for it.
#[derive(Clone, Copy)]
struct Moved {
    to: usize,
    /// False if it was left out.
    stays: bool,
}

/// What stays after one pass from left to right.
fn pass(tokens: &[Token]) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    // Where each event of the input is now: releases follow their allocation.
    let mut moved: Vec<Moved> = Vec::with_capacity(tokens.len());
    let mut position = 0;
    let mut comparisons_left = MAX_COMPARISONS * (tokens.len() + MAX_STRETCH);
    while position < tokens.len() {
        let longest = MAX_STRETCH.min((tokens.len() - position) / 2);
        let found =
            (2..=longest).find_map(|length| repetition(&tokens[position..], length, &mut comparisons_left));
        let Some(Loop { length, count, kept: rounds, largest }) = found else {
            moved.push(Moved { to: kept.len(), stays: true });
            kept.push(tokens[position]);
            position += 1;
            continue;
        };
        let start = kept.len();
        for (index, token) in tokens[position..][..rounds * length].iter().enumerate() {
            let bytes = tokens[position + largest * length + index % length].bytes;
            moved.push(Moved { to: start + index, stays: true });
            kept.push(Token { bytes, ..*token });
        }
        // What comes later releases blocks of the last repetitions: now those of the last kept.
        let cut = (count - rounds) * length;
        let gone = |index: usize| Moved { to: start + index.saturating_sub(cut), stays: false };
        moved.extend((rounds * length..count * length).map(gone));
        position += count * length;
    }
    with_distances(tokens, kept, &moved)
}

/// If `tokens` begins with repetitions of a balanced stretch of this length, more than need be
/// kept.
///
/// Loops that do not fold are compared again from each of their events; `comparisons_left` is how many
/// more events that may take.
fn repetition(tokens: &[Token], length: usize, comparisons_left: &mut usize) -> Option<Loop> {
    if *comparisons_left == 0 {
        return None;
    }
    let stretch = &tokens[..length];
    let alike = |other: &[Token]| other.iter().zip(stretch).all(|(a, b)| a.like(b));
    if !alike(&tokens[length..2 * length]) || !is_balanced(stretch) {
        return None;
    }
    let count = tokens.chunks_exact(length).take_while(|other| alike(other)).count();
    // A block of one repetition is released within it, or some repetitions later.
    let end =
        |(position, token): (usize, &Token)| if token.allocates { position + token.distance } else { 0 };
    let kept = 1 + stretch.iter().enumerate().map(end).max()? / length;
    let round = |which: usize| tokens[which * length..][..length].iter().map(|token| token.bytes);
    let largest = (0..count).max_by_key(|&which| round(which).map(u128::from).sum::<u128>())?;
    let dominates = |which: usize| round(largest).zip(round(which)).all(|(large, small)| large >= small);
    let folds = kept < count && (0..count).all(dominates);
    if !folds {
        *comparisons_left = comparisons_left.saturating_sub(count * length);
    }
    folds.then_some(Loop { length, count, kept, largest })
}

/// True if as many blocks are released as are allocated, and each of these is released some time.
fn is_balanced(stretch: &[Token]) -> bool {
    let allocations = stretch.iter().filter(|token| token.allocates).count();
    2 * allocations == stretch.len() && stretch.iter().all(|token| token.distance > 0)
}

fn tokens(sized: &SizedCourse) -> Vec<Token> {
    let mut allocated: HashMap<usize, usize> = HashMap::new();
    let mut tokens: Vec<Token> = Vec::with_capacity(sized.course.events.len());
    for (position, &event) in sized.course.events.iter().enumerate() {
        let (Event::Alloc(block) | Event::Free(block)) = event;
        let mut distance = 0;
        if let Event::Free(block) = event {
            let start = allocated.get(&block).copied().unwrap_or(position);
            distance = position - start;
            tokens[start..].iter_mut().take(1).for_each(|token| token.distance = distance);
        } else {
            allocated.insert(block, position);
        }
        tokens.push(Token {
            allocates: matches!(event, Event::Alloc(_)),
            distance,
            kind: sized.course.kinds[block],
            bytes: sized.bytes[block],
            site: sized.sites[block],
        });
    }
    tokens
}

/// The kept tokens with their distances measured anew: whatever lay between may be gone.
fn with_distances(tokens: &[Token], mut kept: Vec<Token>, moved: &[Moved]) -> Vec<Token> {
    for (position, token) in tokens.iter().enumerate() {
        if !token.allocates && moved[position].stays {
            let (free, allocation) = (moved[position].to, moved[position - token.distance].to);
            kept[free].distance = free - allocation;
            kept[free].bytes = kept[allocation].bytes;
            kept[allocation].distance = free - allocation;
        }
    }
    kept
}

fn rebuilt(tokens: &[Token]) -> SizedCourse {
    let mut sized = SizedCourse::default();
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for (position, token) in tokens.iter().enumerate() {
        if token.allocates {
            numbers.insert(position, sized.bytes.len());
            sized.course.events.push(Event::Alloc(sized.bytes.len()));
            sized.course.kinds.push(token.kind);
            sized.bytes.push(token.bytes);
            sized.sites.push(token.site);
        } else if let Some(&number) =
            position.checked_sub(token.distance).and_then(|start| numbers.get(&start))
        {
            sized.course.events.push(Event::Free(number));
        }
    }
    sized
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrace_trace::rows::Kind;

    fn sized(text: &str) -> SizedCourse {
        // A capital allocates a block of its place in the alphabet, the small letter releases it.
        let mut sized = SizedCourse::default();
        let mut open: HashMap<char, usize> = HashMap::new();
        for letter in text.chars() {
            if letter.is_ascii_uppercase() {
                open.insert(letter, sized.bytes.len());
                sized.course.events.push(Event::Alloc(sized.bytes.len()));
                sized.course.kinds.push(Kind::Malloc);
                sized.bytes.push(u64::from(letter as u32 - 'A' as u32) + 1);
                sized.sites.push(None);
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

    /// Each turn allocates anew what it then puts in place of the turn before's.
    #[test]
    fn variables_that_are_bound_anew_fold() {
        // Z, then A; B in place of A; C in place of B …: all of one size.
        let rebound = |turns: usize| {
            let mut sized = sized("Z");
            let mut add = |event| sized.course.events.push(event);
            add(Event::Alloc(1));
            for turn in 1..turns {
                add(Event::Alloc(turn + 1));
                add(Event::Free(turn));
            }
            add(Event::Free(turns));
            add(Event::Free(0));
            sized.bytes.extend(vec![5; turns]);
            sized.sites.extend(vec![None; turns]);
            sized.course.kinds.extend(vec![Kind::Malloc; turns]);
            sized
        };
        let short = fold(&rebound(5));
        assert_eq!(short.course, fold(&rebound(400)).course);
        assert_eq!((short.peak(), rebound(400).peak()), (36, 36));
        assert!(short.course.events.len() <= 12, "{short:?}");
    }
}
