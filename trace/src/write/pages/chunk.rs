//! A column of a row group while its pages are added.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, SortOrder, Type, ZstdLevel};
use parquet::column::page::{CompressedPage, Page as DataPage, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::dictionary::Dictionary;
use super::runs::Runs;
use super::squeeze::{Content, Squeezer};
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

/// Some rows of the column.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    /// Which rows have a value; not used if the column may not hold nulls.
    pub(crate) valid: &'a Runs<bool>,
    /// Those values.
    pub(crate) values: Values<'a>,
}

/// The values of a page.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    /// One after the other.
    Each(&'a [u64]),
    /// Mostly the same ones.
    InRuns(&'a Runs<u64>),
}

/// Dictionaries up to this size are not worth a compressor: readers need one for the column then.
const SMALL_DICTIONARY: usize = 256;

/// Pages that are left uncompressed after one that hardly got smaller.
const UNCOMPRESSED_PAGES: u32 = 7;

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
    /// Range of the values that are not in the dictionary, in the column's order; `least` is above
    /// `most` if there is none.
    least: u64,
    most: u64,
    /// True if some page is compressed.
    compressed: bool,
    /// Pages still to be left uncompressed.
    left_uncompressed: u32,
    scratch: Scratch,
}

/// Buffers that are reused for each page.
#[derive(Default)]
struct Scratch {
    each: Vec<u64>,
    numbers: Vec<u32>,
    runs: Vec<(u32, u32)>,
    levels: Vec<u8>,
    body: Vec<u8>,
    squeezed: Vec<u8>,
}

impl Chunk {
    pub(crate) fn new(column: ColumnDescPtr, layout: Layout) -> Chunk {
        Chunk {
            column,
            layout,
            dictionary: Dictionary::default(),
            given_up: false,
            pages: TrackedWrite::new(Vec::new()),
            encodings: Vec::new(),
            uncompressed: 0,
            rows: 0,
            nulls: 0,
            least: u64::MAX,
            most: 0,
            compressed: false,
            left_uncompressed: 0,
            scratch: Scratch::default(),
        }
    }

    /// Adds a page of `rows` rows.
    pub(crate) fn page(&mut self, rows: usize, page: Page, squeezer: &mut Squeezer) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let present = if self.column.max_def_level() == 0 { rows } else { scratch.levels(page.valid) };
        let encoding = self.encode(page.values, &mut scratch);
        let Scratch { levels, body, squeezed, .. } = &mut scratch;
        let is_compressed = self.squeeze(encoding, present, body, squeezer, squeezed)?;
        self.compressed |= is_compressed;
        let values = if is_compressed { squeezed } else { &mut *body };
        self.write(
            DataPage::DataPageV2 {
                buf: [levels.as_slice(), values].concat().into(),
                num_values: rows as u32,
                encoding,
                num_nulls: (rows - present) as u32,
                num_rows: rows as u32,
                def_levels_byte_len: levels.len() as u32,
                rep_levels_byte_len: 0,
                is_compressed,
                statistics: None,
            },
            levels.len() + body.len(),
        )?;
        self.rows += rows;
        self.nulls += rows - present;
        self.scratch = scratch;
        Ok(())
    }

    /// Bytes of the pages so far.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes_written()
    }

    /// Puts the encoded values into `scratch.body`.
    fn encode(&mut self, values: Values, scratch: &mut Scratch) -> Encoding {
        let Scratch { each, numbers, runs, body, .. } = scratch;
        body.clear();
        if matches!(self.layout, Layout::Few | Layout::Labels(_)) && !self.given_up {
            if let Some(entries) = self.number(values, numbers, runs) {
                let width = hybrid::aligned_width(entries);
                body.push(width as u8);
                match values {
                    Values::Each(_) => hybrid::values(numbers, width, body),
                    Values::InRuns(_) => hybrid::runs(runs, width, numbers, body),
                }
                return Encoding::RLE_DICTIONARY;
            }
            self.given_up = true;
        }
        let values = match values {
            Values::Each(values) => values,
            Values::InRuns(runs) => {
                each.clear();
                runs.iter().for_each(|(value, times)| each.resize(each.len() + *times as usize, *value));
                each
            }
        };
        self.note_range(values);
        if self.layout == Layout::Split && !values.is_empty() {
            split::encode(values, body);
            return Encoding::BYTE_STREAM_SPLIT;
        }
        delta::encode(values, self.column.physical_type() == Type::INT64, body);
        Encoding::DELTA_BINARY_PACKED
    }

    /// Turns values into their numbers in the dictionary. Returns how many entries it has then.
    fn number(
        &mut self,
        values: Values,
        numbers: &mut Vec<u32>,
        runs: &mut Vec<(u32, u32)>,
    ) -> Option<usize> {
        let texts = match self.layout {
            Layout::Labels(texts) => Some(texts.len()),
            _ => None,
        };
        let mut number =
            |value| if texts.is_some() { Some(value as u32) } else { self.dictionary.number(value) };
        match values {
            Values::Each(values) => {
                numbers.resize(values.len(), 0);
                for (into, value) in numbers.iter_mut().zip(values) {
                    *into = number(*value)?;
                }
            }
            Values::InRuns(values) => {
                runs.clear();
                for (value, times) in values {
                    runs.push((number(*value)?, *times));
                }
            }
        }
        Some(texts.unwrap_or(self.dictionary.values().len()))
    }

    /// Compresses the `body` of `values` values and returns whether that was worth it.
    fn squeeze(
        &mut self,
        encoding: Encoding,
        values: usize,
        body: &[u8],
        squeezer: &mut Squeezer,
        squeezed: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.left_uncompressed > 0 {
            self.left_uncompressed -= 1;
            return Ok(false);
        }
        let content = if encoding == Encoding::RLE_DICTIONARY { Content::Repeating } else { Content::Noisy };
        let stretch = if encoding == Encoding::BYTE_STREAM_SPLIT { values } else { usize::MAX };
        squeezer.squeeze(content, body, stretch, squeezed)?;
        let worth = squeezed.len() < body.len() - body.len() / 16;
        self.left_uncompressed = if worth || body.len() < 1024 { 0 } else { UNCOMPRESSED_PAGES };
        Ok(worth)
    }

    fn write(&mut self, page: DataPage, uncompressed: usize) -> Result<()> {
        if !self.encodings.contains(&page.encoding()) {
            self.encodings.push(page.encoding());
        }
        let page = CompressedPage::new(page, uncompressed);
        let written = SerializedPageWriter::new(&mut self.pages).write_page(page)?;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    /// The pages so far as a column chunk, and what the library's writer must know of it; the next
    /// chunk begins.
    pub(crate) fn take(&mut self, squeezer: &mut Squeezer) -> Result<(Bytes, ColumnCloseResult)> {
        let data = std::mem::replace(&mut self.pages, TrackedWrite::new(Vec::new())).into_inner()?;
        let has_dictionary = self.encodings.contains(&Encoding::RLE_DICTIONARY);
        let mut compressed = std::mem::take(&mut self.compressed);
        if has_dictionary {
            let (body, entries) = self.dictionary_page();
            compressed |= body.len() > SMALL_DICTIONARY;
            if compressed {
                squeezer.squeeze(Content::Repeating, &body, usize::MAX, &mut self.scratch.squeezed)?;
            }
            let page = DataPage::DictionaryPage {
                buf: Bytes::copy_from_slice(if compressed { &self.scratch.squeezed } else { &body }),
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
            .set_compression(match compressed {
                true => Compression::ZSTD(ZstdLevel::default()),
                false => Compression::UNCOMPRESSED,
            })
            .set_encodings(encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(std::mem::take(&mut self.uncompressed) as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(first_data_page)
            .set_dictionary_page_offset(has_dictionary.then_some(0));
        let dictionary = std::mem::take(&mut self.dictionary);
        self.note_range(dictionary.values());
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
        self.dictionary = dictionary;
        self.dictionary.clear();
        (self.given_up, self.nulls, self.left_uncompressed) = (false, 0, 0);
        (self.least, self.most) = (u64::MAX, 0);
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

    fn note_range(&mut self, values: &[u64]) {
        let sign = self.sign();
        for value in values.iter().map(|value| value ^ sign) {
            self.least = self.least.min(value);
            self.most = self.most.max(value);
        }
    }

    fn statistics(&self) -> Option<Statistics> {
        let (sign, nulls) = (self.sign(), Some(self.nulls as u64));
        let range = (self.least <= self.most).then_some((self.least ^ sign, self.most ^ sign)).unzip();
        Some(match (self.layout, self.column.physical_type()) {
            // No reader prunes by them.
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

impl Scratch {
    /// Writes down which rows have a value, and returns how many.
    fn levels(&mut self, valid: &Runs<bool>) -> usize {
        self.runs.clear();
        self.runs.extend(valid.iter().map(|(valid, times)| (u32::from(*valid), *times)));
        self.levels.clear();
        hybrid::runs(&self.runs, 1, &mut self.numbers, &mut self.levels);
        valid.iter().filter(|(valid, _)| *valid).map(|(_, times)| *times as usize).sum()
    }
}

impl From<super::squeeze::Failed> for ParquetError {
    fn from(failed: super::squeeze::Failed) -> ParquetError {
        ParquetError::General(failed.0.to_owned())
    }
}
