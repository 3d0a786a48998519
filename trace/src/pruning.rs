//! Which row groups cannot hold what is asked for, by their statistics.

use std::ops::RangeInclusive;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

/// False only if the statistics of the unsigned column `name` exclude every value of `range`.
pub(crate) fn may_hold(group: &RowGroupMetaData, name: &str, range: RangeInclusive<u64>) -> bool {
    let mut columns = group.columns().iter();
    let column = columns.find(|column| column.column_path().string() == name);
    let Some(statistics) = column.and_then(|column| column.statistics()) else { return true };
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
