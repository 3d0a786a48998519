use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::column::{JsonValue, entries, group, json, table};
use crate::rows::ArrayInfo;

table! {
    Spans,
    /// One execution of an operator.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
    pub struct SpanRow {
        /// Index used by the other tables.
        pub span: u32,
        /// Span it ran inside of: of the same thread, or of the same context where coroutines take
        /// turns on a thread; or the span that started its thread or passed its work to a
        /// pool. A span can go on after its parent has ended: what it allocates from then on does
        /// not count for the parent.
        #[null("it ran inside no other span")]
        pub parent: Option<u32>,
        /// Process.
        pub process: u32,
        /// Thread.
        pub thread: u32,
        /// Name of the operator: `module:function`, or what the program called it.
        pub operator: String,
        /// n-th span of this operator in its process, from 0 (the cold call).
        pub call: u32,
        /// When it began.
        pub start_ns: i64,
        /// When it ended.
        #[null("still running when its process or the recording ended")]
        pub end_ns: Option<i64>,
        /// Array arguments: a list of arrays.
        pub inputs: Arc<[ArrayInfo]>,
        /// Arrays in the result: a list of arrays.
        pub outputs: Arc<[ArrayInfo]>,
        /// Scalar parameters by name, and under `versions` those of libraries. `task` is Dask's, and
        /// `error` the name of the exception that ended the call; a Python argument of one of these
        /// three names has an underscore after it.
        pub params: Arc<Map<String, Value>>,
        /// Sum of the inputs' bytes.
        pub input_bytes: u64,
        /// Sum of the outputs' bytes.
        pub output_bytes: u64,
        /// Largest sum of bytes allocated in the span and not yet released.
        pub working_peak_bytes: u64,
        /// The same, less blocks from before the span that it released.
        pub net_peak_bytes: u64,
        /// One-time bytes; 0 unless this is the operator's first span in its process.
        pub one_time_bytes: u64,
        /// Largest resident size of the process during the span: as the kernel side reported it,
        /// else as sampled; without the probe's rings.
        #[null("not sampled during the span")]
        pub resident_peak_bytes: Option<u64>,
        /// What that consisted of.
        #[null("there was no kernel side")]
        pub at_resident_peak: Option<SpanResident>,
        /// Blocks allocated in the span and in spans inside it.
        pub allocations: u64,
        /// When the working peak was reached.
        pub peak_ns: i64,
        /// Site of the block that set the working peak; where that is smaller than 4 KiB or has no
        /// call stack, of the last block before it that is larger and has one.
        #[null("no call stack was recorded by then")]
        pub peak_site: Option<u64>,
        /// Blocks that were allocated in it and released before it ended.
        pub temporaries: u64,
        /// Sum of their sizes.
        pub temporary_bytes: u64,
        /// Of the working peak, blocks that were released before the span ended. Blocks of 4 KiB
        /// and more are tracked one by one; of smaller ones, as many bytes as there were both at
        /// the peak and at the end are assumed to have stayed.
        #[null("still running when its process or the recording ended")]
        pub temporary_peak_bytes: Option<u64>,
        /// Bytes allocated in it that were live when it ended: its outputs, whatever else outlives
        /// it, and what variables of a Python function still referred to when it returned.
        #[null("still running when its process or the recording ended")]
        pub kept_bytes: Option<u64>,
        /// Bytes allocated in it, and not in spans inside it, that were live when the program of its
        /// process ended (`processes.main_end_ns`).
        pub live_bytes_at_end: u64,
        /// Whole blocks from before the span that views among its outputs keep alive: a view of one
        /// row keeps the array.
        #[null("still running when its process or the recording ended")]
        pub pinned_bytes: Option<u64>,
        /// Lower bound of the working peak without garbage.
        #[null("garbage was not tracked (`--gc`)")]
        pub gc_independent_bytes: Option<u64>,
        /// Its upper bound.
        #[null("garbage was not tracked (`--gc`)")]
        pub gc_independent_upper_bytes: Option<u64>,
        /// Known garbage among the bytes of that peak.
        #[null("garbage was not tracked (`--gc`)")]
        pub garbage_at_peak_bytes: Option<u64>,
        /// The working peak on devices: largest sum of used bytes allocated in the span, on all
        /// devices, and not yet released.
        #[null("its process had no memory of a device by the span's end")]
        pub device_peak_bytes: Option<u64>,
        /// Largest driver bytes of its process, on all devices, while it ran.
        #[null("its process had no memory of a device by the span's end")]
        pub device_driver_peak_bytes: Option<u64>,
    }
}

group! {
    /// What the resident memory of a span's process consisted of, without the probe's rings.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
    pub struct SpanResident {
        /// Resident size when the span began, as last reported: to within a step (see `resident` in
        /// `kernel_events`).
        #[column("resident_start_bytes")]
        pub start: u64,
        /// Pages of files at the span's resident peak.
        #[column("resident_file_bytes")]
        pub file: u64,
        /// Live bytes of the process then, those from before the span included.
        #[column("resident_live_bytes")]
        pub live: u64,
        /// Of them, bytes of heap blocks of 1 MiB and more that were not touched by then.
        #[column("resident_untouched_bytes")]
        pub untouched: u64,
        /// Bytes mapped by the program itself then, touched or not.
        #[column("resident_mapped_bytes")]
        pub mapped: u64,
    }
}

json!(Arc<Map<String, Value>>, any: tests::parameters());

impl JsonValue for Arc<Map<String, Value>> {
    fn bytes(&self) -> usize {
        size_of::<Map<String, Value>>() + entries(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::column::text;

    pub(super) fn parameters() -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::vec((text(), parameter()), 0..4).prop_map(|list| list.into_iter().collect())
    }

    fn parameter() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            (-1_000_000i32..1_000_000).prop_map(|n| Value::from(f64::from(n) / 64.0)),
            text().prop_map(Value::from),
        ]
    }
}
