//! What a program needed in a stretch of time: a test, a cell, a phase.

use std::collections::HashMap;

use memtrace_trace::rows::Kind;
use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{SiteShare, Trace};
use serde::Serialize;

use crate::error::Error;
use crate::profile::places;
use crate::report::operators::by_operator;

/// Of the blocks allocated in a stretch of time, in all threads and processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct During {
    /// Largest sum of their bytes not yet released: heap blocks, and the program's own mappings
    /// whole.
    pub peak_bytes: u64,
    /// When that was first reached.
    pub peak_ns: i64,
    /// Where the largest parts of it were allocated.
    pub sites: Vec<Place>,
    /// Operators with the largest working peaks of those that began in that time.
    pub operators: Vec<Need>,
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// As the summary names it: function, file and line.
    pub place: String,
    /// Bytes that were live there.
    pub bytes: u64,
}

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Its name.
    pub operator: String,
    /// Its largest working peak in that time.
    pub working_peak_bytes: u64,
}

/// A block that began in that time.
struct Block {
    alloc_ns: i64,
    free_ns: i64,
    bytes: u64,
    site: Option<u64>,
    kind: Kind,
}

/// The peak from `from_ns` to `to_ns`, both of them included, with `most` places and operators.
///
/// # Errors
/// A table cannot be read, or not every block has a row.
pub fn during(trace: &Trace, from_ns: i64, to_ns: i64, most: usize) -> Result<During, Error> {
    if let Some(why) = trace.meta().rows.missing(from_ns) {
        return Err(Error::NoRows(why.into()));
    }
    let blocks = blocks(trace, from_ns, to_ns)?;
    let (peak_bytes, peak_ns) = peak(&blocks, to_ns);
    let there = blocks.iter().filter(|block| block.alloc_ns <= peak_ns && peak_ns < block.free_ns);
    let operators = operators(trace, from_ns, to_ns, most)?;
    Ok(During { peak_bytes, peak_ns, sites: places(trace, there, most)?, operators })
}

fn blocks(trace: &Trace, from_ns: i64, to_ns: i64) -> Result<Vec<Block>, Error> {
    let mut blocks = Vec::new();
    for group in trace.block_groups()? {
        if group.alloc_ns.is_some_and(|(first, last)| last < from_ns || to_ns < first) {
            continue;
        }
        let read = group.records(|record| {
            let counts = record.kind.is_heap() || record.kind.is_own_memory();
            if counts && (from_ns..=to_ns).contains(&record.alloc_ns) {
                let (bytes, site, kind) = (record.bytes, record.site, record.kind);
                let free_ns = record.free_ns.unwrap_or(i64::MAX);
                blocks.push(Block { alloc_ns: record.alloc_ns, free_ns, bytes, site, kind });
            }
        });
        read?;
    }
    Ok(blocks)
}

/// A block begins or ends; in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    time: i64,
    begins: bool,
    bytes: u64,
}

/// The largest sum, and when. What ends at the moment at which something else begins (`realloc`)
/// has made room for it.
fn peak(blocks: &[Block], to_ns: i64) -> (u64, i64) {
    let change = |block: &Block, begins: bool| Change {
        time: if begins { block.alloc_ns } else { block.free_ns },
        begins,
        bytes: block.bytes,
    };
    let begins = blocks.iter().map(|block| change(block, true));
    let ends = blocks.iter().map(|block| change(block, false)).filter(|end| end.time <= to_ns);
    let mut changes: Vec<Change> = begins.chain(ends).collect();
    changes.sort_unstable();
    let (mut sum, mut most) = (0i128, (0i128, 0));
    for Change { time, begins, bytes } in changes {
        sum += if begins { i128::from(bytes) } else { -i128::from(bytes) };
        if sum > most.0 {
            most = (sum, time);
        }
    }
    (most.0.try_into().unwrap_or(u64::MAX), most.1)
}

/// Bytes by place: several call stacks may have the same.
fn places<'a>(
    trace: &Trace,
    blocks: impl Iterator<Item = &'a Block>,
    most: usize,
) -> Result<Vec<Place>, Error> {
    let weights = SiteWeights::of(trace.meta());
    let mut by_site: HashMap<u64, u64> = HashMap::new();
    for block in blocks {
        if let Some(site) = block.site {
            let bytes = if block.kind.is_heap() { weights.bytes(block.bytes) } else { block.bytes };
            let sum = by_site.entry(site).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    let shares: Vec<SiteShare> = by_site.into_iter().map(|(site, bytes)| SiteShare { site, bytes }).collect();
    let names = places::places(trace, shares.iter().map(|share| share.site))?;
    let mut by_place: HashMap<&str, u64> = HashMap::new();
    for share in &shares {
        let place = names.get(&share.site).map_or("an unknown place", String::as_str);
        let sum = by_place.entry(place).or_default();
        *sum = sum.saturating_add(share.bytes);
    }
    let mut places: Vec<Place> =
        by_place.into_iter().map(|(place, bytes)| Place { place: place.to_owned(), bytes }).collect();
    places.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.place.cmp(&b.place)));
    places.truncate(most);
    Ok(places)
}

/// The span that began the stretch is left out.
fn operators(trace: &Trace, from_ns: i64, to_ns: i64, most: usize) -> Result<Vec<Need>, Error> {
    let mut spans = trace.span_figures()?;
    spans.retain(|span| from_ns < span.start_ns && span.start_ns <= to_ns);
    let need = |(name, spans): (&str, Vec<&memtrace_trace::rows::SpanRow>)| Need {
        operator: name.to_owned(),
        working_peak_bytes: spans.iter().map(|span| span.working_peak_bytes).max().unwrap_or(0),
    };
    Ok(by_operator(&spans).into_iter().take(most).map(need).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(alloc_ns: i64, free_ns: i64, bytes: u64) -> Block {
        Block { alloc_ns, free_ns, bytes, site: None, kind: Kind::Malloc }
    }

    #[test]
    fn the_peak_is_that_of_the_sum() {
        assert_eq!(peak(&[], 9), (0, 0));
        assert_eq!(peak(&[block(1, 4, 10), block(2, 3, 5), block(5, i64::MAX, 12)], 9), (15, 2));
        assert_eq!(peak(&[block(1, 4, 10), block(4, 6, 11)], 9), (11, 4), "realloc leaves one of the two");
        assert_eq!(peak(&[block(1, 20, u64::MAX), block(2, 30, u64::MAX)], 9).0, u64::MAX);
    }
}
