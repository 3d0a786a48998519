//! Answers as JSON. Each has a schema in `docs/schemas`, which is made from its type.
//!
//! `UPDATE_DOCS=1 cargo test --release -p memtrace schemas` writes them anew.

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::terminal;

/// Prints an answer whose type has a schema.
pub fn print<T: Serialize + JsonSchema>(answer: &T) -> Result<()> {
    terminal::print_document(&(serde_json::to_string_pretty(answer)? + "\n"))
}

#[cfg(test)]
mod tests {
    use memtrace_analysis::generic::Bounded;
    use memtrace_analysis::model::Prediction;
    use memtrace_analysis::placement::Plan;
    use memtrace_analysis::report::diff::Diff;
    use memtrace_analysis::report::document::{Report, Several};
    use memtrace_analysis::report::histograms::Histograms;
    use memtrace_analysis::report::leaks::Leaks;
    use memtrace_analysis::report::recompute;
    use schemars::Schema;
    use schemars::generate::SchemaSettings;
    use schemars::transform::{Transform, transform_subschemas};

    use super::*;
    use crate::commands::{check, doctor, fitted, flamegraph, place, plan, recommend, recover};
    use crate::live_protocol::Figures;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schemas");

    /// Objects have no other keys than those that are described.
    #[derive(Clone)]
    struct Closed;

    impl Transform for Closed {
        fn transform(&mut self, schema: &mut Schema) {
            if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
                schema.insert("additionalProperties".into(), false.into());
            }
            transform_subschemas(self, schema);
        }
    }

    fn described<T: JsonSchema>() -> String {
        let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Closed);
        let schema = settings.into_generator().into_root_schema_for::<T>();
        serde_json::to_string_pretty(&schema).unwrap() + "\n"
    }

    #[test]
    fn schemas_are_what_the_types_say() {
        let schemas = [
            ("report", described::<Report>()),
            ("several", described::<Several>()),
            ("leaks", described::<Leaks>()),
            ("histograms", described::<Histograms>()),
            ("recompute", described::<recompute::Document>()),
            ("check", described::<check::Checked>()),
            ("diff", described::<Diff>()),
            ("flamegraph", described::<flamegraph::Drawn>()),
            ("recover", described::<recover::Closed>()),
            ("top", described::<Figures>()),
            ("doctor", described::<Vec<doctor::Check>>()),
            ("fit", described::<fitted::Fitted>()),
            ("predict", described::<Prediction>()),
            ("bound", described::<Bounded>()),
            ("recommend", described::<recommend::Found>()),
            ("plan", described::<plan::Found>()),
            ("place", described::<Plan>()),
            ("compare", described::<place::compare::Comparison>()),
        ];
        for (name, described) in schemas {
            let path = format!("{FOLDER}/{name}.schema.json");
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &described).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == described, "{path} is out of date: see this file's first lines");
        }
    }
}
