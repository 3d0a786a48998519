//! Indexing: which part of an array, and whether it is a view or a copy.

use super::dtype::Dtype;
use super::value::{Array, Layout, Value, product};

/// Part of an array.
pub struct Part {
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its layout as a view.
    pub layout: Layout,
    /// Indices that are arrays or lists make a copy.
    pub copies: bool,
}

/// What `array[index]` is.
pub fn part(array: &Array, index: &[Value]) -> Part {
    let rank = array.shape.len();
    let taken: usize = index.iter().map(axes_taken).sum();
    let mut walk = Walk { left: array.shape.as_slice(), shape: Vec::new(), gaps: false, copies: false };
    let mut advanced: Vec<Vec<u64>> = Vec::new();
    let mut place = None;
    for item in index {
        match item {
            Value::Rest => walk.whole(rank.saturating_sub(taken)),
            Value::Nothing => walk.shape.push(1),
            Value::Number { .. } => walk.one(),
            Value::Slice(parts) => walk.slice(parts),
            Value::Array(mask) if mask.dtype == Dtype::FLAG => {
                let selected = product(walk.skip(mask.shape.len()));
                place.get_or_insert(walk.shape.len());
                advanced.push(vec![selected]);
            }
            Value::Array(chosen) => {
                walk.skip(1);
                place.get_or_insert(walk.shape.len());
                advanced.push(chosen.shape.clone());
            }
            Value::Sequence(_) | Value::Range { .. } => {
                walk.skip(1);
                place.get_or_insert(walk.shape.len());
                let count = match item {
                    Value::Range { count, .. } => *count,
                    _ => item.items().map_or(1, |items| items.len() as u64),
                };
                advanced.push(vec![count]);
            }
            // As much as there is.
            _ => {
                walk.whole(1);
                walk.copies = true;
            }
        }
    }
    walk.whole(walk.left.len());
    if let Some(place) = place {
        let chosen = super::arguments::broadcast(advanced.iter().map(Vec::as_slice));
        walk.shape.splice(place..place, chosen);
        walk.copies = true;
    }
    let layout = match (array.layout, walk.gaps) {
        (Layout::C, false) => Layout::C,
        (layout, _) if walk.shape == array.shape => layout,
        _ => Layout::Strided,
    };
    Part { shape: walk.shape, layout, copies: walk.copies }
}

fn axes_taken(item: &Value) -> usize {
    match item {
        Value::Rest | Value::Nothing => 0,
        Value::Array(mask) if mask.dtype == Dtype::FLAG => mask.shape.len(),
        _ => 1,
    }
}

struct Walk<'a> {
    left: &'a [u64],
    shape: Vec<u64>,
    gaps: bool,
    copies: bool,
}

impl<'a> Walk<'a> {
    fn skip(&mut self, axes: usize) -> &'a [u64] {
        let (gone, left) = self.left.split_at(axes.min(self.left.len()));
        self.left = left;
        gone
    }

    fn whole(&mut self, axes: usize) {
        let kept = self.skip(axes);
        self.shape.extend_from_slice(kept);
    }

    /// Rows of a C array lie together as long as everything before is one row.
    fn one(&mut self) {
        self.gaps |= self.shape.iter().any(|&length| length != 1);
        self.skip(1);
    }

    fn slice(&mut self, parts: &[Option<f64>; 3]) {
        let Some(&length) = self.skip(1).first() else { return };
        let step = parts[2].unwrap_or(1.0);
        let stride = step.abs().max(1.0);
        let inside = |edge: f64| {
            let from_front = if edge < 0.0 { edge + length as f64 } else { edge };
            from_front.clamp(0.0, length as f64)
        };
        let (low, high) = if step < 0.0 { (parts[1], parts[0]) } else { (parts[0], parts[1]) };
        let low = low.filter(|low| !low.is_nan()).map_or(0.0, inside);
        let high = high.filter(|high| !high.is_nan()).map_or(length as f64, inside);
        let count = ((high - low).max(0.0) / stride).ceil() as u64;
        let before = self.shape.iter().any(|&length| length != 1);
        self.gaps |= step != 1.0 || (before && count != length);
        self.shape.push(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64]) -> Array {
        Array { shape: shape.to_vec(), dtype: Dtype::DOUBLE, layout: Layout::C, blocks: vec![], class: None }
    }

    fn slice(start: f64, stop: f64) -> Value {
        Value::Slice([Some(start), Some(stop), None])
    }

    #[test]
    fn parts_are_numpys() {
        let volume = array(&[10, 11, 12]);
        let trimmed = part(&volume, &[slice(1.0, -1.0), slice(1.0, -1.0), slice(1.0, -1.0)]);
        assert_eq!((trimmed.shape, trimmed.layout), (vec![8, 9, 10], Layout::Strided));
        let row = part(&volume, &[Value::integer(3)]);
        assert_eq!((row.shape, row.layout, row.copies), (vec![11, 12], Layout::C, false));
        let last = part(&volume, &[Value::Rest, Value::integer(0)]);
        assert_eq!((last.shape, last.layout), (vec![10, 11], Layout::Strided));
        let reversed = part(&volume, &[Value::Slice([None, None, Some(-2.0)])]);
        assert_eq!((reversed.shape[0], reversed.layout), (5, Layout::Strided));
        let mask = Array { dtype: Dtype::FLAG, ..volume.clone() };
        let chosen = part(&volume, &[Value::Array(mask)]);
        assert_eq!((chosen.shape, chosen.copies), (vec![1320], true));
        let axis = part(&volume, &[Value::Rest, Value::Nothing]);
        assert_eq!((axis.shape, axis.copies), (vec![10, 11, 12, 1], false));
    }
}
