use crate::column::table;
use crate::rows::Pages;

table! {
    Timeline,
    /// Live, mapped and resident bytes of a process, at regular times and at its peak.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TimelineRow {
        /// Process.
        pub process: u32,
        /// When.
        pub time_ns: i64,
        /// `sample` (at regular times) or `peak` (the peak of live bytes).
        pub reason: String,
        /// Live bytes.
        pub live_bytes: u64,
        /// The part of them that came through an allocator's symbols.
        pub heap_bytes: u64,
        /// Bytes mapped by the program itself, touched or not.
        pub mapped_bytes: u64,
        /// Resident bytes as the kernel counts them.
        #[null("not sampled at this time")]
        pub resident_bytes: Option<u64>,
        /// What they consisted of.
        #[null("there was no kernel side")]
        pub pages: Option<Pages>,
        /// Driver bytes on all devices.
        #[null("the process had had no memory of a device by then")]
        pub device_bytes: Option<u64>,
    }
}
