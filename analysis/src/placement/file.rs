//! Files of JSON, read with suspicion.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::error::Error;

/// Reads a file of so many bytes at most.
///
/// # Errors
/// [`Error::Io`], and [`Error::Malformed`] for anything that is too large or something else.
pub fn load<T: DeserializeOwned>(path: &Path, most_bytes: u64) -> Result<T, Error> {
    let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
    let malformed = |reason: String| Error::Malformed { path: path.to_owned(), reason };
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(io(std::io::Error::other("it is not a file")));
    }
    let file = fs::File::open(path).map_err(io)?;
    let mut text = String::new();
    file.take(most_bytes + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > most_bytes {
        return Err(malformed("it is too large".into()));
    }
    serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))
}
