//! `docs/trace-format.md` has the tables that the code declares. `UPDATE_DOCS=1 cargo test -p
//! memtrace-trace --test document` writes them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use memtrace_trace::{Column, Meta, SCHEMA_VERSION, Table};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trace-format.md");

const DOCUMENT: &str = include_str!("../../docs/trace-format.md");

/// The table of the document for a table of a trace.
fn rendered(table: Table) -> String {
    let mut text = "| column | type | unit | null | meaning |\n|---|---|---|---|---|\n".to_owned();
    let mut before = None;
    for column in table.columns() {
        let Column { name, data_type, null, meaning } = column;
        let unit = column.unit().map(|unit| unit.to_string()).unwrap_or_default();
        let null_cell = match null {
            None => "never",
            Some(_) if null == before => "as above",
            Some(reason) => reason,
        };
        writeln!(text, "| `{name}` | {data_type} | {unit} | {null_cell} | {meaning} |").unwrap();
        before = null;
    }
    text
}

/// The Markdown table in the section on `title`: its first byte, and the one after its last.
fn place(document: &str, title: &str) -> std::ops::Range<usize> {
    let heading = format!("\n### `{title}`\n");
    let section = document.find(&heading).unwrap_or_else(|| panic!("there is no section on {title}"));
    let section = section + heading.len();
    let end = document[section..].find("\n#").map_or(document.len(), |end| section + end);
    let start = document[section..end].find("\n|").unwrap_or_else(|| panic!("{title} has no table"));
    let start = section + start + 1;
    let lines = document[start..end].split_inclusive('\n').take_while(|line| line.starts_with('|'));
    start..start + lines.map(str::len).sum::<usize>()
}

#[test]
fn columns_are_documented_as_they_are() {
    let mut updated = DOCUMENT.to_owned();
    for table in Table::ALL {
        updated.replace_range(place(&updated, table.name()), &rendered(table));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PATH, updated).unwrap();
        return;
    }
    for table in Table::ALL {
        let documented = &DOCUMENT[place(DOCUMENT, table.name())];
        for (documented, declared) in documented.lines().zip(rendered(table).lines()) {
            assert_eq!(documented, declared, "table {}: run this test with UPDATE_DOCS=1", table.name());
        }
    }
    assert_eq!(DOCUMENT, updated, "run this test with UPDATE_DOCS=1");
}

/// Meanings are one line of a Markdown table; columns of one table have different names.
#[test]
fn columns_are_described() {
    for table in Table::ALL {
        let columns = table.columns();
        let names: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), columns.len());
        for Column { name, null, meaning, .. } in columns {
            assert!(meaning.ends_with('.') || meaning.ends_with('…'), "{name}: {meaning}");
            assert!(!meaning.contains(['\n', '|']), "{name}: {meaning}");
            assert!(null.is_none_or(|null| !null.is_empty() && !null.contains(['\n', '|'])), "{name}");
        }
        let schema = table.schema();
        let fields = schema.fields().iter().map(|field| (field.name().clone(), field.is_nullable()));
        let columns =
            table.columns().into_iter().map(|column| (column.name.to_owned(), column.null.is_some()));
        assert!(fields.eq(columns), "{}", table.name());
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

/// A key of `meta.json` as the document has it.
struct Key {
    name: String,
    nullable: bool,
}

/// The keys in the section on `meta.json`.
fn documented_keys() -> Vec<Key> {
    let rows = DOCUMENT[place(DOCUMENT, "meta.json")].lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert!(!cells[3].is_empty(), "say what null means: {line}");
        Key { name: cells[1].trim_matches('`').to_owned(), nullable: cells[3] != "never" }
    })
    .collect()
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
    let documented = documented_keys();
    let names: BTreeSet<String> = documented.iter().map(|key| key.name.clone()).collect();
    assert_eq!(names, keys(&meta));
    for Key { name, nullable } in documented {
        let value = meta.pointer(&format!("/{}", name.replace('.', "/")));
        assert_eq!(nullable, value.is_some_and(|value| value.is_null()), "{name}");
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
        Kind::MapFilePrivate,
        Kind::MapReserved,
        Kind::MapCommitted,
        Kind::MapBreak,
        Kind::MapArena,
    ] {
        assert!(!kind.is_heap() && DOCUMENT.contains(&format!("- `{kind}`:")), "{kind}");
    }
    for kind in Kind::ALL {
        assert!(DOCUMENT.contains(&format!("`{kind}`")), "{kind}");
    }
    for role in Role::ALL {
        assert!(DOCUMENT.contains(&format!("- `{role}`:")), "{role}");
    }
}
