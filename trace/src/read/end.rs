//! The end of a file (`FileMetaData` of parquet-format), checked before the library reads it. The
//! library goes by the numbers of fields alone: a number that it knows has the type that it
//! expects here, or something else than was checked would be read.

use std::path::Path;

use parquet::file::reader::{ChunkReader, Length};

use self::Type::{Byte, Children, Double, Flag, List, Long, Number, Short, Struct, Text};
use crate::error::{Error, Result};
use crate::read::file::Input;
use crate::read::limits::{self, at_most};
use crate::read::thrift::{self, Walker};

/// The length of the end and `PAR1`.
const TAIL_BYTES: u64 = 8;

/// So many columns and row groups, in so many bytes.
pub(super) fn check(path: &Path, input: &Input) -> Result<()> {
    let length = input.len();
    let unread = Error::damaged(path);
    let Some(tail) = length.checked_sub(TAIL_BYTES) else {
        return Err(unread(format!("it has {length} bytes, and a table has more")));
    };
    let read = |start, bytes| input.get_bytes(start, bytes).map_err(Error::damaged(path));
    let end = read(tail, TAIL_BYTES as usize)?;
    let Some(&length) = end.strip_suffix(b"PAR1").and_then(<[u8]>::first_chunk) else {
        return Err(unread("its end is missing".into()));
    };
    let bytes = u64::from(u32::from_le_bytes(length));
    at_most(path, "the bytes of its end", bytes, limits::END_BYTES)?;
    let Some(start) = tail.checked_sub(bytes) else {
        return Err(unread("its end is longer than it is".into()));
    };
    let Some((columns, groups)) = announced(&read(start, bytes as usize)?) else {
        return Err(unread("its end makes no sense".into()));
    };
    at_most(path, "its columns", columns, limits::COLUMNS)?;
    let chunks = columns.saturating_mul(groups);
    at_most(path, "its columns times its row groups", chunks, limits::COLUMN_CHUNKS)
}

/// How many columns and row groups the end of a file lists.
fn announced(end: &[u8]) -> Option<(u64, u64)> {
    const SCHEMA: i16 = 2;
    const ROW_GROUPS: i16 = 4;
    let (mut columns, mut groups) = (0, 0);
    let mut walker = Walker::new(end);
    walker.fields(|walker, number, kind| {
        let (counted, of) = match number {
            SCHEMA => (&mut columns, &SCHEMA_ELEMENT),
            ROW_GROUPS => (&mut groups, &ROW_GROUP),
            _ => return over_field(FILE, walker, number, kind),
        };
        *counted = of.over_list(walker, kind)?.max(*counted);
        Some(())
    })?;
    // What is left would be read by a library that has lost step.
    (walker.left() == 0).then_some((columns, groups))
}

/// The type of a field.
enum Type {
    Flag,
    Byte,
    Short,
    Number,
    /// How many children an element of the schema has: the library makes room for them.
    Children,
    Long,
    Double,
    Text,
    List(&'static Type),
    /// Its fields that the library knows. Of a union, one of them.
    Struct(&'static [(i16, Type)]),
}

/// Over a field of a struct, of which these are known.
fn over_field(fields: &[(i16, Type)], walker: &mut Walker, number: i16, kind: u8) -> Option<()> {
    match fields.iter().find(|(known, _)| *known == number) {
        Some((_, of)) => of.over(walker, kind),
        None => walker.skip(kind),
    }
}

impl Type {
    /// Over a value that is declared as this kind; `None` if it is of another type.
    fn over(&self, walker: &mut Walker, kind: u8) -> Option<()> {
        (self.kinds().contains(&kind)).then_some(())?;
        match self {
            Children => {
                let children = u64::try_from(walker.number()?).ok()?;
                (children <= limits::COLUMNS).then_some(())
            }
            List(of) => of.over_list(walker, kind).map(drop),
            Struct(fields) => walker.fields(|walker, number, kind| over_field(fields, walker, number, kind)),
            _ => walker.skip(kind),
        }
    }

    /// Over a list of such values: how many they are.
    fn over_list(&self, walker: &mut Walker, kind: u8) -> Option<u64> {
        (kind == thrift::LIST).then_some(())?;
        let (size, kind) = walker.list()?;
        (0..size).try_for_each(|_| self.over(walker, kind))?;
        Some(size)
    }

    fn kinds(&self) -> &'static [u8] {
        match self {
            Flag => &[1, 2],
            Byte => &[3],
            Short => &[4],
            Number | Children => &[thrift::I32],
            Long => &[thrift::I64],
            Double => &[7],
            Text => &[thrift::TEXT],
            List(_) => &[thrift::LIST],
            Struct(_) => &[thrift::STRUCT],
        }
    }
}

const EMPTY: Type = Struct(&[]);

/// But the schema and the row groups.
const FILE: &[(i16, Type)] = &[
    (1, Number),
    (3, Long),
    (5, List(&KEY_VALUE)),
    (6, Text),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))),
    (8, EMPTY),
    (9, Text),
];

const KEY_VALUE: Type = Struct(&[(1, Text), (2, Text)]);

const SCHEMA_ELEMENT: Type = Struct(&[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Text),
    (5, Children),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, LOGICAL_TYPE),
]);

const LOGICAL_TYPE: Type = Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Number), (2, Number)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Flag)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Text)])),
    (18, Struct(&[(1, Text), (2, Number)])),
    (19, EMPTY),
]);

const TIME: Type = Struct(&[(1, Flag), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

const ROW_GROUP: Type = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, Long),
    (3, Long),
    (4, List(&Struct(&[(1, Number), (2, Flag), (3, Flag)]))),
    (5, Long),
    (6, Long),
    (7, Short),
]);

const COLUMN_CHUNK: Type = Struct(&[
    (1, Text),
    (2, Long),
    (3, COLUMN),
    (4, Long),
    (5, Number),
    (6, Long),
    (7, Number),
    (8, EMPTY),
    (9, Text),
]);

const COLUMN: Type = Struct(&[
    (1, Number),
    (2, List(&Number)),
    (3, List(&Text)),
    (4, Number),
    (5, Long),
    (6, Long),
    (7, Long),
    (8, List(&KEY_VALUE)),
    (9, Long),
    (10, Long),
    (11, Long),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Long),
    (15, Number),
    (16, Struct(&[(1, Long), (2, List(&Long)), (3, List(&Long))])),
    (17, Struct(&[(1, BOX), (2, List(&Number))])),
]);

const STATISTICS: Type = Struct(&[
    (1, Text),
    (2, Text),
    (3, Long),
    (4, Long),
    (5, Text),
    (6, Text),
    (7, Flag),
    (8, Flag),
    (9, Long),
]);

const BOX: Type = Struct(&[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
]);

#[cfg(test)]
mod tests {
    use super::*;

    /// A version, a schema of one element with a name and so many children, and rows.
    fn end(children: u8) -> Vec<u8> {
        [&[0x15, 2, 0x19, 0x1c, 0x48, 1, b'a', 0x15], &[children << 1][..], &[0, 0x16, 2, 0]].concat()
    }

    #[test]
    fn columns_and_groups_are_counted() {
        assert_eq!(announced(&end(3)), Some((1, 0)));
        // A list of two empty structs, as the schema; then as a set.
        assert_eq!(announced(&[0x29, 0x2c, 0, 0, 0]), Some((2, 0)));
        assert_eq!(announced(&[0x2a, 0x2c, 0, 0, 0]), None);
        assert_eq!(announced(&[0x49, 0x1c, 0, 0]), Some((0, 1)));
    }

    #[test]
    fn a_number_that_the_library_knows_has_the_type_that_it_expects() {
        for (damaged, what) in [
            (&[0x18, 1, b'a', 0][..], "a version that is a text may hide a schema"),
            (&[0x35, 2, 0], "rows of 32 bits"),
            (&[0x75, 2, 0], "orders of columns that are a number"),
            (&[0x79, 0x1c, 0x31, 0, 0], "an order of columns that is a truth"),
            (&[0x29, 0x1c, 0xac, 1, 38, 0, 0, 0], "a file that is a truth"),
            (&[0x59, 0x1c, 0x15, 4, 0x28, 1, b'a', 0, 0], "a key that is a number"),
            (&[0x29, 0x1c, 0x18, 1, b'a', 0, 0], "an element whose type is a text"),
            (&[0x49, 0x1c, 0x25, 2, 0, 0], "the bytes of a row group in 32 bits"),
            (&[0x49, 0x1c, 0x19, 0x1c, 0x3c, 0x29, 0x16, 2, 0, 0, 0, 0], "an encoding of 64 bits"),
        ] {
            assert_eq!(announced(damaged), None, "{what}");
        }
        assert_eq!(announced(&[end(3), vec![0]].concat()), None, "more after the end");
    }

    #[test]
    fn no_element_has_more_children_than_there_may_be_columns() {
        let many = [&[0x29, 0x1c, 0x55][..], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0, 0]].concat();
        assert_eq!(announced(&many), None);
        assert_eq!(announced(&[0x29, 0x1c, 0x55, 1, 0, 0]), None, "fewer than none");
    }
}
