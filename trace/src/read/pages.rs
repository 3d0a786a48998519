//! What the headers of a file's pages announce, checked before the library takes memory for it.

use std::path::Path;

use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{Error, Result};
use crate::read::file::Input;
use crate::read::limits::{self, at_most};
use crate::read::thrift::{I32, STRUCT, Walker};

/// Bytes in which a page's header lies, and those in which one with large statistics does.
const HEADER_BYTES: [usize; 2] = [256, 64 << 10];
/// How `DELTA_BYTE_ARRAY` is numbered. A text then is what it adds to the one before: few bytes are
/// gigabytes of text, and no recording writes it.
const DELTA_BYTE_ARRAY: i32 = 7;

/// The pages of the columns of a row group whose name is wanted: how many of its rows can be
/// decoded at once.
pub(super) fn check_group(
    path: &Path,
    input: &Input,
    metadata: &ParquetMetaData,
    group: usize,
    names: &[&str],
) -> Result<u64> {
    let group: &RowGroupMetaData = metadata.row_group(group);
    at_most(path, "the rows of a row group", group.num_rows().max(0) as u64, limits::GROUP_ROWS)?;
    let (mut open, mut row) = (0u64, 1u64);
    for column in group.columns() {
        let parts = column.column_path().parts();
        if !parts.first().is_some_and(|root| names.contains(&root.as_str())) {
            continue;
        }
        if parts.len() > 1 || column.column_descr().max_rep_level() > 0 {
            let why = format!("its column `{}` holds lists or structs", parts[0].escape_debug());
            return Err(Error::damaged(path)(why));
        }
        let pages = Pages::read(path, input, column)?;
        open = open.saturating_add(pages.largest).saturating_add(pages.dictionary);
        at_most(path, "the bytes of its pages that are open at once", open, limits::PAGE_BYTES)?;
        row = row.saturating_add(pages.value);
    }
    Ok((limits::BATCH_TEXT_BYTES / row).max(1))
}

/// Of the pages of a column in a row group.
#[derive(Default)]
struct Pages {
    /// Bytes of the largest, as it lies in the file and unpacked.
    largest: u64,
    /// The same of its dictionary.
    dictionary: u64,
    /// Bytes of a value that is a text, at most: of a dictionary the longest one, else on average.
    value: u64,
}

impl Pages {
    fn read(path: &Path, input: &Input, column: &ColumnChunkMetaData) -> Result<Pages> {
        let mut pages = Pages::default();
        let (mut at, length) = column.byte_range();
        let end = at.saturating_add(length).min(input.len());
        while at < end {
            let found = Header::read(input, at, end).map_err(Error::damaged(path))?;
            let Some(header) = found else {
                return Err(Error::damaged(path)("a page of it has no header"));
            };
            let unpacked = header.unpacked.max(header.packed);
            at_most(path, "the bytes of a page", unpacked, limits::PAGE_BYTES)?;
            at_most(path, "the values of a page", header.values, limits::GROUP_ROWS)?;
            if header.encoding == DELTA_BYTE_ARRAY {
                let name = column.column_path().string();
                return Err(Error::damaged(path)(format!(
                    "its column `{}` is encoded as no recording writes it",
                    name.escape_debug()
                )));
            }
            at += header.bytes;
            match column.column_type() {
                Type::BYTE_ARRAY if header.is_dictionary => {
                    let packed = input.get_bytes(at, header.packed as usize).map_err(Error::damaged(path))?;
                    pages.value = pages.value.max(longest(column.compression(), packed, unpacked as usize));
                }
                Type::BYTE_ARRAY => {
                    pages.value = pages.value.max(header.unpacked / header.values.max(1));
                }
                Type::FIXED_LEN_BYTE_ARRAY => {
                    let length = column.column_descr().type_length().max(0) as u64;
                    at_most(path, "the bytes of a value", length, limits::TEXT_BYTES)?;
                    pages.value = length;
                }
                _ => {}
            }
            let size = if header.is_dictionary { &mut pages.dictionary } else { &mut pages.largest };
            *size = (*size).max(header.unpacked.saturating_add(header.packed));
            at = at.saturating_add(header.packed);
        }
        Ok(pages)
    }
}

/// The longest text of a dictionary; of one that cannot be read, all of it.
fn longest(compression: Compression, packed: Bytes, unpacked: usize) -> u64 {
    let texts = match compression {
        Compression::ZSTD(_) => zstd::bulk::decompress(&packed, unpacked).unwrap_or_default(),
        _ => packed.to_vec(),
    };
    let (mut rest, mut longest) = (texts.as_slice(), 0);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        let Some(after) = after.get(length as usize..) else { return unpacked as u64 };
        (rest, longest) = (after, longest.max(length.into()));
    }
    longest
}

/// The header of a page.
#[derive(Default)]
struct Header {
    bytes: u64,
    packed: u64,
    unpacked: u64,
    values: u64,
    encoding: i32,
    is_dictionary: bool,
}

impl Header {
    /// `None` if there is none.
    fn read(input: &Input, at: u64, end: u64) -> std::result::Result<Option<Header>, ParquetError> {
        for most in HEADER_BYTES {
            let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(most);
            if let Some(header) = Self::parse(&input.get_bytes(at, length)?) {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// What the reader of Parquet will take it for, which goes by the numbers of fields alone: a
    /// number that it knows has the type that it expects, or there is no header.
    fn parse(bytes: &[u8]) -> Option<Header> {
        let mut header = Header::default();
        let (mut page, mut inner) = (None, None);
        let mut walker = Walker::new(bytes);
        walker.fields(|walker, number, kind| {
            match number {
                1 => page = Some(number_of(walker, kind)?),
                2 => header.unpacked = number_of(walker, kind)?.try_into().ok()?,
                3 => header.packed = number_of(walker, kind)?.try_into().ok()?,
                4 => number_of(walker, kind).map(drop)?, // a checksum
                5..=8 => {
                    (kind == STRUCT && inner.replace(number).is_none()).then_some(())?;
                    match number {
                        DATA => header.inner(walker, 2, 4)?,
                        DICTIONARY => header.inner(walker, 2, 2)?,
                        DATA_2 => header.inner(walker, 4, 6)?,
                        _ => walker.skip(kind)?,
                    }
                }
                _ => walker.skip(kind)?,
            }
            Some(())
        })?;
        let fits = matches!(
            (page, inner),
            (Some(0), Some(DATA)) | (Some(2), Some(DICTIONARY)) | (Some(3), Some(DATA_2))
        );
        fits.then_some(())?;
        header.is_dictionary = inner == Some(DICTIONARY);
        header.bytes = (bytes.len() - walker.left()) as u64;
        Some(header)
    }

    /// What a header says of one kind of pages: fields up to the last of `numbers` are numbers.
    fn inner(&mut self, walker: &mut Walker, encoding: i16, numbers: i16) -> Option<()> {
        walker.fields(|walker, number, kind| {
            match number {
                1 => self.values = number_of(walker, kind)?.try_into().ok()?,
                number if number == encoding => self.encoding = number_of(walker, kind)?,
                number if (1..=numbers).contains(&number) => number_of(walker, kind).map(drop)?,
                _ => walker.skip(kind)?,
            }
            Some(())
        })
    }
}

/// The fields of a page's header that describe a page of values, of a dictionary, and of values in
/// the second way.
const DATA: i16 = 5;
const DICTIONARY: i16 = 7;
const DATA_2: i16 = 8;

/// A number of 32 bits; nothing of another type is one, nor is a larger one, of which the reader of
/// Parquet takes the low bits.
fn number_of(walker: &mut Walker, kind: u8) -> Option<i32> {
    (kind == I32).then(|| walker.number())??.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of one value: type, unpacked and packed bytes, and what is said of a page of values.
    const PAGE: [u8; 13] = [0x15, 0, 0x15, 2, 0x15, 2, 0x2c, 0x15, 2, 0x15, 0, 0, 0];

    #[test]
    fn a_header_says_what_the_reader_of_parquet_takes_it_for() {
        let header = Header::parse(&PAGE).unwrap();
        assert_eq!((header.bytes, header.unpacked, header.values, header.encoding), (13, 1, 1, 0));
        let with = |at: usize, byte| {
            let mut damaged = PAGE;
            damaged[at] = byte;
            Header::parse(&damaged)
        };
        for at in [0, 2, 4, 7, 9] {
            assert!(with(at, 0x16).is_none(), "a number of 64 bits at {at}");
        }
        assert!(with(1, 4).is_none(), "a dictionary that is described as values");
        assert!(with(6, 0x4c).is_none(), "values that are described as a dictionary");
        let checksum = [&PAGE[..6], &[0x1a, 0, 0x1c], &PAGE[7..]].concat();
        assert!(Header::parse(&checksum).is_none(), "a checksum that is no number");
        let levels = [&PAGE[..11], &[0x18, 0, 0, 0]].concat();
        assert!(Header::parse(&levels).is_none(), "an encoding of levels that is a text");
        let beyond = [&PAGE[..10], &[0x8e, 0x80, 0x80, 0x80, 0x20, 0, 0]].concat();
        assert!(Header::parse(&beyond).is_none(), "an encoding of 7 + 2³²");
        let twice: Vec<u8> = [&PAGE[..12], &[0x2c, 0x15, 2, 0x15, 0, 0, 0]].concat();
        assert!(Header::parse(&twice).is_none(), "two descriptions");
    }
}
