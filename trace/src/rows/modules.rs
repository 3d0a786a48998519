use crate::column::table;

table! {
    Modules,
    /// An executable or library mapped into a process.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ModuleRow {
        /// Process it is mapped into.
        pub process: u32,
        /// File.
        pub path: String,
        /// First mapped address.
        pub start: u64,
        /// One past the last mapped address.
        pub end: u64,
        /// GNU build id in hex, empty if the file has none.
        pub build_id: String,
    }
}
