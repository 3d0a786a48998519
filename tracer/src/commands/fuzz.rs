//! What the user's files and words say, as targets of `crate::fuzz`.

use clap::CommandFactory;

use super::Cli;
use super::defaults::Defaults;
use crate::fuzz_inputs::Scratch;
use crate::units::{parse_shape, parse_size};

/// `memtrace.toml`, and each of its words as a size and a shape.
pub fn settings(bytes: &[u8]) {
    let folder = Scratch::new();
    folder.put("memtrace.toml", bytes);
    if let Ok(Some(defaults)) = Defaults::find(folder.path()) {
        let _ = defaults.apply(Cli::command());
    }
    for word in String::from_utf8_lossy(bytes).split_whitespace() {
        let _ = parse_size(word);
        let _ = parse_shape(word);
    }
}
