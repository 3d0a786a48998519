//! A model in figures: what `fit`, `merge` and `sweep` print with `--json`. The laws themselves are
//! in the model's file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use memtrace_analysis::{Law, Model};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::json;

/// A model that was written.
#[derive(Serialize, JsonSchema)]
pub struct Fitted {
    /// Its file.
    model: String,
    /// Its laws.
    laws: Vec<FittedLaw>,
    /// What a reader should know.
    notes: Vec<String>,
}

/// What a law is of, and what it rests on.
#[derive(Serialize, JsonSchema)]
struct FittedLaw {
    /// The operator.
    operator: String,
    /// Element types of its inputs.
    dtype: String,
    /// Parameters that the law is for.
    params: BTreeMap<String, Value>,
    /// What its upper bound rests on: `exact`, `worst case`, `calibrated N` or `unverified`.
    proof: String,
    /// What that of the memory of devices rests on; null if it uses none.
    device_proof: Option<String>,
    /// Shapes that it was fitted on.
    trained_on: Vec<Vec<u64>>,
    /// What the first call in a process leaves behind.
    one_time_bytes: u64,
    /// What a reader should know.
    notes: Vec<String>,
}

/// Writes a model and prints what it has.
pub fn save(model: &Model, output: &Path) -> Result<ExitCode> {
    model.save(output)?;
    json::print(&Fitted::new(model, output))?;
    Ok(ExitCode::SUCCESS)
}

impl Fitted {
    fn new(model: &Model, output: &Path) -> Fitted {
        let laws = model.laws.iter().map(FittedLaw::new).collect();
        Fitted { model: output.display().to_string(), laws, notes: model.notes.clone() }
    }
}

impl FittedLaw {
    fn new(law: &Law) -> FittedLaw {
        let mut trained_on: Vec<Vec<u64>> = law.trained_on.iter().map(|run| run.shape.clone()).collect();
        trained_on.dedup();
        FittedLaw {
            operator: law.key.operator.clone(),
            dtype: law.key.dtype.clone(),
            params: law.key.params.clone(),
            proof: law.proof.to_string(),
            device_proof: law.on_devices.as_ref().map(|there| there.law.proof.to_string()),
            trained_on,
            one_time_bytes: law.one_time.bytes,
            notes: law.notes.clone(),
        }
    }
}
