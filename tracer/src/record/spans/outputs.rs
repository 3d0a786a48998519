//! What came out of a span: views of its inputs, the inputs themselves, or memory of its own.

use std::sync::Arc;

use memtrace_trace::rows::ArrayInfo;

use super::span::{LEFTOVER_MIN, Span};
use super::text::EndText;
use crate::record::state::memory::{BlockKey, Memory};

/// The memory was allocated in the span.
const NEW: &str = "new";
/// An array over memory of an input.
const VIEW: &str = "view";
/// The input itself.
const IN_PLACE: &str = "in_place";
/// Memory from before the span, of no input.
const OLDER: &str = "older";

impl Span {
    /// Notes its outputs. Returns the blocks that hold them.
    pub(super) fn set_outputs(&mut self, end: EndText, memory: &impl Memory) -> Vec<BlockKey> {
        let mut outputs = end.outputs;
        let mut pinned: Vec<(BlockKey, u64)> = Vec::new();
        let mut blocks = Vec::new();
        for output in &mut outputs {
            let Some(range) = output.range() else { continue };
            let around = memory.around(range.start);
            match around {
                Some(block) if block.key.1 >= self.start => {
                    (output.relation, output.of) = (NEW.into(), String::new());
                    blocks.push(block.key);
                }
                _ => self.relate(output, around.is_some_and(|block| block.is_heap)),
            }
            if output.relation == VIEW {
                // Memory whose allocation was not seen counts as far as it is seen.
                pinned.push(around.map_or(((range.start, 0), range.end - range.start), |b| (b.key, b.bytes)));
            }
        }
        for left in self.leftovers.iter_mut().filter(|left| blocks.contains(&left.key)) {
            left.output = true;
        }
        pinned.sort_unstable();
        pinned.dedup();
        self.row.pinned_bytes = Some(pinned.iter().map(|(_, bytes)| bytes).sum());
        self.row.output_bytes = outputs.iter().map(|array| array.bytes).sum();
        self.row.outputs = outputs.into();
        if let Some(error) = end.error {
            Arc::make_mut(&mut self.row.params).insert("error".into(), error.into());
        }
        blocks
    }

    /// Relates an output to the inputs whose memory is from before the span. The recorder has noted
    /// which object it is, if there are objects; `is_heap` of the memory it lies in.
    fn relate(&self, output: &mut ArrayInfo, is_heap: bool) {
        let claimed = (output.relation == IN_PLACE).then(|| std::mem::take(&mut output.of));
        (output.relation, output.of) = Default::default();
        let Some(range) = output.range() else { return };
        let shares = |input: &&ArrayInfo| {
            input.range().is_some_and(|input| input.start < range.end && range.start < input.end)
        };
        let mut sharing = self.row.inputs.iter().filter(shares);
        let named = |input: &&ArrayInfo| claimed.as_ref().is_some_and(|name| *name == input.name);
        if let Some(input) = sharing.clone().find(named).or_else(|| sharing.next()) {
            // Some libraries return another object over what they were allowed to overwrite.
            let may_be_another = !self.contextual || self.overwrites();
            // An id that was used again proves nothing: the form must be the same too.
            let is_it = (named(&input) || may_be_another) && is_same(input, output);
            output.relation = if is_it { IN_PLACE } else { VIEW }.into();
            output.of = input.name.clone();
        } else if is_heap {
            // NumPy reuses small blocks without calling the allocator.
            output.relation = if output.bytes < LEFTOVER_MIN { NEW } else { OLDER }.into();
        }
    }
}

impl Span {
    /// True if a parameter allows inputs to be overwritten (SciPy's `overwrite_x`, `inplace` of
    /// others).
    fn overwrites(&self) -> bool {
        let allows = |name: &str| name.starts_with("overwrite") || matches!(name, "inplace" | "in_place");
        self.row.params.iter().any(|(name, value)| allows(name) && value.as_bool() == Some(true))
    }
}

fn is_same(input: &ArrayInfo, output: &ArrayInfo) -> bool {
    let form = |array: &ArrayInfo| (array.address, array.bytes, array.shape.clone(), array.dtype.clone());
    form(input) == form(output) && input.layout == output.layout
}
