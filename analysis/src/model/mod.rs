//! Laws in a model: kept in files, queried, evaluated at a shape, merged.

pub(crate) mod confidence;
mod curve;
mod evaluate;
pub mod file;
mod law;
mod learned;
mod merge;
mod parts;
pub mod predict;
mod query;
mod resident;
mod task_bytes;
mod unproven;
mod worst_case;

use serde::{Deserialize, Serialize};

pub use curve::Curve;
pub use law::{DeviceLaw, Law, Learned, Resident};
pub(crate) use parts::devices;
pub use parts::{ArrayLaw, Body, Key, MIN_CALIBRATION, Proof, Seconds, TrainingRun, Variable, point};
pub use predict::{Prediction, predict};
pub use query::Query;
pub use task_bytes::{DeviceBytes, TaskBytes};
pub use worst_case::WorstCase;

use crate::profile::provenance::Source;

/// Version of the JSON this program writes, and the only one it reads.
pub const SCHEMA_VERSION: u32 = 3;

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

impl Default for Model {
    fn default() -> Model {
        Model { schema_version: SCHEMA_VERSION, laws: Vec::new(), sources: Vec::new(), notes: Vec::new() }
    }
}
