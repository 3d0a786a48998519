//! The hybrid of run lengths and bit packing (Parquet format, Encodings.md) that holds dictionary
//! indices and says which values are null.

use super::delta::varint;
use super::runs::Runs;

/// Values in a group: bit-packed runs come in whole groups.
const GROUP: usize = 8;
/// Repetitions from which on a run costs less than bits and the headers around it.
const RUN: usize = 64;

/// Bits for an index into `entries` entries, such that indices of up to 8 bits do not straddle
/// bytes: an entropy coder behind this sees bytes.
pub(crate) fn aligned_width(entries: usize) -> u32 {
    match usize::BITS - entries.saturating_sub(1).leading_zeros() {
        few @ 0..=8 => few.next_power_of_two().min(few * 8),
        many => many,
    }
}

/// Appends the encoded `values`, none of which has more than `width` (at most 16) bits.
pub(crate) fn values(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while at < values.len() {
        let first = values[at];
        let repeats = values.get(at..at + RUN).is_some_and(|run| run.iter().all(|value| *value == first));
        if !repeats {
            at += GROUP;
            continue;
        }
        let length = values[at..].iter().take_while(|value| **value == first).count();
        pack(&values[packed..at], width, out);
        repeat(first, length, width, out);
        at += length;
        packed = at;
    }
    pack(&values[packed..], width, out);
}

/// The same for values in runs; `unpacked` is a buffer to work in.
pub(crate) fn runs(runs: &Runs<u32>, width: u32, unpacked: &mut Vec<u32>, out: &mut Vec<u8>) {
    unpacked.clear();
    for (value, times) in runs {
        let mut times = *times as usize;
        if times >= RUN + GROUP {
            let filling = unpacked.len().next_multiple_of(GROUP) - unpacked.len();
            unpacked.resize(unpacked.len() + filling, *value);
            times -= filling;
            pack(unpacked, width, out);
            unpacked.clear();
            repeat(*value, times, width, out);
        } else {
            unpacked.resize(unpacked.len() + times, *value);
        }
    }
    pack(unpacked, width, out);
}

fn repeat(value: u32, times: usize, width: u32, out: &mut Vec<u8>) {
    varint((times as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// A bit-packed run; the end is filled up with zeros, which readers that count values do not see.
fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let (whole, rest) = values.as_chunks::<GROUP>();
    let mut last = [0; GROUP];
    last[..rest.len()].copy_from_slice(rest);
    let rest = (!rest.is_empty()).then_some(&last);
    let all = whole.iter().chain(rest);
    match width {
        0 => {}
        8 => out.extend(all.flat_map(|group| group.map(|value| value as u8))),
        _ => {
            let start = out.len();
            let bytes = width as usize;
            // Each group is written with its upper bits, which the next one overwrites.
            out.resize(start + (groups - 1) * bytes + size_of::<u128>(), 0);
            for (index, group) in all.enumerate() {
                let at = start + index * bytes;
                out[at..at + size_of::<u128>()].copy_from_slice(&packed(group, width).to_le_bytes());
            }
            out.truncate(start + groups * bytes);
        }
    }
}

#[inline]
fn packed(group: &[u32; GROUP], width: u32) -> u128 {
    let four =
        |values: &[u32]| values.iter().rev().fold(0, |bits: u64, value| bits << width | u64::from(*value));
    u128::from(four(&group[..4])) | u128::from(four(&group[4..])) << (4 * width)
}
