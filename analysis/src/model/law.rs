//! A law as it is kept: from shapes to bytes, with its bound, its evidence and its range.

use memtrace_trace::rows::ArrayInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parts::{ArrayLaw, Body, Key, Proof, Seconds, TrainingRun, Variable, devices};
use super::worst_case::WorstCase;
use crate::law::Size;
use crate::profile::measured::{Baseline, OneTime};
use crate::shape::Point;
use crate::stats::posterior::Evidence;
use crate::stats::regression::Regression;

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
    /// How far its bound is short of what its own runs needed: [`Law::shortfall`].
    #[serde(default)]
    pub short: f64,
    /// Whether runs of one shape differed with what was in the arrays; `None` if no shape was run
    /// twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dependent: Option<bool>,
    /// What the worst data values that were run need: the upper bound, if it depends on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<WorstCase>,
    /// One-time allocations of a process, which the law leaves out.
    #[serde(default)]
    pub one_time: OneTime,
    /// How they grow with the shape of a process's first call; `None` if they do not, or if fewer than
    /// three shapes came first in a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_time_growth: Option<Regression>,
    /// Memory of the recorded processes before.
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
    /// All of its runs were a part of another operator's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// What a reader should know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A law of memory of devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceLaw {
    /// Of the same calls; the bytes in it are those of devices.
    pub law: Law,
    /// Used bytes of the recorded processes there when the operator was called, its inputs left
    /// out, at most: weights, an optimizer's state, what a first call made.
    #[serde(default)]
    pub before_bytes: u64,
    /// Driver bytes for each used byte when driver bytes peaked, the most of the larger processes
    /// that ran it: pools keep more than they allocate from, as long as there is room. 1 without
    /// any.
    pub reserved: f64,
}

/// What turns a law's live bytes into resident ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Resident {
    /// Settings of the allocator in the environment of the recorded processes; empty: none.
    pub settings: String,
    /// Resident in addition to the inputs and the operator's blocks, bytes: median over the shapes.
    pub base_bytes: u64,
    /// The largest of them.
    pub base_upper_bytes: u64,
    /// Share of the operator's memory that is ever written to.
    pub touched: f64,
    /// Worst relative error among the recorded peaks.
    pub error: f64,
    /// Shapes it rests on.
    pub shapes: usize,
    /// True if the kernel reported the peaks to the page; false if they were sampled, and may have
    /// been missed.
    pub exact: bool,
}

/// Observations of a law's operator since the fit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Learned {
    /// Of bytes.
    pub bytes: Evidence,
    /// Of seconds.
    #[serde(default)]
    pub seconds: Evidence,
    /// Largest volume observed.
    #[serde(default)]
    pub largest_volume: f64,
}

impl Law {
    /// The most one-time bytes of a process whose first call has this shape.
    pub fn one_time_bytes(&self, shape: &Point) -> u64 {
        let Some(growth) = &self.one_time_growth else { return self.one_time.bytes };
        let grown = growth.upper(shape).and_then(|bytes| u64::try_from(bytes).ok());
        grown.unwrap_or(u64::MAX).max(self.one_time.bytes)
    }

    /// The same with what is never touched of them.
    pub fn one_time_allocated_bytes(&self, shape: &Point) -> u64 {
        self.one_time_bytes(shape).max(self.one_time.allocated_bytes)
    }

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

    /// Array inputs on devices, or those in the host's memory.
    pub(crate) fn inputs_at(&self, device: bool) -> impl Iterator<Item = &ArrayLaw> {
        self.inputs.iter().filter(move |input| input.device.is_empty() != device)
    }

    /// True if a library called a function of its own: what the user called is another operator.
    pub fn is_internal(&self) -> bool {
        let package = self.key.operator.split([':', '.']).next().unwrap_or_default();
        self.inside && self.key.versions.contains_key(package)
    }

    /// True for a call that it would have been fitted to: inputs of its types, layouts, axes and
    /// devices, its parameters, and numerical libraries that were set to its threads.
    pub fn is_of(&self, inputs: &[ArrayInfo], params: &Map<String, Value>, threads: Option<u64>) -> bool {
        let joined = |of: fn(&ArrayInfo) -> &str| inputs.iter().map(of).collect::<Vec<_>>().join(",");
        let axes = self.inputs.iter().map(|input| input.shape.len());
        joined(|array| &array.dtype) == self.key.dtype
            && joined(|array| &array.layout) == self.key.layout
            && devices(inputs) == self.key.device
            && threads == self.key.threads
            && axes.eq(inputs.iter().map(|input| input.shape.len()))
            && self.key.params.iter().all(|(name, value)| params.get(name) == Some(value))
    }

    /// True if the array that goes in first, which plans cut into chunks, is on a device.
    pub fn is_on_device(&self) -> bool {
        self.inputs.first().is_some_and(|input| !input.device.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_another_device_or_of_other_axes_or_threads_is_of_another_law() {
        let array = |device: &str, axes| ArrayInfo {
            dtype: "<f4".into(),
            device: device.into(),
            shape: vec![9; axes],
            ..ArrayInfo::default()
        };
        let key = Key { dtype: "<f4".into(), threads: Some(4), ..Key::default() };
        let input = ArrayLaw { shape: vec![Size::Bounded { bytes: 9 }; 2], ..ArrayLaw::default() };
        let law = Law { key, inputs: vec![input], ..Law::default() };
        let is_of = |array, threads| law.is_of(&[array], &Map::new(), threads);
        assert!(is_of(array("", 2), Some(4)));
        assert!(!is_of(array("", 3), Some(4)));
        assert!(!is_of(array("cuda", 2), Some(4)));
        assert!(!is_of(array("", 2), None));
    }
}
