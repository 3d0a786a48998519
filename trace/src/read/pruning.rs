//! Which row groups cannot hold what is requested, by their statistics.

use std::ops::RangeInclusive;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

/// False only if the statistics of the unsigned column `name` exclude every value of `range`: they
/// give the range of its values, or say that it has none.
pub(crate) fn may_hold(group: &RowGroupMetaData, name: &str, range: RangeInclusive<u64>) -> bool {
    let Some(statistics) = statistics(group, name) else { return true };
    if statistics.null_count_opt().is_some_and(|nulls| i64::try_from(nulls) == Ok(group.num_rows())) {
        return false;
    }
    // Parquet stores unsigned numbers as signed ones of the same bits.
    let (smallest, largest) = match statistics {
        Statistics::Int32(s) => {
            (s.min_opt().map(|&v| u64::from(v as u32)), s.max_opt().map(|&v| u64::from(v as u32)))
        }
        Statistics::Int64(s) => (s.min_opt().map(|&v| v as u64), s.max_opt().map(|&v| v as u64)),
        _ => (None, None),
    };
    smallest.is_none_or(|smallest| smallest <= *range.end())
        && largest.is_none_or(|largest| *range.start() <= largest)
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
