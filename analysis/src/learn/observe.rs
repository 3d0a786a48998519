//! Observations: what a finished span says about the law of its operator.

use std::collections::BTreeMap;

use memtrace_trace::rows::ArrayInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::model::Learned;
use crate::model::confidence::confidence;
use crate::model::{self, Law, Model, Proof};
use crate::shape::Point;
use crate::shape::joined;

/// An exact law agrees within this part of what was measured …
const EXACT: f64 = 0.001;
/// … or within the 4 KiB below which no block is part of a law.
const EXACT_BYTES: f64 = 4096.0;
/// Times beyond thirty years are no measurements; their squares would not be numbers.
const LONGEST_SECONDS: f64 = 1e9;

/// A finished span, as `report --json` gives it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Its array inputs.
    pub inputs: Vec<ArrayInfo>,
    /// Scalar parameters, and `versions`.
    pub params: BTreeMap<String, Value>,
    /// Which call of its operator in its process it was, from 0.
    pub call: u32,
    /// Peak of what it allocated and had not yet released.
    pub working_peak_bytes: u64,
    /// From start to end.
    pub seconds: Option<f64>,
}

/// What became of an observation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    /// What was predicted before, bytes.
    pub predicted_bytes: u64,
    /// What was measured, bytes.
    pub working_peak_bytes: u64,
    /// What is predicted now, bytes.
    pub expected_bytes: u64,
    /// The law's proof now.
    pub proof: String,
    /// Why it was not taken in, or what it changed, in a sentence.
    pub note: Option<String>,
}

impl Model {
    /// Takes in a finished span of `operator`: its bytes and, if they are known, its seconds.
    ///
    /// A first call in its process is left out, as it is when a law is fitted. Source of the
    /// formulas: [`crate::stats::posterior`].
    ///
    /// # Errors
    /// No law for the span's operator, dtypes, layouts, parameters and versions.
    pub fn observe(&mut self, operator: &str, span: &Observation) -> Result<Observed, Error> {
        let law = self.law_of_span(operator, span)?;
        let shape = point(law, &span.inputs).ok_or_else(|| {
            let names = law.names().join(", ");
            Error::Shape(format!("the law for {operator} is one of {names}: the span has no such dimensions"))
        })?;
        if span.call == 0 && !law.is_of_first_calls() {
            let predicted = law.bytes(&shape)?.working;
            let note = "a first call in its process also makes one-time allocations: it was left out";
            return Ok(Observed {
                predicted_bytes: predicted,
                working_peak_bytes: span.working_peak_bytes,
                expected_bytes: predicted,
                proof: law.proof.to_string(),
                note: Some(note.to_owned()),
            });
        }
        law.observe(&shape, span.working_peak_bytes, span.seconds)
    }

    /// [`Model::select`], to be changed.
    ///
    /// # Errors
    /// As [`Model::select`].
    pub fn select_mut(
        &mut self,
        operator: &str,
        dtype: Option<&str>,
        params: &BTreeMap<String, Value>,
    ) -> Result<&mut Law, Error> {
        let chosen: *const Law = self.select(operator, dtype, params)?;
        let missing = || Error::NoLaw(format!("the model has no law for {operator}"));
        self.laws.iter_mut().find(|law| std::ptr::eq(*law, chosen)).ok_or_else(missing)
    }

    /// The law that a span's runs would be fitted into.
    fn law_of_span(&mut self, operator: &str, span: &Observation) -> Result<&mut Law, Error> {
        let (dtype, wanted) = self.wanted(operator, span);
        self.select_mut(operator, Some(&dtype), &wanted)
    }

    /// The law that says most about a span, and the values of its variables: that of its dtypes,
    /// layouts, parameters and versions, else any of its operator that takes as many dimensions.
    pub fn nearest(&self, operator: &str, span: &Observation) -> Option<(&Law, Vec<u64>)> {
        let (dtype, wanted) = self.wanted(operator, span);
        let own = self.select(operator, Some(&dtype), &wanted).ok();
        let others = self.laws.iter().filter(|law| law.key.is_of(operator));
        own.into_iter().chain(others).find_map(|law| Some((law, point(law, &span.inputs)?)))
    }

    /// The dtypes of a span's inputs, and what [`Model::select`] is to look for in addition.
    fn wanted(&self, operator: &str, span: &Observation) -> (String, BTreeMap<String, Value>) {
        let joined = |of: fn(&ArrayInfo) -> &str| span.inputs.iter().map(of).collect::<Vec<_>>().join(",");
        let (dtype, layout) = (joined(|array| &array.dtype), joined(|array| &array.layout));
        let mut wanted = BTreeMap::from([("layout".to_owned(), Value::from(layout))]);
        let known = self.laws.iter().filter(|law| law.key.is_of(operator));
        let versions = span.params.get("versions");
        for name in known.flat_map(|law| law.key.params.keys().chain(law.key.versions.keys())) {
            let version = || versions.and_then(|versions| versions.get(name));
            let value = span.params.get(name).or_else(version);
            wanted.extend(value.map(|value| (name.clone(), value.clone())));
        }
        (dtype, wanted)
    }
}

impl Law {
    /// True if it was fitted on first calls, as no process called the operator twice.
    fn is_of_first_calls(&self) -> bool {
        self.notes.iter().any(|note| note.contains("first calls"))
    }

    /// Takes in a steady call at a shape: `bytes` is its working peak.
    ///
    /// An exact law stays as it is while it agrees within 0.1 %; one that is contradicted is no
    /// longer called exact, and learns from then on.
    ///
    /// # Errors
    /// A shape the law has no value for.
    pub fn observe(&mut self, shape: &Point, bytes: u64, seconds: Option<f64>) -> Result<Observed, Error> {
        let predicted = self.bytes(shape)?.working;
        let measured = bytes as f64;
        let departs = (predicted as f64 - measured).abs();
        let mut note = None;
        let claimed = matches!(confidence(self, shape), Proof::Exact { .. });
        if claimed && departs > (EXACT * measured).max(EXACT_BYTES) {
            self.proof = Proof::Unverified;
            let text = format!(
                "a run at {} needed {bytes} bytes where the law said {predicted}: it is no longer exact",
                joined(shape)
            );
            self.notes.push(text.clone());
            note = Some(text);
        }
        let mut learned = self.learned.take().unwrap_or_default();
        if !matches!(self.proof, Proof::Exact { .. }) {
            let plain = self.plain_bytes(shape)?.working as f64;
            learned.add_bytes(self, shape, plain, measured);
        }
        if let Some(seconds) = seconds.filter(|seconds| (0.0..=LONGEST_SECONDS).contains(seconds)) {
            learned.add_seconds(self, shape, seconds);
        }
        self.learned = Some(learned).filter(|learned| *learned != Learned::default());
        Ok(Observed {
            predicted_bytes: predicted,
            working_peak_bytes: bytes,
            expected_bytes: self.bytes(shape)?.working,
            proof: self.proof.to_string(),
            note,
        })
    }
}

/// The values of a law's variables for a span's inputs; `None` where they have no such dimensions,
/// or its first array with axes has others.
pub fn point(law: &Law, inputs: &[ArrayInfo]) -> Option<Vec<u64>> {
    let lead = inputs.iter().find(|array| !array.shape.is_empty())?;
    let axes = law.variables.iter().filter(|variable| variable.name.starts_with('n')).count();
    model::point(&law.variables, inputs).filter(|_| axes == lead.shape.len())
}
