//! Types that a field of a row can have, and the columns that they become.

use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray};
use arrow_schema::ArrowError;
#[cfg(test)]
use proptest::prelude::*;

use super::{Column, ColumnType, Columns};
use crate::error::Result;

/// What the declaration of a field says besides its type.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    pub(crate) null: Option<&'static str>,
    pub(crate) meaning: &'static str,
}

impl Declared {
    pub(crate) fn with_type(self, data_type: ColumnType) -> Column {
        Column { name: self.name, data_type, null: self.null, meaning: self.meaning.trim() }
    }
}

/// A type that a field of a row can have: one column, or several that are null together.
pub(crate) trait Field: Sized {
    /// True if there may be no value.
    const NULLABLE: bool;

    /// What values are read from.
    type Source<'a>;

    /// Adds the columns of a field.
    fn describe(field: Declared, columns: &mut Vec<Column>);

    /// Adds the values of these columns.
    fn encode<'a>(
        values: impl Iterator<Item = &'a Self> + Clone,
        arrays: &mut Vec<ArrayRef>,
    ) -> Result<(), ArrowError>
    where
        Self: 'a;

    /// Finds the columns of the field `name`.
    fn source<'a>(columns: &Columns<'a>, name: &'static str) -> Result<Self::Source<'a>>;

    /// The value in row `row`.
    fn read(source: &Self::Source<'_>, row: usize) -> Result<Self>;

    /// Any value.
    #[cfg(test)]
    fn any() -> BoxedStrategy<Self>;
}

macro_rules! number {
    ($number:ty, $arrow:ty, $data_type:ident) => {
        impl Field for $number {
            const NULLABLE: bool = false;
            type Source<'a> = &'a [$number];

            fn describe(field: Declared, columns: &mut Vec<Column>) {
                columns.push(field.with_type(ColumnType::$data_type));
            }

            fn encode<'a>(
                values: impl Iterator<Item = &'a Self> + Clone,
                arrays: &mut Vec<ArrayRef>,
            ) -> Result<(), ArrowError> {
                arrays.push(Arc::new(PrimitiveArray::<$arrow>::from_iter_values(values.copied())));
                Ok(())
            }

            fn source<'a>(columns: &Columns<'a>, name: &'static str) -> Result<Self::Source<'a>> {
                columns.required::<$arrow>(name)
            }

            #[inline]
            fn read(source: &Self::Source<'_>, row: usize) -> Result<Self> {
                Ok(source[row])
            }

            #[cfg(test)]
            fn any() -> BoxedStrategy<Self> {
                any::<$number>().boxed()
            }
        }

        impl Field for Option<$number> {
            const NULLABLE: bool = true;
            type Source<'a> = &'a PrimitiveArray<$arrow>;

            fn describe(field: Declared, columns: &mut Vec<Column>) {
                <$number>::describe(field, columns);
            }

            fn encode<'a>(
                values: impl Iterator<Item = &'a Self> + Clone,
                arrays: &mut Vec<ArrayRef>,
            ) -> Result<(), ArrowError> {
                arrays.push(Arc::new(values.copied().collect::<PrimitiveArray<$arrow>>()));
                Ok(())
            }

            fn source<'a>(columns: &Columns<'a>, name: &'static str) -> Result<Self::Source<'a>> {
                columns.nullable::<$arrow>(name)
            }

            #[inline]
            fn read(source: &Self::Source<'_>, row: usize) -> Result<Self> {
                Ok(source.is_valid(row).then(|| source.value(row)))
            }

            #[cfg(test)]
            fn any() -> BoxedStrategy<Self> {
                any::<Option<$number>>().boxed()
            }
        }
    };
}

number!(u32, UInt32Type, UInt32);
number!(u64, UInt64Type, UInt64);
number!(i32, Int32Type, Int32);
number!(i64, Int64Type, Int64);

impl Field for String {
    const NULLABLE: bool = false;
    type Source<'a> = &'a StringArray;

    fn describe(field: Declared, columns: &mut Vec<Column>) {
        columns.push(field.with_type(ColumnType::Text));
    }

    fn encode<'a>(
        values: impl Iterator<Item = &'a Self> + Clone,
        arrays: &mut Vec<ArrayRef>,
    ) -> Result<(), ArrowError> {
        arrays.push(Arc::new(StringArray::from_iter_values(values)));
        Ok(())
    }

    fn source<'a>(columns: &Columns<'a>, name: &'static str) -> Result<Self::Source<'a>> {
        columns.text(name)
    }

    fn read(source: &Self::Source<'_>, row: usize) -> Result<Self> {
        Ok(source.value(row).to_owned())
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Self> {
        text().boxed()
    }
}

impl Field for Option<String> {
    const NULLABLE: bool = true;
    type Source<'a> = &'a StringArray;

    fn describe(field: Declared, columns: &mut Vec<Column>) {
        String::describe(field, columns);
    }

    fn encode<'a>(
        values: impl Iterator<Item = &'a Self> + Clone,
        arrays: &mut Vec<ArrayRef>,
    ) -> Result<(), ArrowError> {
        arrays.push(Arc::new(values.map(Option::as_deref).collect::<StringArray>()));
        Ok(())
    }

    fn source<'a>(columns: &Columns<'a>, name: &'static str) -> Result<Self::Source<'a>> {
        columns.nullable_text(name)
    }

    fn read(source: &Self::Source<'_>, row: usize) -> Result<Self> {
        Ok(source.is_valid(row).then(|| source.value(row).to_owned()))
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Self> {
        prop::option::of(text()).boxed()
    }
}

/// A value of a row that a test makes up.
#[cfg(test)]
pub(crate) fn any_value<T: Field + std::fmt::Debug>(runner: &mut proptest::test_runner::TestRunner) -> T {
    T::any().new_tree(runner).unwrap().current()
}

/// Text with what JSON, Parquet and CSV stumble over.
#[cfg(test)]
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['a', '"', '\\', '\n', '\0', ',', 'é', '🧱']), 0..8)
        .prop_map(|characters| characters.into_iter().collect())
}
