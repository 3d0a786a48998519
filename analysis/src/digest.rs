//! Short names of what was read, by which a change is noticed.

use std::fmt::Write;

/// A SHA-256 digest as 64 hexadecimal digits.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
