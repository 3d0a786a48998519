//! A column of a row group while its pages are added.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, SortOrder, Type, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::dictionary::Dictionary;
use super::squeeze::Squeezer;
use super::{delta, hybrid, split};

/// What a column holds, which says how it is encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Few different numbers.
    Few,
    /// Numbers near those before them.
    Near,
    /// Numbers that differ in their lower bytes.
    Split,
    /// Texts of a closed set, by their index in it.
    Labels(&'static [&'static str]),
}

/// The values of a page.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    /// One per row; anything where there is none.
    pub(crate) values: &'a [u64],
    /// Which rows have one, if the column may hold nulls.
    pub(crate) valid: Option<&'a [bool]>,
}

/// Pages that are left as they are after one that hardly got smaller.
const LEFT_ALONE: u32 = 7;

/// See the module.
pub(crate) struct Chunk {
    column: ColumnDescPtr,
    layout: Layout,
    dictionary: Dictionary,
    /// Too many different values: what follows is written without the dictionary.
    given_up: bool,
    pages: TrackedWrite<Vec<u8>>,
    encodings: Vec<Encoding>,
    uncompressed: usize,
    rows: usize,
    nulls: usize,
    range: Option<(u64, u64)>,
    /// Pages still to be left uncompressed.
    left_alone: u32,
    scratch: Scratch,
}

/// Room that is used again for each page.
#[derive(Default)]
struct Scratch {
    gathered: Vec<u64>,
    numbers: Vec<u32>,
    levels: Vec<u8>,
    body: Vec<u8>,
    squeezed: Vec<u8>,
}

impl Chunk {
    pub(crate) fn new(column: ColumnDescPtr, layout: Layout) -> Chunk {
        Chunk {
            column,
            layout,
            dictionary: Dictionary::new(),
            given_up: false,
            pages: TrackedWrite::new(Vec::new()),
            encodings: Vec::new(),
            uncompressed: 0,
            rows: 0,
            nulls: 0,
            range: None,
            left_alone: 0,
            scratch: Scratch::default(),
        }
    }

    /// Adds a page.
    pub(crate) fn page(&mut self, page: Values, squeezer: &mut Squeezer) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { gathered, numbers, levels, body, squeezed } = &mut scratch;
        levels.clear();
        body.clear();
        let present = match page.valid {
            Some(valid) => without_nulls(page.values, valid, gathered, numbers, levels),
            None => page.values,
        };
        self.note_range(present);
        let encoding = self.encode(present, numbers, body);
        let stretch = if encoding == Encoding::BYTE_STREAM_SPLIT { present.len() } else { usize::MAX };
        let is_compressed = self.squeeze(body, stretch, squeezer, squeezed)?;
        let values = if is_compressed { squeezed } else { &mut *body };
        let (rows, nulls) = (page.values.len(), page.values.len() - present.len());
        self.write(
            Page::DataPageV2 {
                buf: [levels.as_slice(), values].concat().into(),
                num_values: rows as u32,
                encoding,
                num_nulls: nulls as u32,
                num_rows: rows as u32,
                def_levels_byte_len: levels.len() as u32,
                rep_levels_byte_len: 0,
                is_compressed,
                statistics: None,
            },
            levels.len() + body.len(),
        )?;
        self.rows += rows;
        self.nulls += nulls;
        self.scratch = scratch;
        Ok(())
    }

    /// Appends the encoded values to `body`.
    fn encode(&mut self, present: &[u64], numbers: &mut Vec<u32>, body: &mut Vec<u8>) -> Encoding {
        let entries = match self.layout {
            Layout::Split if !present.is_empty() => {
                split::encode(present, body);
                return Encoding::BYTE_STREAM_SPLIT;
            }
            Layout::Labels(texts) => {
                numbers.clear();
                numbers.extend(present.iter().map(|value| *value as u32));
                texts.len()
            }
            Layout::Few if !self.given_up && self.dictionary.numbers(present, numbers) => {
                self.dictionary.values().len()
            }
            _ => {
                self.given_up = true;
                delta::encode(present, self.column.physical_type() == Type::INT64, body);
                return Encoding::DELTA_BINARY_PACKED;
            }
        };
        let width = hybrid::aligned_width(entries);
        body.push(width as u8);
        hybrid::encode(numbers, width, body);
        Encoding::RLE_DICTIONARY
    }

    /// Compresses `body` and says whether that was worth it.
    fn squeeze(
        &mut self,
        body: &[u8],
        stretch: usize,
        squeezer: &mut Squeezer,
        squeezed: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.left_alone > 0 {
            self.left_alone -= 1;
            return Ok(false);
        }
        squeezer.squeeze(body, stretch, squeezed)?;
        let worth = squeezed.len() < body.len() - body.len() / 16;
        self.left_alone = if worth || body.len() < 1024 { 0 } else { LEFT_ALONE };
        Ok(worth)
    }

    fn write(&mut self, page: Page, uncompressed: usize) -> Result<()> {
        if !self.encodings.contains(&page.encoding()) {
            self.encodings.push(page.encoding());
        }
        let page = CompressedPage::new(page, uncompressed);
        let written = SerializedPageWriter::new(&mut self.pages).write_page(page)?;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    /// The pages so far as a column chunk, and what the library's writer must know of it; the next chunk begins.
    pub(crate) fn take(&mut self, squeezer: &mut Squeezer) -> Result<(Bytes, ColumnCloseResult)> {
        let data = std::mem::replace(&mut self.pages, TrackedWrite::new(Vec::new())).into_inner()?;
        let has_dictionary = self.encodings.contains(&Encoding::RLE_DICTIONARY);
        if has_dictionary {
            let (body, entries) = self.dictionary_page();
            squeezer.squeeze(&body, usize::MAX, &mut self.scratch.squeezed)?;
            let page = Page::DictionaryPage {
                buf: Bytes::copy_from_slice(&self.scratch.squeezed),
                num_values: entries as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            self.write(page, body.len())?;
        }
        let mut bytes = std::mem::replace(&mut self.pages, TrackedWrite::new(Vec::new())).into_inner()?;
        let first_data_page = bytes.len() as i64;
        bytes.extend_from_slice(&data);
        let mut encodings = std::mem::take(&mut self.encodings);
        encodings.push(Encoding::RLE); // of the levels
        let mut metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encodings(encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(std::mem::take(&mut self.uncompressed) as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(first_data_page)
            .set_dictionary_page_offset(has_dictionary.then_some(0));
        if let Some(statistics) = self.statistics() {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: std::mem::take(&mut self.rows) as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        self.dictionary.clear();
        (self.given_up, self.nulls, self.range, self.left_alone) = (false, 0, None, 0);
        Ok((bytes.into(), close))
    }

    /// Its values as Parquet's PLAIN encoding has them, and how many they are.
    fn dictionary_page(&self) -> (Vec<u8>, usize) {
        let values = self.dictionary.values();
        let body = match (self.layout, self.column.physical_type()) {
            (Layout::Labels(texts), _) => {
                let text = |text: &&str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
                return (texts.iter().flat_map(text).collect(), texts.len());
            }
            (_, Type::INT64) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as u32).to_le_bytes()).collect(),
        };
        (body, values.len())
    }

    /// What puts values into the column's order when they are compared as unsigned numbers.
    fn sign(&self) -> u64 {
        if self.column.sort_order() == SortOrder::SIGNED { 1 << 63 } else { 0 }
    }

    fn note_range(&mut self, present: &[u64]) {
        let sign = self.sign();
        let Some(first) = present.first().map(|first| first ^ sign) else { return };
        let (mut least, mut most) = self.range.unwrap_or((first, first));
        for value in present.iter().map(|value| value ^ sign) {
            least = least.min(value);
            most = most.max(value);
        }
        self.range = Some((least, most));
    }

    fn statistics(&self) -> Option<Statistics> {
        let (sign, nulls) = (self.sign(), Some(self.nulls as u64));
        let range = self.range.map(|(least, most)| (least ^ sign, most ^ sign)).unzip();
        Some(match (self.layout, self.column.physical_type()) {
            // Nobody prunes by them.
            (Layout::Labels(_), _) => return None,
            (_, Type::INT64) => Statistics::int64(
                range.0.map(|least| least as i64),
                range.1.map(|most| most as i64),
                None,
                nulls,
                false,
            ),
            _ => Statistics::int32(
                range.0.map(|least| least as i32),
                range.1.map(|most| most as i32),
                None,
                nulls,
                false,
            ),
        })
    }
}

/// Appends to `levels` which rows have a value, and returns those values.
fn without_nulls<'a>(
    values: &'a [u64],
    valid: &[bool],
    gathered: &'a mut Vec<u64>,
    numbers: &mut Vec<u32>,
    levels: &mut Vec<u8>,
) -> &'a [u64] {
    if !valid.contains(&false) {
        hybrid::repeat(1, values.len(), 1, levels);
        return values;
    }
    if !valid.contains(&true) {
        hybrid::repeat(0, values.len(), 1, levels);
        return &[];
    }
    numbers.clear();
    numbers.extend(valid.iter().map(|valid| u32::from(*valid)));
    hybrid::encode(numbers, 1, levels);
    gathered.clear();
    gathered.extend(values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(value, _)| *value));
    gathered
}

impl From<super::squeeze::Failed> for ParquetError {
    fn from(failed: super::squeeze::Failed) -> ParquetError {
        ParquetError::General(failed.0.to_owned())
    }
}
