//! `docs/trace-format.md` and the schemas say the same, both ways (DESIGN §5).

use std::collections::BTreeSet;

use arrow_schema::{DataType, Field};
use memtrace_trace::{Meta, SCHEMA_VERSION, Table};

const DOCUMENT: &str = include_str!("../../docs/trace-format.md");

/// A column as a row of a table in the document: `name`, `type`, `null`.
type Row = (String, String, bool);

/// Rows of the Markdown table under the heading "### `title`", without their last cell.
fn documented(title: &str) -> Vec<Row> {
    let heading = format!("### `{title}`\n");
    let Some((_, section)) = DOCUMENT.split_once(&heading) else {
        panic!("the document has no section on {title}")
    };
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let null = match cells[3] {
            "never" => false,
            other => {
                assert!(!other.is_empty(), "{title}: say what null means: {line}");
                true
            }
        };
        (cells[1].trim_matches('`').to_owned(), cells[2].to_owned(), null)
    })
    .collect()
}

fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::Utf8 => "text",
        DataType::Dictionary(_, _) => "text, dictionary",
        other => panic!("the document has no word for {other}"),
    }
}

/// The document calls a text that holds JSON `JSON`; Arrow knows it as text.
fn without_json(row: Row) -> Row {
    if row.1 == "JSON" { (row.0, "text".to_owned(), row.2) } else { row }
}

#[test]
fn columns_are_documented_as_they_are() {
    for table in Table::ALL {
        let schema = table.schema();
        let column = |field: &std::sync::Arc<Field>| {
            (field.name().clone(), type_name(field.data_type()).to_owned(), field.is_nullable())
        };
        let coded: Vec<Row> = schema.fields().iter().map(column).collect();
        let documented: Vec<Row> = documented(table.name()).into_iter().map(without_json).collect();
        assert_eq!(documented, coded, "table {}", table.name());
    }
}

/// Every section on a table is on a table there is; reserved ones have no such section.
#[test]
fn no_other_tables_are_documented() {
    let sections = DOCUMENT.lines().filter_map(|line| line.strip_prefix("### `"));
    let documented: BTreeSet<&str> = sections.map(|rest| rest.trim_end_matches('`')).collect();
    let mut written: BTreeSet<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    written.insert("meta.json");
    assert_eq!(documented, written);
}

/// Keys of a JSON object, `outer.inner` for objects in it that are structs of ours.
fn keys(value: &serde_json::Value) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for (key, value) in value.as_object().unwrap() {
        match value.as_object() {
            Some(inner) if !inner.is_empty() => {
                keys.extend(inner.keys().map(|inner| format!("{key}.{inner}")));
            }
            _ => {
                keys.insert(key.clone());
            }
        }
    }
    keys
}

#[test]
fn meta_is_documented_as_it_is() {
    let meta = serde_json::to_value(Meta::default()).unwrap();
    let documented: Vec<Row> = documented("meta.json");
    let names: BTreeSet<String> = documented.iter().map(|row| row.0.clone()).collect();
    assert_eq!(names, keys(&meta));
    for (name, _, null) in documented {
        let value = meta.pointer(&format!("/{}", name.replace('.', "/")));
        assert_eq!(null, value.is_some_and(|value| value.is_null()), "{name}");
    }
    assert!(DOCUMENT.contains(&format!("schema version {SCHEMA_VERSION}")));
}

/// Every value of the closed sets is explained.
#[test]
fn kinds_and_roles_are_documented() {
    use memtrace_trace::rows::{Kind, Role};
    for kind in [Kind::Malloc, Kind::Calloc, Kind::Realloc, Kind::Aligned] {
        assert!(kind.is_heap() && DOCUMENT.contains(&format!("- `{kind}`:")), "{kind}");
    }
    for kind in [
        Kind::MapAnonymous,
        Kind::MapShared,
        Kind::MapFile,
        Kind::MapReserved,
        Kind::MapBreak,
        Kind::MapArena,
    ] {
        assert!(!kind.is_heap() && DOCUMENT.contains(&format!("- `{kind}`:")), "{kind}");
    }
    for role in [Role::None, Role::Input, Role::Output, Role::Temporary, Role::Once] {
        assert!(DOCUMENT.contains(&format!("- `{role}`:")), "{role}");
    }
}
