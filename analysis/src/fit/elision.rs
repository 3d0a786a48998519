//! NumPy's temporaries: from one size on it computes in them, so that calls above it allocate less.

use std::collections::BTreeMap;

use super::sequence::Places;
use crate::profile::Run;
use crate::shape::{joined, volume};

/// NumPy elides temporaries of expressions from exactly this many bytes on.
pub const ELISION_BYTES: u64 = 1 << 18;

/// The largest block of a call stack in one run.
struct Largest {
    bytes: u64,
    run: usize,
}

/// Blocks of one call stack that are smaller than NumPy's temporaries in some runs, and not in
/// others.
struct Crossing {
    below: Largest,
    above: Largest,
}

impl Crossing {
    fn of(blocks: Vec<Largest>) -> Option<Crossing> {
        let (below, above): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.bytes < ELISION_BYTES);
        Some(Crossing {
            below: below.into_iter().max_by_key(|block| block.bytes)?,
            above: above.into_iter().min_by_key(|block| block.bytes)?,
        })
    }

    fn grows(&self, points: &[Vec<u64>]) -> bool {
        volume(&points[self.below.run]) < volume(&points[self.above.run])
    }

    /// The shape between the two runs at which they have that size, if they grow by a power.
    fn shape(&self, points: &[Vec<u64>]) -> Vec<u64> {
        let ratio = |to: u64| (to as f64 / self.below.bytes.max(1) as f64).ln();
        let way = ratio(ELISION_BYTES) / ratio(self.above.bytes);
        let length = |(&from, &to): (&u64, &u64)| {
            let (from, to) = (from.max(1) as f64, to.max(1) as f64);
            (from * (to / from).powf(way)).ceil() as u64
        };
        points[self.below.run].iter().zip(&points[self.above.run]).map(length).collect()
    }
}

/// Which shapes to run, if blocks of some runs are below that size and those of larger ones are not;
/// a sentence.
pub(super) fn advice(runs: &[&Run], points: &[Vec<u64>], places: &Places) -> Option<String> {
    let crossings = crossings(runs, places).into_iter().filter(|(_, crossing)| crossing.grows(points));
    let starts = crossings.map(|(place, crossing)| (place, crossing.shape(points), crossing));
    let (place, start, crossing) = starts.max_by_key(|(_, start, _)| volume(start))?;
    let [below, above] = [&crossing.below, &crossing.above].map(|block| &points[block.run]);
    let varies: Vec<bool> = below.iter().zip(above).map(|(below, above)| below != above).collect();
    let comma = |shape: &[u64]| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let (below, above) = (joined(below), joined(above));
    Some(format!(
        "blocks at {place} reach 256 KiB between {below} and {above}, from where on NumPy may reuse temporaries: for one law, sweep --shapes {}..{}",
        comma(&start),
        comma(&room_above(&start, &varies)),
    ))
}

/// Three training shapes from this one on, each with twice the volume of the one before, and one to
/// verify them: axes that `varies` grow.
fn room_above(start: &[u64], varies: &[bool]) -> Vec<u64> {
    const GROWTH: f64 = 48.0;
    let count = varies.iter().filter(|varies| **varies).count().max(1);
    let each = GROWTH.powf(1.0 / count as f64);
    let grown = |(&length, &varies): (&u64, &bool)| {
        if varies { (length as f64 * each).ceil() as u64 } else { length }
    };
    start.iter().zip(varies).map(grown).collect()
}

fn crossings<'a>(runs: &[&Run], places: &'a Places) -> Vec<(&'a str, Crossing)> {
    let mut sites: BTreeMap<u64, BTreeMap<usize, u64>> = BTreeMap::new();
    for (run, recorded) in runs.iter().enumerate() {
        for block in recorded.program.blocks.iter().filter(|block| block.kind.is_heap()) {
            if let Some(site) = block.site {
                let largest = sites.entry(site).or_default().entry(run).or_default();
                *largest = block.bytes.max(*largest);
            }
        }
    }
    let crossing = |(site, largest): (u64, BTreeMap<usize, u64>)| {
        let blocks = largest.into_iter().map(|(run, bytes)| Largest { bytes, run }).collect();
        Some((places.get(&site)?.text.as_str(), Crossing::of(blocks)?))
    };
    sites.into_iter().filter_map(crossing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrace_trace::rows::Kind;

    use crate::profile::places::Place;
    use crate::profile::{Block, Program};

    fn advice_of(bytes: [u64; 3]) -> Option<String> {
        let place = Place { text: "f script.py:3".into(), choice: None };
        let run = |bytes| {
            let block = Block { kind: Kind::Malloc, bytes, output: false, site: Some(7), untouched: 0 };
            Run { program: Program { blocks: vec![block], events: vec![] }, ..Run::default() }
        };
        let runs = bytes.map(run);
        let points = [vec![100, 100], vec![200, 200], vec![400, 400]];
        advice(&runs.each_ref(), &points, &Places::from([(7, &place)]))
    }

    #[test]
    fn the_shapes_start_where_the_blocks_have_the_size() {
        let advice = advice_of([32 << 10, 128 << 10, 512 << 10]);
        let advice = advice.expect("blocks that reach it");
        assert!(advice.contains("at f script.py:3 reach 256 KiB between 200×200 and 400×400"), "{advice}");
        assert!(advice.ends_with("sweep --shapes 283,283..1961,1961"), "{advice}");
        assert_eq!(room_above(&[283, 283, 3], &[true, true, false]), [1961, 1961, 3]);
        assert_eq!(advice_of([1 << 10, 2 << 10, ELISION_BYTES - 1]), None);
        assert_eq!(advice_of([ELISION_BYTES, 1 << 20, 1 << 22]), None);
        assert_eq!(advice_of([512 << 10, 128 << 10, 32 << 10]), None, "smaller at larger shapes");
    }
}
