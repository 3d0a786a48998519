//! The hybrid of run lengths and bit packing (Parquet format, Encodings.md) that holds dictionary indices and says
//! which values are null.

use super::delta::varint;

/// Values in a group: bit-packed runs come in whole groups.
const GROUP: usize = 8;
/// Repetitions from which on a run costs less than bits and the headers around it.
const RUN: usize = 64;

/// Bits for an index into so many entries, such that indices of up to 8 bits do not straddle bytes: an entropy coder
/// behind this sees bytes.
pub(crate) fn aligned_width(entries: usize) -> u32 {
    match usize::BITS - entries.saturating_sub(1).leading_zeros() {
        few @ 0..=8 => few.next_power_of_two().min(few * 8),
        many => many,
    }
}

/// Appends the encoded `values`, none of which has more than `width` (at most 16) bits.
pub(crate) fn encode(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while at < values.len() {
        let first = values[at];
        let repeats = values.get(at..at + RUN).is_some_and(|run| run.iter().all(|value| *value == first));
        if !repeats {
            at += GROUP;
            continue;
        }
        let length = values[at..].iter().take_while(|value| **value == first).count();
        pack_run(&values[packed..at], width, out);
        repeat(first, length, width, out);
        at += length;
        packed = at;
    }
    pack_run(&values[packed..], width, out);
}

/// Appends one value `length` times.
pub(crate) fn repeat(value: u32, length: usize, width: u32, out: &mut Vec<u8>) {
    varint((length as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// A bit-packed run; the end is filled up with zeros, which readers that count values do not see.
fn pack_run(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    out.reserve(groups * width as usize + size_of::<u128>());
    let (whole, rest) = values.as_chunks::<GROUP>();
    whole.iter().for_each(|group| pack(group, width, out));
    if !rest.is_empty() {
        let mut group = [0; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        pack(&group, width, out);
    }
}

#[inline]
fn pack(group: &[u32; GROUP], width: u32, out: &mut Vec<u8>) {
    let half = |four: &[u32]| {
        four.iter().rev().fold(0, |bits: u64, value| bits << width | u64::from(*value))
    };
    let bits = u128::from(half(&group[..4])) | u128::from(half(&group[4..])) << (4 * width);
    out.extend_from_slice(&bits.to_le_bytes());
    out.truncate(out.len() - (size_of::<u128>() - width as usize));
}
