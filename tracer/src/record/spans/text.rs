//! What the program reports of its spans, as JSON.

use memtrace_trace::rows::ArrayInfo;
use serde::Deserialize;

/// When a span begins.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct BeginText {
    pub name: String,
    pub inputs: Vec<ArrayInfo>,
    pub params: serde_json::Map<String, serde_json::Value>,
    /// The span that the caller's context is in, 0 for none; missing where there are no contexts.
    pub within: Option<u64>,
}

/// When one ends.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct EndText {
    pub outputs: Vec<ArrayInfo>,
    pub error: Option<String>,
}

impl BeginText {
    pub(super) fn parse(text: &[u8], malformed: &mut u64) -> BeginText {
        let mut begin = serde_json::from_slice::<BeginText>(text).unwrap_or_else(|_| {
            *malformed += 1;
            // A name that can be read is kept.
            let value = serde_json::from_slice::<serde_json::Value>(text).unwrap_or_default();
            let name = value["name"].as_str().unwrap_or("(malformed)").to_owned();
            BeginText { name, ..Default::default() }
        });
        begin.inputs.iter_mut().for_each(complete);
        begin
    }
}

impl EndText {
    pub(super) fn parse(text: &[u8], malformed: &mut u64) -> EndText {
        let end = if text.is_empty() { Ok(EndText::default()) } else { serde_json::from_slice(text) };
        let mut end: EndText = end.unwrap_or_else(|_| {
            *malformed += 1;
            EndText::default()
        });
        end.outputs.iter_mut().for_each(complete);
        end
    }
}

/// Fills in the bytes of an array that only has its shape and dtype.
pub(super) fn complete(array: &mut ArrayInfo) {
    if array.bytes == 0 {
        let digits = array.dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
        let item: u64 = digits.parse().unwrap_or(if array.dtype.ends_with('?') { 1 } else { 0 });
        // NumPy counts text in characters of four bytes.
        let item = if array.dtype.contains('U') { item.saturating_mul(4) } else { item };
        array.bytes = array.shape.iter().fold(item, |bytes, length| bytes.saturating_mul(*length));
    }
}
