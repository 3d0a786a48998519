//! What a law consists of: its key, its variables and arrays, its body and its proof.

use std::collections::BTreeMap;

use memtrace_trace::rows::ArrayInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::law::{Form, Sequence, Size};
use crate::shape::Point;
use crate::stats::regression::Regression;

/// Fewest runs whose errors a bound can be calibrated on.
pub const MIN_CALIBRATION: usize = 19;

/// What a law is about: a different value of any of these may have another law (docs/models.md,
/// "Which law answers").
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// `module:function`, or what the program called it.
    pub operator: String,
    /// Scalar parameters.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// NumPy dtypes of the array inputs in order, byte order included: `<f4`, `<f4,<f8`.
    pub dtype: String,
    /// Memory layouts of the array inputs in order: `C`, `F`, `strided`.
    #[serde(default)]
    pub layout: String,
    /// Versions of the libraries that ran it.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Devices of the array inputs in order, where they are not the host's memory: `cuda`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Threads that numerical libraries were set to, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
}

/// One dimension the law is a function of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// `n0`, `n1`, … for the axes of the first array; `m1_0`: axis 0 of array input 1.
    pub name: String,
    /// Smallest length trained on.
    pub min: u64,
    /// Largest length trained on.
    pub max: u64,
}

/// An array that goes in or comes out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ArrayLaw {
    /// Parameter name or position, where known.
    #[serde(default)]
    pub name: String,
    /// NumPy dtype.
    pub dtype: String,
    /// Bytes per element.
    pub item_bytes: u64,
    /// Length of each axis as a function of the variables.
    pub shape: Vec<Size>,
    /// Where it is, if not in the host's memory: `cuda`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
}

/// How the working peak follows from the shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The sequence of allocations, the same at every shape.
    Symbolic(Sequence),
    /// The runs did not align: a regression of the working peak itself.
    Regression(Regression),
}

/// What an upper bound rests on (docs/models.md has the rules).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A run it was not fitted on, far outside the training range, agreed within 0.1 %.
    Exact {
        /// Shape of that run.
        shape: Vec<u64>,
        /// |predicted − measured| / measured.
        error: f64,
    },
    /// Such a run stayed at or below the law, within 5 %; bounded blocks are at their largest.
    WorstCase {
        /// Shape of that run.
        shape: Vec<u64>,
        /// (predicted − measured) / measured.
        error: f64,
    },
    /// A regression: the bound is what cross validation over this many runs gave.
    Calibrated {
        /// Number of runs.
        runs: usize,
    },
    /// Nothing but the training runs.
    #[default]
    Unverified,
}

impl Proof {
    /// Of a bound on what `runs` runs needed: one of 95 % takes 19 of them.
    pub fn of_runs(runs: usize) -> Proof {
        match runs {
            runs if runs >= MIN_CALIBRATION => Proof::Calibrated { runs },
            _ => Proof::Unverified,
        }
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::Symbolic(Sequence::default())
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Proof::Exact { .. } => f.write_str("exact"),
            Proof::WorstCase { .. } => f.write_str("worst case"),
            Proof::Calibrated { runs } => write!(f, "calibrated {runs}"),
            Proof::Unverified => f.write_str("unverified"),
        }
    }
}

/// A run that was used, as evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingRun {
    /// One value per variable.
    pub shape: Vec<u64>,
    /// Working peak as recorded, bytes.
    pub working_peak_bytes: u64,
    /// Seconds from start to end of the span.
    pub seconds: f64,
}

/// Time of one call: `overhead + per_element · volume`, fitted to the fastest steady run of each
/// shape: what else the machine does only makes runs slower.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Seconds whatever the shape.
    pub overhead: f64,
    /// Seconds per unit of volume (the product of the variables).
    pub per_element: f64,
    /// Nine of ten runs differed from that by no more than this part of it.
    #[serde(default)]
    pub recorded_spread: f64,
}

/// Times of programs differ by this much with what else the machine does, however close those of a
/// few runs were to each other …
const LEAST_SPREAD: f64 = 0.3;
/// … and runs of less than a millisecond by any factor, which says nothing of long ones.
const MOST_SPREAD: f64 = 2.0;

impl Seconds {
    /// At a volume.
    pub fn at(&self, volume: f64) -> f64 {
        self.overhead + self.per_element * volume
    }

    /// How far a call may differ from that, as a part of it.
    pub fn spread(&self) -> f64 {
        self.recorded_spread.clamp(LEAST_SPREAD, MOST_SPREAD)
    }
}

impl Variable {
    /// The value of a variable where a call is given arrays of these shapes: `n1` is axis 1 of the
    /// first array with axes, `m2_0` axis 0 of input 2. `None` if there is no such axis.
    pub fn value_in(&self, shapes: &[&[u64]]) -> Option<u64> {
        let (input, axis) = match self.name.strip_prefix('n') {
            Some(axis) => (shapes.iter().position(|shape| !shape.is_empty())?, axis),
            None => {
                let (input, axis) = self.name.strip_prefix('m')?.split_once('_')?;
                (input.parse().ok()?, axis)
            }
        };
        shapes.get(input)?.get(axis.parse::<usize>().ok()?).copied()
    }
}

impl ArrayLaw {
    /// Length of each axis at a point.
    pub fn shape_at(&self, point: &Point) -> Option<Vec<u64>> {
        self.shape.iter().map(|axis| u64::try_from(axis.at(point)?).ok()).collect()
    }

    /// Its bytes in words: `4·n0·n1·n2`.
    pub fn words(&self, names: &[String]) -> String {
        let axis = |size: &Size| match size {
            Size::Exact { form, .. } if *form == Form { coefficient: 1, constant: 0, ..form.clone() } => {
                form.words(1, names).trim_start_matches("1·").to_owned()
            }
            size => format!("({})", size.words(1, names)),
        };
        let axes = self.shape.iter().map(axis);
        [self.item_bytes.to_string()].into_iter().chain(axes).collect::<Vec<_>>().join("·")
    }

    /// Bytes of its elements at a point.
    pub fn bytes(&self, point: &Point) -> Option<u128> {
        self.product(|axis| axis.at(point))
    }

    /// The same with every axis at its upper bound.
    pub fn upper_bytes(&self, point: &Point) -> Option<u128> {
        self.product(|axis| axis.upper(point))
    }

    fn product(&self, length: impl Fn(&Size) -> Option<u128>) -> Option<u128> {
        let mut axes = self.shape.iter().map(length);
        axes.try_fold(u128::from(self.item_bytes), |product, axis| product.checked_mul(axis?))
    }
}

impl Key {
    /// True if `name` is the operator's, or the last part of it.
    pub fn is_of(&self, name: &str) -> bool {
        let known = self.operator.as_str();
        known == name || known.rsplit([':', '.']).next() == Some(name)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.operator, self.dtype, self.layout)?;
        let params = self.params.iter().map(|(name, value)| format!(" {name}={value}"));
        let versions = self.versions.iter().map(|(name, version)| format!(" {name} {version}"));
        let device = Some(&self.device).filter(|device| !device.is_empty());
        let device = device.map(|device| format!(" on {device}"));
        let threads = self.threads.map(|threads| format!(" threads {threads}"));
        params.chain(versions).chain(device).chain(threads).try_for_each(|part| f.write_str(&part))
    }
}

/// Devices of the arrays; nothing where all are in the host's memory.
pub(crate) fn devices(arrays: &[ArrayInfo]) -> String {
    let named: Vec<&str> = arrays.iter().map(|array| array.device.as_str()).collect();
    if named.iter().all(|device| device.is_empty()) { String::new() } else { named.join(",") }
}

/// The values of a law's variables in one call, from its array inputs; `None` if those are others.
pub fn point(variables: &[Variable], inputs: &[ArrayInfo]) -> Option<Vec<u64>> {
    let shapes: Vec<&[u64]> = inputs.iter().map(|input| input.shape.as_slice()).collect();
    variables.iter().map(|variable| variable.value_in(&shapes)).collect()
}
