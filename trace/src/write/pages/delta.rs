//! DELTA_BINARY_PACKED (Parquet format, Encodings.md): differences, in miniblocks of one width
//! each.
//!
//! Widths here are whole bytes. Differences of times and the like have few large values among many
//! small ones; an entropy coder behind this finds small ones in bytes of their own, which takes
//! fewer bits than packing them as wide as the largest of 32 does, and it needs no bit shifting.

/// Values of a block, and of a miniblock: what all writers use and every reader handles.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Appends the encoded `values`; those of a column of 32 bits have the upper half zero.
pub(crate) fn encode(values: &[u64], wide: bool, out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(values.len() as u64, out);
    zigzag(values.first().map_or(0, |value| signed(*value, wide)), out);
    let mut differences = [0; BLOCK];
    let mut previous = values.first().copied().unwrap_or(0);
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (difference, value) in differences.iter_mut().zip(block) {
            *difference = signed(value.wrapping_sub(previous), wide);
            previous = *value;
        }
        encode_block(&mut differences[..block.len()], out);
    }
}

/// The decoder adds in the width of the column: a difference that wraps around is right all the
/// same.
fn signed(value: u64, wide: bool) -> i64 {
    if wide { value as i64 } else { i64::from(value as u32 as i32) }
}

fn encode_block(differences: &mut [i64], out: &mut Vec<u8>) {
    let smallest = differences.iter().copied().min().unwrap_or(0);
    zigzag(smallest, out);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
    for (index, miniblock) in differences.chunks_mut(MINIBLOCK).enumerate() {
        let mut all = 0;
        for difference in miniblock.iter_mut() {
            *difference = difference.wrapping_sub(smallest);
            all |= *difference as u64;
        }
        let bytes = (u64::BITS - all.leading_zeros()).div_ceil(8) as usize;
        out[widths + index] = bytes as u8 * 8;
        let end = out.len() + bytes * MINIBLOCK; // the last miniblock is filled up
        low_bytes(miniblock, bytes, out);
        out.resize(end, 0);
    }
}

/// The lowest `bytes` bytes of each value.
fn low_bytes(values: &[i64], bytes: usize, out: &mut Vec<u8>) {
    match bytes {
        0 => {}
        1 => out.extend(values.iter().map(|value| *value as u8)),
        2 => out.extend(values.iter().flat_map(|value| (*value as u16).to_le_bytes())),
        4 => out.extend(values.iter().flat_map(|value| (*value as u32).to_le_bytes())),
        _ => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()[..bytes])),
    }
}

fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Seven bits a byte, the lowest first (ULEB128).
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
