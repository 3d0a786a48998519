//! The model: laws keyed by everything that changes them, and what was measured beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contents::Worst;
use crate::error::Error;
use crate::law::{Form, Point, Regression, Resident, Sequence, Size};
use crate::online::Learned;
use crate::provenance::Source;

/// Version of the JSON this program writes; later ones are refused.
pub const SCHEMA_VERSION: u32 = 2;

/// Fewest runs whose errors a bound can be calibrated on.
pub const MIN_CALIBRATION: usize = 19;

/// Laws of the operators found in a set of traces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// One law per operator and [`Key`].
    pub laws: Vec<Law>,
    /// What was left out of the fit, and why, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The traces it was fitted to.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// What a law is about: a different value of any of these may have another law (DESIGN §8).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Threads that numerical libraries were told to use, where they were told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
}

/// One dimension the law is a function of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// What an upper bound rests on (DESIGN §8).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Of a bound on what so many runs needed: one of 95 % takes 19 of them (DESIGN §8).
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingRun {
    /// One value per variable.
    pub shape: Vec<u64>,
    /// Working peak as recorded, bytes.
    pub working_peak_bytes: u64,
    /// Seconds from start to end of the span.
    pub seconds: f64,
}

/// Blocks a process holds once, however often the operator runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Once {
    /// Their sum; the largest over the processes.
    pub bytes: u64,
    /// The biggest of them.
    #[serde(default)]
    pub blocks: Vec<OnceBlock>,
}

/// One such block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceBlock {
    /// The call that made it: `malloc`, `map_anonymous`, …
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
}

/// What the process held just before the operator first ran; the largest over the processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Heap bytes.
    pub heap_bytes: u64,
    /// Resident bytes, where they were sampled.
    pub resident_bytes: Option<u64>,
}

/// Time of one call: `overhead + per_element · volume`, fitted to the steady runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Seconds whatever the shape.
    pub overhead: f64,
    /// Seconds per unit of volume (the product of the variables).
    pub per_element: f64,
}

/// A law: shape → bytes, with its bound, its evidence and its range.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Law {
    /// What it is about.
    pub key: Key,
    /// What it is a function of, in the order a shape gives them.
    pub variables: Vec<Variable>,
    /// Array inputs.
    pub inputs: Vec<ArrayLaw>,
    /// Array outputs.
    pub outputs: Vec<ArrayLaw>,
    /// How the working peak follows.
    pub body: Body,
    /// Bytes of the blocks below the sequence's threshold; added to the peak.
    pub residual: Size,
    /// What the bound rests on.
    pub proof: Proof,
    /// The runs it was fitted on.
    pub trained_on: Vec<TrainingRun>,
    /// Largest relative difference between working peaks of runs of one shape.
    #[serde(default)]
    pub same_shape_spread: f64,
    /// Whether runs of one shape differed with what was in the arrays; `None` if no shape was run twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dependent: Option<bool>,
    /// What the worst contents that were run need: the upper bound, if it depends on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// Kept apart from the law, once per process.
    #[serde(default)]
    pub once: Once,
    /// What the recorded processes held before.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// What of it becomes resident, where resident peaks were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Resident>,
    /// What it allocates on devices, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_devices: Option<Box<DeviceLaw>>,
    /// Why there is no such law, though recorded runs used a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_unknown: Option<String>,
    /// Time.
    #[serde(default)]
    pub seconds: Seconds,
    /// What was observed since the fit, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// What library functions it goes through choose by the lengths: beyond the lengths it was
    /// verified at, such a law is unverified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// What a reader should know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A law of memory of devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceLaw {
    /// Of the same calls; the bytes in it are those of devices.
    pub law: Law,
    /// Used bytes that the recorded processes held there when the operator was called, its inputs left out, at most: weights, an
    /// optimizer's state, what a first call made.
    #[serde(default)]
    pub before_bytes: u64,
    /// Driver bytes for each used byte when driver bytes peaked, the most of the larger processes that ran it: pools keep more
    /// than they hand out, as long as there is room. 1 without any.
    pub reserved: f64,
}

/// What a planner asks of a law, cheap enough to be asked thousands of times.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TaskBytes {
    /// Working peak, inputs not included.
    pub working: u64,
    /// The same at its upper bound.
    pub working_upper: u64,
    /// Inputs in the host's memory.
    pub input: u64,
    /// Outputs, wherever they are.
    pub output: u64,
    /// Seconds of one call.
    pub seconds: f64,
    /// What it needs of devices.
    pub device: DeviceBytes,
}

/// What a call needs of the memory of devices; nothing where it uses none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceBytes {
    /// Working peak there, inputs not included.
    pub working: u64,
    /// The same at its upper bound.
    pub working_upper: u64,
    /// Inputs that are there.
    pub input: u64,
    /// See [`DeviceLaw::before_bytes`].
    pub before: u64,
    /// See [`DeviceLaw::reserved`].
    pub reserved: f64,
}

impl DeviceBytes {
    /// The most that one call uses: its inputs and the upper bound of its peak.
    pub fn upper(self) -> u64 {
        self.working_upper.max(self.working).saturating_add(self.input)
    }

    /// What the driver sets aside for so many used bytes.
    pub fn reserved(self, used: u64) -> u64 {
        (used as f64 * self.reserved.max(1.0)).ceil() as u64
    }
}

impl Law {
    /// Names of the variables, for printing.
    pub fn names(&self) -> Vec<String> {
        self.variables.iter().map(|variable| variable.name.clone()).collect()
    }

    /// The shapes it rests on: those it was fitted on and the one that verified it.
    pub fn shapes(&self) -> impl Iterator<Item = &Point> {
        let verified = match &self.proof {
            Proof::Exact { shape, .. } | Proof::WorstCase { shape, .. } => Some(shape.as_slice()),
            Proof::Calibrated { .. } | Proof::Unverified => None,
        };
        self.trained_on.iter().map(|run| run.shape.as_slice()).chain(verified)
    }

    /// Bytes and seconds at a shape (one value per variable).
    ///
    /// # Errors
    /// A shape of another number of dimensions, an empty one, or one whose bytes do not fit.
    pub fn bytes(&self, shape: &Point) -> Result<TaskBytes, Error> {
        let plain = self.plain_bytes(shape)?;
        Ok(self.learned.as_ref().map_or(plain, |learned| learned.applied(self, shape, plain)))
    }

    /// The same by the law alone, without what was observed since it was fitted.
    ///
    /// # Errors
    /// As [`Law::bytes`].
    pub fn plain_bytes(&self, shape: &Point) -> Result<TaskBytes, Error> {
        self.check(shape)?;
        let too_large = || Error::Shape(format!("the shape {} is too large for any memory", joined(shape)));
        let fit = |bytes: Option<u128>| u64::try_from(bytes.ok_or_else(too_large)?).map_err(|_| too_large());
        let sum = |a: Option<u128>, b: Option<u128>| a?.checked_add(b?);
        let working = match &self.body {
            Body::Symbolic(sequence) => sum(sequence.peak_bytes(shape), self.residual.at(shape)),
            Body::Regression(regression) => regression.at(shape),
        };
        let upper = match &self.body {
            _ if self.worst.is_some() => self.worst.as_ref().and_then(|worst| worst.upper(shape)),
            Body::Symbolic(sequence) => sum(sequence.upper_bytes(shape), self.residual_upper(shape)),
            Body::Regression(regression) => regression.upper(shape),
        };
        let working = fit(working)?;
        Ok(TaskBytes {
            working,
            working_upper: fit(upper)?.max(working),
            input: fit(arrays_bytes(self.inputs_at(false), shape))?,
            output: fit(arrays_bytes(&self.outputs, shape))?,
            seconds: self.seconds.overhead + self.seconds.per_element * crate::law::volume(shape) as f64,
            device: DeviceBytes {
                input: fit(arrays_bytes(self.inputs_at(true), shape))?,
                ..self.device_bytes(shape)?
            },
        })
    }

    fn device_bytes(&self, shape: &Point) -> Result<DeviceBytes, Error> {
        let Some(there) = &self.on_devices else { return Ok(DeviceBytes::default()) };
        let TaskBytes { working, working_upper, .. } = there.law.plain_bytes(shape)?;
        let (before, reserved) = (there.before_bytes, there.reserved);
        Ok(DeviceBytes { working, working_upper, before, reserved, input: 0 })
    }

    /// Array inputs on devices, or those in the host's memory.
    pub(crate) fn inputs_at(&self, device: bool) -> impl Iterator<Item = &ArrayLaw> {
        self.inputs.iter().filter(move |input| input.device.is_empty() != device)
    }

    /// True if the array that goes in first, which plans cut into chunks, is on a device.
    pub fn is_on_device(&self) -> bool {
        self.inputs.first().is_some_and(|input| !input.device.is_empty())
    }

    /// The residual's bound. Blocks below the threshold are lines and tables: with shapes beyond
    /// the training range they are taken to grow as much as the most stretched axis.
    fn residual_upper(&self, shape: &Point) -> Option<u128> {
        let stretch = |(variable, &n): (&Variable, &u64)| n as f64 / variable.max.max(1) as f64;
        let growth = self.variables.iter().zip(shape).map(stretch).fold(1.0, f64::max);
        let bytes = self.residual.upper(shape)? as f64 * growth;
        (bytes < 2f64.powi(100)).then(|| bytes.ceil() as u128)
    }

    fn check(&self, shape: &Point) -> Result<(), Error> {
        if shape.len() != self.variables.len() {
            return Err(Error::Shape(format!(
                "{} takes {} dimensions ({}), the shape {} has {}",
                self.key.operator,
                self.variables.len(),
                self.names().join(", "),
                joined(shape),
                shape.len()
            )));
        }
        if shape.contains(&0) {
            return Err(Error::Shape(format!(
                "the shape {} is empty: give lengths of at least 1",
                joined(shape)
            )));
        }
        Ok(())
    }
}

fn arrays_bytes<'a>(arrays: impl IntoIterator<Item = &'a ArrayLaw>, shape: &Point) -> Option<u128> {
    arrays.into_iter().try_fold(0u128, |sum, array| sum.checked_add(array.bytes(shape)?))
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

/// `200×200×100`
pub fn joined(shape: &Point) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×")
}

impl Key {
    /// True if `name` is the operator's, or the last part of it.
    pub fn is_of(&self, name: &str) -> bool {
        let known = self.operator.as_str();
        known == name || known.rsplit([':', '.']).next() == Some(name)
    }
}

impl Default for Model {
    fn default() -> Model {
        Model { schema_version: SCHEMA_VERSION, laws: Vec::new(), sources: Vec::new(), notes: Vec::new() }
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
