//! `spans` in pieces that can be read at the same time.

use parquet::file::metadata::RowGroupMetaData;

use crate::column::{Record, extract};
use crate::error::Result;
use crate::read::file::{self, Readable};
use crate::read::trace::Trace;
use crate::table::Table;

extract! {
    Spans,
    /// A row of `spans` without what is said only of the largest: whose call of which operator, how
    /// long it took, how much memory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SpanRecord {
        /// Index used by the other tables.
        pub span: u32,
        /// Process.
        pub process: u32,
        /// Name of the operator.
        pub operator: String,
        /// n-th span of this operator in its process, from 0.
        pub call: u32,
        /// When it began.
        pub start_ns: i64,
        /// When it ended; `None` if it was still running.
        pub end_ns: Option<i64>,
        /// Sum of the inputs' bytes.
        pub input_bytes: u64,
        /// Largest sum of bytes allocated in the span and not yet released.
        pub working_peak_bytes: u64,
        /// One-time bytes; 0 unless this is the operator's first span in its process.
        pub one_time_bytes: u64,
        /// The working peak on devices, if its process had memory there.
        pub device_peak_bytes: Option<u64>,
        /// Largest driver bytes of its process, on all devices, while it ran.
        pub device_driver_peak_bytes: Option<u64>,
    }
}

/// Some spans that can be read on their own.
#[derive(Debug, Clone)]
pub struct SpanGroup<'a>(Rows<'a>);

#[derive(Debug, Clone)]
enum Rows<'a> {
    /// A row group of the table.
    Group(Readable, usize),
    /// All spans of a trace whose table is in parts.
    All(&'a Trace),
}

impl Trace {
    /// The spans in pieces, in the order of their rows.
    pub fn span_groups(&self) -> Result<Vec<SpanGroup<'_>>> {
        if !self.has_joined_spans()? {
            return Ok(vec![SpanGroup(Rows::All(self))]);
        }
        let mut groups = Vec::new();
        for file in self.files(Table::Spans)? {
            let found = file::groups(&file.path)?;
            let rows = |group: &RowGroupMetaData| u64::try_from(group.num_rows()).unwrap_or(0);
            let all = found.iter().map(rows).fold(0, u64::saturating_add);
            let pieces = found.iter().enumerate();
            groups.extend(
                pieces.map(|(index, group)| SpanGroup(Rows::Group(file.part(rows(group), all), index))),
            );
        }
        Ok(groups)
    }
}

impl SpanGroup<'_> {
    /// Passes the rows to `each`, in order, in memory that does not grow with their number.
    pub fn records(&self, mut each: impl FnMut(SpanRecord)) -> Result<()> {
        match &self.0 {
            Rows::All(trace) => trace.each_record(each),
            Rows::Group(file, index) => {
                let wanted = |group, _: &_| group == *index;
                file::read_columns(file, Table::Spans, &SpanRecord::names(), wanted, |columns| {
                    SpanRecord::read_each(columns, |_| true, &mut each)
                })
            }
        }
    }
}
