use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::column::{JsonValue, json};

/// An array that went into or came out of a span.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
pub struct ArrayInfo {
    /// Parameter name or position, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// NumPy's notation, byte order included: `<f4`, `>f4`, `|u1`.
    pub dtype: String,
    /// `C`, `F` or `strided`.
    #[serde(default)]
    pub layout: String,
    /// Bytes of its elements.
    #[serde(default)]
    pub bytes: u64,
    /// Address of its first element, 0 if unknown.
    #[serde(default)]
    pub address: u64,
    /// Where its memory begins, if that is not `address` (an axis is stepped through backwards).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// From there to the end of its memory, if that is not `bytes`: 0 for an array without gaps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extent: u64,
    /// Of an output, what it is to the inputs: `new`, `view`, `in_place` or `older`; empty where
    /// that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub relation: String,
    /// Name of the input whose memory it shares.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Where its elements are, if not in the host's memory: `cuda`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
}

impl ArrayInfo {
    /// What it takes in memory.
    fn held_bytes(&self) -> usize {
        let texts = [&self.name, &self.dtype, &self.layout, &self.relation, &self.of, &self.device];
        let texts = texts.iter().map(|text| text.capacity()).sum::<usize>();
        size_of::<ArrayInfo>() + self.shape.capacity() * size_of::<u64>() + texts
    }

    /// The addresses its elements lie at; `None` if they are not known, or there are none.
    pub fn range(&self) -> Option<Range<u64>> {
        let start = if self.start == 0 { self.address } else { self.start };
        let extent = if self.extent == 0 { self.bytes } else { self.extent };
        (start != 0 && self.bytes != 0).then(|| start..start.saturating_add(extent))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

json!(Arc<[ArrayInfo]>, any: proptest::collection::vec(tests::array(), 0..3));

impl JsonValue for Arc<[ArrayInfo]> {
    fn bytes(&self) -> usize {
        self.iter().map(ArrayInfo::held_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::column::text;

    pub(super) fn array() -> impl Strategy<Value = ArrayInfo> {
        let form = (text(), prop::collection::vec(any::<u64>(), 0..5), text(), text());
        let shared = (text(), text(), text());
        (form, any::<[u64; 4]>(), shared).prop_map(|(form, [bytes, address, start, extent], shared)| {
            ArrayInfo {
                name: form.0,
                shape: form.1,
                dtype: form.2,
                layout: form.3,
                bytes,
                address,
                start,
                extent,
                relation: shared.0,
                of: shared.1,
                device: shared.2,
            }
        })
    }
}
