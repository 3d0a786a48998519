//! Predictions: a law at one shape, with what the answer rests on.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::law::{Form, Sequence, Size};
use crate::model::Resident;
use crate::model::confidence::{confidence, reason};
use crate::model::{ArrayLaw, Body, DeviceBytes, Key, Law, Proof, TrainingRun, Variable};
use crate::profile::measured::{Baseline, OneTime};
use crate::shape::Point;

/// Probabilities whose quantiles a law that has learned gives.
const QUANTILES: [f64; 5] = [0.05, 0.5, 0.95, 0.99, 0.999];

/// What `predict --json` prints. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// The operator.
    pub operator: String,
    /// The shape, one length per variable.
    pub shape: Vec<u64>,
    /// Working peak: the largest sum of what the operator allocates and has not released; its
    /// inputs are not in it.
    pub peak_bytes: u64,
    /// The same at its upper bound.
    pub upper_bytes: u64,
    /// What the bound rests on at this shape: `exact`, `worst case`, `calibrated N` or
    /// `unverified`.
    pub confidence: String,
    /// Why it is `unverified`, as the rest of a sentence; null if it is not.
    pub unverified_because: Option<String>,
    /// Array inputs in the host's memory.
    pub input_bytes: u64,
    /// `peak_bytes + input_bytes`.
    pub total_bytes: u64,
    /// Shape of the first output; empty if nothing (or a scalar) comes out.
    pub output_shape: Vec<u64>,
    /// Dtype of the first output; null if nothing (or a scalar) comes out.
    pub output_dtype: Option<String>,
    /// All outputs.
    pub output_bytes: u64,
    /// Whether runs of one shape differed with what was in the arrays; `None` if no shape was run
    /// twice. If so, `peak_bytes` is a typical need and `upper_bytes` that of the worst data values
    /// that were run.
    pub data_dependent: Option<bool>,
    /// True if a length is outside the range of the training runs.
    pub extrapolated: bool,
    /// Seconds of one call on the machine that was recorded.
    pub seconds: f64,
    /// One-time allocations of a process, in addition to the peak.
    pub one_time_bytes: u64,
    /// The same with what is never touched of them: the working peak of a first call has it.
    pub one_time_allocated_bytes: u64,
    /// Resident peak of a process that runs it, inputs, baseline and one-time bytes included;
    /// `None` where no resident peaks were recorded.
    pub resident_bytes: Option<u64>,
    /// The same at its upper bound.
    pub resident_upper_bytes: Option<u64>,
    /// Memory of the recorded processes before the operator ran.
    pub baseline: Option<Baseline>,
    /// What it needs of devices; null if it uses none.
    pub device: Option<OnDevices>,
    /// Why that is null though the recorded runs used one.
    pub device_unknown: Option<String>,
    /// What observations since the fit say; null without any, and for an exact law.
    pub learned: Option<Expectation>,
    /// Where it comes from.
    pub model: Explanation,
}

/// The same of the memory of devices.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OnDevices {
    /// Working peak there: largest sum of the blocks that the operator has allocated on devices and
    /// not released.
    pub peak_bytes: u64,
    /// The same at its upper bound.
    pub upper_bytes: u64,
    /// What the bound rests on at this shape.
    pub confidence: String,
    /// Array inputs that are there.
    pub input_bytes: u64,
    /// `peak_bytes + input_bytes`.
    pub total_bytes: u64,
    /// What the recorded processes used there when the operator was called, its inputs left out.
    pub before_bytes: u64,
    /// The most that the driver reserves for all of this: bounds, and what pools keep beyond what
    /// is used.
    pub reserved_bytes: u64,
    /// Where it comes from.
    pub model: Explanation,
}

/// What a law says by its posterior.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Expectation {
    /// How many observations there were.
    pub observations: u64,
    /// (probability, bytes that the working peak stays at or below with that probability).
    pub quantiles: Vec<(f64, u64)>,
    /// What the law says without them.
    pub fitted_bytes: u64,
}

/// The part of a prediction that explains it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// `symbolic` or `regression`.
    pub kind: &'static str,
    /// The law's proof, whatever the shape.
    pub proof: String,
    /// The evidence behind it.
    pub evidence: Proof,
    /// The law's key.
    pub key: Key,
    /// What it is a function of, with the lengths of the runs it was fitted on.
    pub variables: Vec<Variable>,
    /// What is live at the peak in addition to the inputs, in words, largest first.
    pub terms: Vec<Term>,
    /// Bytes of each input, in words.
    pub inputs: Vec<String>,
    /// Which step of the sequence sets the peak (from 0), and of how many; null for a regression.
    pub step: Option<usize>,
    /// Where that is: `gst3d gst3d.py:58 (eigh _linalg.py:1594)`; null where it is not known.
    pub set_at: Option<String>,
    /// Number of steps.
    pub steps: Option<usize>,
    /// Blocks below the sequence's threshold, included in the peak.
    pub residual_bytes: u64,
    /// Sizes the training shapes leave more than one form for.
    pub undetermined: usize,
    /// The one-time blocks.
    pub one_time: OneTime,
    /// How live bytes become resident ones.
    pub resident: Option<Resident>,
    /// The runs it was fitted on.
    pub trained_on: Vec<TrainingRun>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// One summand of a peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Term {
    /// As a function of the variables.
    pub words: String,
    /// Its value.
    pub bytes: u64,
}

/// Predicts the bytes of one call at a shape: one length per variable of the law, which for a
/// single array are its axes.
///
/// # Errors
/// [`Error::Shape`]: another number of dimensions, an empty shape, or one whose bytes do not fit.
pub fn predict(law: &Law, shape: &Point) -> Result<Prediction, Error> {
    let bytes = law.bytes(shape)?;
    let outside = |(variable, &n): (&Variable, &u64)| n < variable.min || n > variable.max;
    let first_output = law.outputs.first().and_then(|output| ArrayLaw::shape_at(output, shape));
    Ok(Prediction {
        operator: law.key.operator.clone(),
        shape: shape.to_vec(),
        peak_bytes: bytes.working,
        upper_bytes: bytes.working_upper,
        confidence: confidence(law, shape).to_string(),
        unverified_because: reason(law, shape),
        input_bytes: bytes.input,
        total_bytes: bytes.working.saturating_add(bytes.input),
        output_shape: first_output.unwrap_or_default(),
        output_dtype: law.outputs.first().map(|output| output.dtype.clone()),
        output_bytes: bytes.output,
        data_dependent: law.data_dependent,
        extrapolated: law.variables.iter().zip(shape).any(outside),
        seconds: bytes.seconds,
        one_time_bytes: law.one_time_bytes(shape),
        one_time_allocated_bytes: law.one_time_allocated_bytes(shape),
        resident_bytes: law.resident.as_ref().and_then(|resident| resident.at(law, shape)),
        resident_upper_bytes: law.resident.as_ref().and_then(|resident| resident.upper(law, shape)),
        baseline: law.baseline.clone(),
        device: on_devices(law, shape, bytes.device),
        device_unknown: law.devices_unknown.clone(),
        learned: expectation(law, shape)?,
        model: explanation(law, shape),
    })
}

fn on_devices(law: &Law, shape: &Point, bytes: DeviceBytes) -> Option<OnDevices> {
    let law = &law.on_devices.as_ref()?.law;
    Some(OnDevices {
        peak_bytes: bytes.working,
        upper_bytes: bytes.working_upper,
        confidence: confidence(law, shape).to_string(),
        input_bytes: bytes.input,
        total_bytes: bytes.working.saturating_add(bytes.input),
        before_bytes: bytes.before,
        reserved_bytes: bytes.reserved(bytes.before.saturating_add(bytes.upper())),
        model: explanation(law, shape),
    })
}

fn expectation(law: &Law, shape: &Point) -> Result<Option<Expectation>, Error> {
    let learned = law.learned.as_ref().filter(|_| !matches!(law.proof, Proof::Exact { .. }));
    let fitted_bytes = law.plain_bytes(shape)?.working;
    let quantiles = |(_, quantiles): (f64, Vec<f64>)| {
        QUANTILES.into_iter().zip(quantiles).map(|(p, bytes)| (p, bytes.ceil() as u64)).collect()
    };
    Ok(learned.and_then(|learned| {
        let at = learned.bytes_at(law, shape, fitted_bytes as f64, &QUANTILES)?;
        Some(Expectation { observations: learned.bytes.count, quantiles: quantiles(at), fitted_bytes })
    }))
}

fn explanation(law: &Law, shape: &Point) -> Explanation {
    let residual = law.residual.at(shape).map_or(u64::MAX, clamped);
    let mut set_at = None;
    let (kind, terms, step, steps, undetermined) = match &law.body {
        Body::Regression(regression) => {
            let words = regression.words(&law.names());
            let bytes = regression.at(shape).map_or(u64::MAX, clamped);
            ("regression", vec![Term { words, bytes }], None, None, 0)
        }
        Body::Symbolic(sequence) => {
            let peak = sequence.peak(shape);
            let step = peak.as_ref().map(|peak| peak.step);
            set_at = step.and_then(|step| sequence.place(step)).map(str::to_owned);
            let terms = terms(law, sequence, &peak.map(|peak| peak.live).unwrap_or_default(), shape);
            let undetermined = sequence.sizes.iter().filter(|size| size.is_undetermined()).count();
            ("symbolic", terms, step, Some(sequence.steps.len()), undetermined)
        }
    };
    Explanation {
        kind,
        proof: law.proof.to_string(),
        evidence: law.proof.clone(),
        key: law.key.clone(),
        variables: law.variables.clone(),
        terms,
        inputs: law.inputs.iter().map(|input| input.words(&law.names())).collect(),
        step,
        set_at,
        steps,
        residual_bytes: residual,
        undetermined,
        one_time: law.one_time.clone(),
        resident: law.resident.clone(),
        trained_on: law.trained_on.clone(),
        notes: law.notes.clone(),
    }
}

/// The live set at the peak: equal products added up, largest first.
fn terms(law: &Law, sequence: &Sequence, live: &[(usize, u64)], shape: &Point) -> Vec<Term> {
    let names = law.names();
    let mut products: Vec<(Form, u128)> = Vec::new();
    let mut terms: Vec<Term> = Vec::new();
    for &(index, count) in live {
        let size = &sequence.sizes[index];
        match size {
            Size::Exact { form, .. } if form.constant == 0 => {
                let coefficient = u128::from(form.coefficient) * u128::from(count);
                match products.iter_mut().find(|(known, _)| known.factors == form.factors) {
                    Some((_, sum)) => *sum += coefficient,
                    None => products.push((form.clone(), coefficient)),
                }
            }
            _ => {
                let bytes = size
                    .at(shape)
                    .and_then(|bytes| bytes.checked_mul(count.into()))
                    .map_or(u64::MAX, clamped);
                terms.push(Term { words: size.words(count, &names), bytes });
            }
        }
    }
    terms.extend(products.into_iter().map(|(form, coefficient)| {
        let unit = Form { coefficient: 1, ..form.clone() }.at(shape);
        let bytes = unit.and_then(|unit| unit.checked_mul(coefficient)).map_or(u64::MAX, clamped);
        Term { words: form.words(coefficient, &names), bytes }
    }));
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    terms
}

fn clamped(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Prediction {
    /// `4·n0·n1·n2 + 228·(n0−2)·(n1−2)·(n2−2)`, the live set at the peak as one formula.
    pub fn formula(&self) -> String {
        self.model.terms.iter().map(|term| term.words.as_str()).collect::<Vec<_>>().join(" + ")
    }
}
