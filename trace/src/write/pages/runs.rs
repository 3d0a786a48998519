//! Values that come in runs of equal ones.

/// Values, each with how often it comes in a row.
pub(crate) type Runs<T> = [(T, u32)];

/// Puts runs into `out`, equal neighbours as one.
pub(crate) fn join<T: PartialEq>(runs: impl Iterator<Item = (T, u32)>, out: &mut Vec<(T, u32)>) {
    out.clear();
    for (value, times) in runs {
        match out.last_mut() {
            Some((last, total)) if *last == value => *total += times,
            _ => out.push((value, times)),
        }
    }
}
