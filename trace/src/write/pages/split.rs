//! BYTE_STREAM_SPLIT (Parquet format, Encodings.md): the first bytes of all values, then their
//! second ones, and so on. The low bytes of a time are noise, the high ones hardly change; apart,
//! each costs what it is worth.

/// Bytes of a value.
const BYTES: usize = size_of::<u64>();

/// Appends the encoded values, and returns how many bytes of each, from the lowest, are not the
/// same in all.
pub(crate) fn encode(values: &[u64], out: &mut Vec<u8>) -> usize {
    let Some(&first) = values.first() else { return 0 };
    let differing = values.iter().fold(0, |all, value| all | (value ^ first));
    let varying = (u64::BITS - differing.leading_zeros()).div_ceil(8) as usize;
    for byte in 0..varying {
        out.extend(values.iter().map(|value| (value >> (8 * byte)) as u8));
    }
    for byte in varying..BYTES {
        out.resize(out.len() + values.len(), first.to_le_bytes()[byte]);
    }
    varying
}
