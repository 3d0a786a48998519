//! The macros that declare columns. What they expand to names [`Field`](super::Field) for all that
//! depends on a type.

/// Declares a table's row: for each column its name, its type, its meaning (the doc comment) and
/// what a missing value means (`#[null("…")]`, for an `Option`).
macro_rules! table {
    (
        $table:ident,
        $(#[$attribute:meta])*
        pub struct $row:ident {
            $(
                $(#[doc = $meaning:literal])+
                $(#[null($null:literal)])?
                pub $field:ident: $type:ty,
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $row {
            $(
                $(#[doc = $meaning])+
                $(#[doc = concat!("\n\n`None`: ", $null, ".")])?
                pub $field: $type,
            )+
        }

        $(const _: () = assert!(
            <$type as $crate::column::Field>::NULLABLE == $crate::column::declare::null!($($null)?).is_some(),
            "a field that is an Option, and no other, says what null means"
        );)+

        impl $crate::column::Record for $row {
            const TABLE: $crate::table::Table = $crate::table::Table::$table;

            fn names() -> Vec<&'static str> {
                <$row as $crate::column::Row>::columns().iter().map(|column| column.name).collect()
            }

            $crate::column::declare::read_each!($($field: $type),+);
        }

        impl $crate::column::Row for $row {
            fn columns() -> Vec<$crate::column::Column> {
                let mut columns = Vec::new();
                $(<$type as $crate::column::Field>::describe(
                    $crate::column::Declared {
                        name: stringify!($field),
                        null: $crate::column::declare::null!($($null)?),
                        meaning: concat!($($meaning),+),
                    },
                    &mut columns,
                );)+
                columns
            }

            fn encode(rows: &[Self]) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError> {
                let mut arrays = Vec::new();
                $(<$type as $crate::column::Field>::encode(rows.iter().map(|row| &row.$field), &mut arrays)?;)+
                let schema = <$row as $crate::column::Record>::TABLE.schema();
                arrow_array::RecordBatch::try_new(schema, arrays)
            }
        }

        #[cfg(test)]
        impl proptest::arbitrary::Arbitrary for $row {
            type Parameters = ();
            type Strategy = proptest::strategy::BoxedStrategy<Self>;

            fn arbitrary_with((): ()) -> Self::Strategy {
                use proptest::strategy::Strategy;
                let row = |(), random| {
                    let mut runner = proptest::test_runner::TestRunner::new_with_rng(Default::default(), random);
                    $row { $($field: $crate::column::any_value(&mut runner)),+ }
                };
                proptest::strategy::Just(()).prop_perturb(row).boxed()
            }
        }
    };
}

/// Declares a struct that is read from some columns of a table, under the names and types that they
/// have there.
macro_rules! extract {
    (
        $table:ident,
        $(#[$attribute:meta])*
        pub struct $record:ident {
            $( $(#[doc = $meaning:literal])+ pub $field:ident: $type:ty, )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $record {
            $( $(#[doc = $meaning])+ pub $field: $type, )+
        }

        impl $crate::column::Record for $record {
            const TABLE: $crate::table::Table = $crate::table::Table::$table;

            fn names() -> Vec<&'static str> {
                vec![$(stringify!($field)),+]
            }

            $crate::column::declare::read_each!($($field: $type),+);
        }
    };
}

/// `Record::read_each`.
macro_rules! read_each {
    ($($field:ident: $type:ty),+) => {
        #[inline]
        fn read_each(
            columns: &$crate::column::Columns,
            wanted: impl Fn(usize) -> bool,
            mut each: impl FnMut(Self),
        ) -> $crate::error::Result<()> {
            $(let $field = <$type as $crate::column::Field>::source(columns, stringify!($field))?;)+
            for row in (0..columns.rows()).filter(|row| wanted(*row)) {
                each(Self { $($field: <$type as $crate::column::Field>::read(&$field, row)?),+ });
            }
            Ok(())
        }
    };
}

/// Declares several columns of bytes that are one field of a row, and null together:
/// `Option<$group>` is a [`Field`](super::Field). Each names its column: `#[column("…")]`.
macro_rules! group {
    (
        $(#[$attribute:meta])*
        pub struct $group:ident {
            $( $(#[doc = $meaning:literal])+ #[column($column:literal)] pub $field:ident: u64, )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $group {
            $( $(#[doc = $meaning])+ pub $field: u64, )+
        }

        impl $crate::column::Field for Option<$group> {
            const NULLABLE: bool = true;
            type Source<'a> = [&'a arrow_array::UInt64Array; [$($column),+].len()];

            fn describe(field: $crate::column::Declared, columns: &mut Vec<$crate::column::Column>) {
                $(<Option<u64> as $crate::column::Field>::describe(
                    $crate::column::Declared { name: $column, meaning: concat!($($meaning),+), ..field },
                    columns,
                );)+
            }

            fn encode<'a>(
                values: impl Iterator<Item = &'a Self> + Clone,
                arrays: &mut Vec<arrow_array::ArrayRef>,
            ) -> Result<(), arrow_schema::ArrowError> {
                $({
                    let column = values.clone().map(|group| group.map(|group| group.$field));
                    arrays.push(std::sync::Arc::new(column.collect::<arrow_array::UInt64Array>()));
                })+
                Ok(())
            }

            fn source<'a>(
                columns: &$crate::column::Columns<'a>,
                _: &'static str,
            ) -> $crate::error::Result<Self::Source<'a>> {
                Ok([$(columns.nullable::<arrow_array::types::UInt64Type>($column)?),+])
            }

            /// All of its values or none.
            fn read(source: &Self::Source<'_>, row: usize) -> $crate::error::Result<Self> {
                let [$($field),+] = source;
                $(let Some($field) = <Option<u64> as $crate::column::Field>::read($field, row)? else {
                    return Ok(None);
                };)+
                Ok(Some($group { $($field),+ }))
            }

            #[cfg(test)]
            fn any() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy;
                let group = proptest::arbitrary::any::<[u64; [$($column),+].len()]>();
                proptest::option::of(group.prop_map(|[$($field),+]| $group { $($field),+ })).boxed()
            }
        }
    };
}

/// Makes shared values that serde knows a [`Field`](super::Field): a column of JSON. `any` makes
/// values for tests.
macro_rules! json {
    ($type:ty, any: $any:expr) => {
        impl $crate::column::Field for $type {
            const NULLABLE: bool = false;
            type Source<'a> = $crate::column::JsonColumn<'a, Self>;

            fn describe(field: $crate::column::Declared, columns: &mut Vec<$crate::column::Column>) {
                columns.push(field.with_type($crate::column::ColumnType::Json));
            }

            fn encode<'a>(
                values: impl Iterator<Item = &'a Self> + Clone,
                arrays: &mut Vec<arrow_array::ArrayRef>,
            ) -> Result<(), arrow_schema::ArrowError> {
                arrays.push(std::sync::Arc::new($crate::column::json_texts(values)?));
                Ok(())
            }

            fn source<'a>(
                columns: &$crate::column::Columns<'a>,
                name: &'static str,
            ) -> $crate::error::Result<Self::Source<'a>> {
                columns.json(name)
            }

            fn read(source: &Self::Source<'_>, row: usize) -> $crate::error::Result<Self> {
                source.value(row)
            }

            #[cfg(test)]
            fn any() -> proptest::strategy::BoxedStrategy<Self> {
                proptest::strategy::Strategy::boxed(proptest::strategy::Strategy::prop_map($any, Self::from))
            }
        }
    };
}

/// Declares a closed set of values with their texts, which is a [`Field`](super::Field).
macro_rules! labels {
    (
        $(#[$attribute:meta])*
        pub enum $label:ident {
            $( $(#[doc = $meaning:literal])+ $value:ident = $text:literal, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $label {
            $( $(#[doc = $meaning])+ #[serde(rename = $text)] $value, )+
        }

        impl $label {
            /// Every value.
            pub const ALL: &'static [$label] = &[$($label::$value),+];

            /// The text in the tables.
            pub fn as_str(self) -> &'static str {
                match self { $($label::$value => $text,)+ }
            }
        }

        impl $crate::column::Label for $label {
            const ALL: &'static [$label] = $label::ALL;
            const TEXTS: &'static [&'static str] = &[$($text),+];

            fn key(self) -> u8 {
                self as u8
            }
        }

        impl std::fmt::Display for $label {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $label {
            type Err = $crate::column::UnknownLabel;

            fn from_str(text: &str) -> Result<Self, $crate::column::UnknownLabel> {
                <$label as $crate::column::Label>::parse(text)
            }
        }

        impl $crate::column::Field for $label {
            const NULLABLE: bool = false;
            type Source<'a> = Vec<$label>;

            fn describe(field: $crate::column::Declared, columns: &mut Vec<$crate::column::Column>) {
                columns.push(field.with_type($crate::column::ColumnType::Label));
            }

            fn encode<'a>(
                values: impl Iterator<Item = &'a Self> + Clone,
                arrays: &mut Vec<arrow_array::ArrayRef>,
            ) -> Result<(), arrow_schema::ArrowError> {
                arrays.push($crate::column::encode_labels(values)?);
                Ok(())
            }

            fn source<'a>(
                columns: &$crate::column::Columns<'a>,
                name: &'static str,
            ) -> $crate::error::Result<Self::Source<'a>> {
                $crate::column::decode_labels(columns, name)
            }

            #[inline]
            fn read(source: &Self::Source<'_>, row: usize) -> $crate::error::Result<Self> {
                Ok(source[row])
            }

            #[cfg(test)]
            fn any() -> proptest::strategy::BoxedStrategy<Self> {
                proptest::strategy::Strategy::boxed(proptest::sample::select($label::ALL))
            }
        }
    };
}

/// What `#[null("…")]` says, if it is there.
macro_rules! null {
    () => {
        None::<&str>
    };
    ($null:literal) => {
        Some($null)
    };
}

pub(crate) use {extract, group, json, labels, null, read_each, table};
