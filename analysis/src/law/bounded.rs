//! Sizes of blocks that no exact form gives: whole lines in a fixed buffer, narrow limits, or a
//! fit.

use std::collections::BTreeSet;

use super::search::Search;
use super::{Factor, Form, Rule, Size};
use crate::law::MIN_SHAPES;
use crate::stats::regression;

/// A block above this is never called a constant (docs/models.md, "Size forms").
const MAX_BOUNDED: u64 = 1 << 20;
/// A bounded block varies less than this.
const MAX_RATIO: f64 = 1.6;
/// Padding of a line tried on top of its length.
const MAX_PADDING: i64 = 64;
/// Bytes per element of a line tried, widest first.
const ITEM_BYTES: [u64; 5] = [16, 8, 4, 2, 1];

/// The sizes of a sequence's blocks; `rows` holds one row per distinct block, one value per run.
///
/// Line buffers come in pairs: padded lines to read from, and as many unpadded ones to write to.
/// So a row that nothing else explains is tried with the line counts of those that were found.
pub fn sizes(search: &Search, points: &[Vec<u64>], rows: &[&[u64]]) -> Vec<Size> {
    let mut sizes: Vec<Option<Size>> = rows
        .iter()
        .map(|bytes| {
            exact(search, bytes).or_else(|| lines(points, bytes)).or_else(|| in_units(search, bytes))
        })
        .collect();
    let buffers: Vec<Size> =
        sizes.iter().flatten().filter(|size| matches!(size, Size::Lines { .. })).cloned().collect();
    for (size, bytes) in sizes.iter_mut().zip(rows) {
        if size.is_none() {
            *size = buffers.iter().find_map(|buffer| as_many_lines(search, points, buffer, bytes));
        }
    }
    for (index, bytes) in rows.iter().enumerate() {
        if sizes[index].is_none() {
            sizes[index] = turn(&sizes, points, bytes);
        }
    }
    let last_resort = |bytes: &[u64]| {
        bounded(bytes).unwrap_or_else(|| {
            let numbers: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
            Size::Fitted(regression::fit(points, &numbers))
        })
    };
    sizes.into_iter().zip(rows).map(|(size, bytes)| size.unwrap_or_else(|| last_resort(bytes))).collect()
}

fn exact(search: &Search, bytes: &[u64]) -> Option<Size> {
    let mut forms = search.forms(bytes).into_iter();
    let form = forms.next()?;
    Some(Size::Exact { form, others: forms.collect() })
}

/// What a pool rounds up: CuPy's and PyTorch's to 512 bytes, RMM's to 256.
fn in_units(search: &Search, bytes: &[u64]) -> Option<Size> {
    [512, 256].into_iter().find_map(|unit| {
        let (form, most) = search.in_units(bytes, unit)?;
        Some(Size::Units { form, most, unit })
    })
}

/// A turn of a loop that works block by block: what is left of all elements for the last one, or at
/// most a block where some runs' last turn was too small to be in the sequence and a whole one is
/// in its place. The block is a size that another row always has.
///
/// Wants as many shapes as a product form does: three agree by chance in one of block³.
fn turn(known: &[Option<Size>], points: &[Vec<u64>], bytes: &[u64]) -> Option<Size> {
    if points.iter().collect::<BTreeSet<_>>().len() < MIN_SHAPES {
        return None;
    }
    let plain = |variable| Factor { variable, rule: Rule::Length, offset: 0, power: 1 };
    let factors: Vec<Factor> = (0..points.first()?.len()).map(plain).collect();
    let blocks = known.iter().flatten().filter_map(|size| match size {
        Size::Exact { form, .. } if form.factors.is_empty() && form.coefficient > 1 => Some(form.coefficient),
        _ => None,
    });
    let rests = blocks.flat_map(|block| {
        let form = |coefficient| Form { coefficient, factors: factors.clone(), constant: 0 };
        ITEM_BYTES.map(|item| (block, Size::Remainder { form: form(item), block }))
    });
    let judged = rests.filter_map(|(block, rest)| {
        let is_rest = |(point, &bytes): (&Vec<u64>, &u64)| rest.at(point) == Some(u128::from(bytes));
        let rests = points.iter().zip(bytes).filter(|&run| is_rest(run)).count();
        let whole = bytes.iter().filter(|&&bytes| bytes == block).count();
        let explained = rests + whole == bytes.len() && rests + 1 >= MIN_SHAPES;
        explained.then_some((whole, if whole == 0 { rest } else { Size::Bounded { bytes: block } }))
    });
    judged.min_by_key(|(whole, _)| *whole).map(|(_, size)| size)
}

/// As many lines of another length as `buffer` has of its own.
fn as_many_lines(search: &Search, points: &[Vec<u64>], buffer: &Size, bytes: &[u64]) -> Option<Size> {
    let Size::Lines { counted, budget, budget_upper, .. } = buffer else { return None };
    let line = |(point, &bytes): (&Vec<u64>, &u64)| {
        let count = budget / u64::try_from(counted.at(point)?).ok().filter(|&counted| counted > 0)?;
        (count > 1 && bytes.is_multiple_of(count)).then(|| bytes / count)
    };
    let lengths: Vec<u64> = points.iter().zip(bytes).map(line).collect::<Option<_>>()?;
    let line = search.lengths(&lengths).into_iter().next()?;
    Some(Size::Lines { line, counted: counted.clone(), budget: *budget, budget_upper: *budget_upper })
}

/// The largest possible value of sizes within narrow limits: the largest seen and, as its limit
/// was not seen, the whole width of what was seen on top.
pub fn bounded(bytes: &[u64]) -> Option<Size> {
    let (max, min) = (*bytes.iter().max()?, *bytes.iter().min()?);
    let narrow = max <= MAX_BOUNDED && (max as f64) < MAX_RATIO * min as f64;
    narrow.then_some(Size::Bounded { bytes: max + (max - min) })
}

/// ⌊budget/line⌋·line with line = item · (n_d + padding), the way SciPy sizes its line buffers.
///
/// Every run's bytes must be whole lines, and one budget must explain all of them: at least every
/// run's bytes and less than one line more.
fn lines(points: &[Vec<u64>], bytes: &[u64]) -> Option<Size> {
    if bytes.iter().any(|&bytes| bytes > MAX_BOUNDED || bytes == 0) {
        return None;
    }
    let dims = points.first().map_or(0, Vec::len);
    let largest = *bytes.iter().max()?;
    for offset in 0..=MAX_PADDING {
        for variable in 0..dims {
            for item in ITEM_BYTES {
                let factor = Factor { variable, rule: Rule::Length, offset, power: 1 };
                let line = Form { coefficient: item, factors: vec![factor], constant: 0 };
                let Some(upper) = budget_upper(&line, points, bytes) else { continue };
                if upper >= largest {
                    let budget = roundest(largest, upper);
                    return Some(Size::Lines { counted: line.clone(), line, budget, budget_upper: upper });
                }
            }
        }
    }
    None
}

/// One byte less than would have let a further line in somewhere; `None` unless all are whole
/// lines, and several of them (a single line says nothing about the budget).
fn budget_upper(line: &Form, points: &[Vec<u64>], bytes: &[u64]) -> Option<u64> {
    let room = points.iter().zip(bytes).map(|(point, &bytes)| {
        let line = u64::try_from(line.at(point)?).ok().filter(|&line| line > 0)?;
        (bytes.is_multiple_of(line) && bytes / line > 1).then(|| bytes + line - 1)
    });
    room.collect::<Option<Vec<u64>>>()?.into_iter().min()
}

/// The number from `low` to `high` that a programmer would have written: a multiple of the
/// largest power of ten or of two.
fn roundest(low: u64, high: u64) -> u64 {
    let multiples = |base: u64| (1..=20).rev().filter_map(move |power| base.checked_pow(power));
    let within = |step: u64| Some(high / step * step).filter(|&number| number >= low && number > 0);
    let best = |base: u64| multiples(base).find_map(|step| within(step).map(|number| (step, number)));
    let round = best(10).into_iter().chain(best(2)).max_by_key(|&(step, _)| step);
    round.map_or(high, |(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Vec<u64>> {
        vec![vec![41, 43, 47], vec![53, 44, 49], vec![48, 55, 59], vec![57, 59, 52]]
    }

    /// SciPy's line buffers: 256,000 bytes of doubles, padded by the filter's radius on both ends.
    #[test]
    fn line_buffers_are_whole_lines_within_a_budget() {
        let lines = |n: u64| 256_000 / (8 * (n + 24)) * (8 * (n + 24));
        let bytes: Vec<u64> = points().iter().map(|point| lines(point[1])).collect();
        let written: Vec<u64> =
            points().iter().map(|point| lines(point[1]) / (point[1] + 24) * point[1]).collect();
        let sizes = sizes(&Search::new(&points()), &points(), &[&written, &bytes]);
        for n in [80, 200, 513, 4001] {
            let truth = [lines(n) / (n + 24) * n, lines(n)].map(u128::from);
            for (size, truth) in sizes.iter().zip(truth) {
                assert!(matches!(size, Size::Lines { budget: 256_000, .. }), "{size:?}");
                assert_eq!(size.at(&[9, n, 9]).unwrap(), truth);
                assert!(size.upper(&[9, n, 9]).unwrap() >= truth);
            }
        }
    }

    /// NumPy's histogram: 65,536 doubles at a time, then the rest.
    #[test]
    fn the_last_block_is_what_is_left() {
        let rest = |point: &[u64]| 8 * (point.iter().product::<u64>() % 65_536);
        let bytes: Vec<u64> = points().iter().map(|point| rest(point)).collect();
        let whole = vec![8 * 65_536; bytes.len()];
        let sizes = sizes(&Search::new(&points()), &points(), &[&bytes, &whole]);
        assert!(matches!(sizes[0], Size::Remainder { block: 524_288, .. }), "{:?}", sizes[0]);
        for point in [[601, 700, 3], [128, 64, 256], [1500, 1600, 1700]] {
            assert_eq!(sizes[0].at(&point), Some(rest(&point).into()));
        }
        let mixed: Vec<u64> =
            bytes.iter().enumerate().map(|(run, &b)| if run == 1 { whole[1] } else { b }).collect();
        let sizes = super::sizes(&Search::new(&points()), &points(), &[&mixed, &whole]);
        assert_eq!(sizes[0], Size::Bounded { bytes: 524_288 });
    }

    #[test]
    fn round_numbers_are_preferred() {
        assert_eq!(roundest(255_700, 256_127), 256_000);
        assert_eq!(roundest(65_000, 65_600), 65_536);
        assert_eq!(roundest(7, 7), 7);
        assert_eq!(roundest(0, 0), 0);
    }

    #[test]
    fn narrow_sizes_are_constants_and_wide_ones_are_fitted() {
        let search = Search::new(&points());
        let size = |bytes: &[u64]| sizes(&search, &points(), &[bytes]).remove(0);
        let narrow = size(&[70_003, 71_417, 69_998, 74_701]);
        assert_eq!(narrow, Size::Bounded { bytes: 74_701 + 74_701 - 69_998 });
        let wide = size(&[70_003, 1_071_417, 2_069_999, 3_074_701]);
        assert!(matches!(wide, Size::Fitted(_)), "{wide:?}");
    }
}
