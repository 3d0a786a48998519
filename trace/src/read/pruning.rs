//! Which row groups cannot hold what is requested, by their statistics.

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

/// Between which numbers the values of the unsigned column `name` are, as far as its statistics say;
/// `None` if they say that it has none.
pub(crate) fn numbers(group: &RowGroupMetaData, name: &str) -> Option<(u64, u64)> {
    let Some(statistics) = statistics(group, name) else { return Some((0, u64::MAX)) };
    if statistics.null_count_opt().is_some_and(|nulls| i64::try_from(nulls) == Ok(group.num_rows())) {
        return None;
    }
    // Parquet stores unsigned numbers as signed ones of the same bits.
    let (smallest, largest) = match statistics {
        Statistics::Int32(s) => {
            (s.min_opt().map(|&v| u64::from(v as u32)), s.max_opt().map(|&v| u64::from(v as u32)))
        }
        Statistics::Int64(s) => (s.min_opt().map(|&v| v as u64), s.max_opt().map(|&v| v as u64)),
        _ => (None, None),
    };
    Some((smallest.unwrap_or(0), largest.unwrap_or(u64::MAX)))
}

/// Smallest and largest value of a column of times; `None` if it has none, or no
/// statistics.
pub(crate) fn times(group: &RowGroupMetaData, name: &str) -> Option<(i64, i64)> {
    match statistics(group, name)? {
        Statistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
        _ => None,
    }
}

/// False only if the statistics of a column say that it has no nulls.
pub(crate) fn may_be_null(group: &RowGroupMetaData, name: &str) -> bool {
    statistics(group, name).is_none_or(|statistics| statistics.null_count_opt() != Some(0))
}

fn statistics<'a>(group: &'a RowGroupMetaData, name: &str) -> Option<&'a Statistics> {
    let mut columns = group.columns().iter();
    columns.find(|column| column.column_path().string() == name)?.statistics()
}
