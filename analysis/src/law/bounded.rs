//! Sizes of blocks that no exact form gives: whole lines in a fixed buffer, narrow limits, or a fit.

use super::search::Search;
use super::{Factor, Form, Rule, Size, regression};

/// A block above this is never called a constant (DESIGN §8).
const MAX_BOUNDED: u64 = 1 << 20;
/// A bounded block varies less than this.
const MAX_RATIO: f64 = 1.6;
/// Padding of a line tried on top of its length.
const MAX_PADDING: i64 = 64;
/// Bytes per element of a line tried, widest first.
const ITEM_BYTES: [u64; 5] = [16, 8, 4, 2, 1];

/// The size of a block of `bytes` (one value per run) at `points`.
pub fn size(search: &Search, points: &[Vec<u64>], bytes: &[u64]) -> Size {
    let mut forms = search.forms(bytes).into_iter();
    if let Some(form) = forms.next() {
        return Size::Exact { form, others: forms.collect() };
    }
    let as_numbers = || bytes.iter().map(|&bytes| bytes as f64).collect::<Vec<f64>>();
    lines(points, bytes)
        .or_else(|| bounded(bytes))
        .unwrap_or_else(|| Size::Fitted(regression::fit(points, &as_numbers())))
}

/// The largest possible value of sizes within narrow limits: the largest seen and, as nobody saw
/// its limit, the whole width of what was seen on top.
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
                let Some(budget) = budget(&line, points, bytes) else { continue };
                if budget >= largest {
                    return Some(Size::Lines { line, budget });
                }
            }
        }
    }
    None
}

/// One byte less than would have let a further line in somewhere; `None` unless all are whole
/// lines, and several of them (a single line says nothing about the budget).
fn budget(line: &Form, points: &[Vec<u64>], bytes: &[u64]) -> Option<u64> {
    let room = points.iter().zip(bytes).map(|(point, &bytes)| {
        let line = u64::try_from(line.at(point)?).ok().filter(|&line| line > 0)?;
        (bytes.is_multiple_of(line) && bytes / line > 1).then(|| bytes + line - 1)
    });
    room.collect::<Option<Vec<u64>>>()?.into_iter().min()
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
        let size = size(&Search::new(&points()), &points(), &bytes);
        let Size::Lines { budget, .. } = &size else { panic!("{size:?}") };
        assert!((255_900..257_000).contains(budget), "{budget}");
        for n in [80, 200, 513, 4001] {
            let (guess, upper) = (size.at(&[9, n, 9]).unwrap(), size.upper(&[9, n, 9]).unwrap());
            assert!(guess.abs_diff(u128::from(lines(n))) <= u128::from(8 * (n + 24)), "{n}: {guess}");
            assert!(upper >= u128::from(lines(n)), "{n}: {upper}");
        }
    }

    #[test]
    fn narrow_sizes_are_constants_and_wide_ones_are_fitted() {
        let search = Search::new(&points());
        let narrow = size(&search, &points(), &[70_003, 71_417, 69_998, 74_701]);
        assert_eq!(narrow, Size::Bounded { bytes: 74_701 + 74_701 - 69_998 });
        let wide = size(&search, &points(), &[70_003, 1_071_417, 2_069_999, 3_074_701]);
        assert!(matches!(wide, Size::Fitted(_)), "{wide:?}");
    }
}
