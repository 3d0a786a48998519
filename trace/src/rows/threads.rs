use serde::{Deserialize, Serialize};

use crate::column::table;

table! {
    Threads,
    /// A thread that recorded events.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct ThreadRow {
        /// Index used by the other tables.
        pub thread: u32,
        /// Process it runs in.
        pub process: u32,
        /// The kernel's thread id.
        pub tid: u32,
        /// Time of its first event.
        pub start_ns: i64,
        /// Events it recorded.
        pub events: u64,
    }
}
