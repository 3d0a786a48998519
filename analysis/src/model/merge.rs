//! Two models made one: a law of each key, the better proved one, and what both know together.

use crate::law::{Sequence, Size};
use crate::model::WorstCase;
use crate::model::file::CHANGED;
use crate::model::{Body, Law, Model, Proof, SCHEMA_VERSION, TrainingRun};
use crate::shape::volume;

/// Relative difference of two exact laws at a shape that either was trained on, above which one is
/// wrong.
const AGREE: f64 = 0.001;

/// What a merged model says of a file that was changed.
const CHANGED_PART: &str =
    "a model that was merged in had been changed after memtrace wrote it: its laws came in unverified";

impl Model {
    /// This model and another. Laws of one key become one; what was done is said in the notes.
    ///
    /// - One sequence of allocations in both: forms that only one still allows are dropped,
    ///   training runs are pooled, the better proof stays.
    /// - Else the better proved law stays; of two alike, that of more runs.
    /// - Two exact laws that differ: the one that also says what the other was trained on; if
    ///   neither does, both are unverified from then on, and that of more runs stays.
    pub fn merge(&self, other: &Model) -> Model {
        let mut merged = Model {
            schema_version: SCHEMA_VERSION,
            laws: self.laws.clone(),
            notes: Vec::new(),
            sources: self.sources.clone(),
        };
        for note in self.notes.iter().chain(&other.notes) {
            // The merged file is as memtrace writes it.
            let note = if note == CHANGED { CHANGED_PART } else { note };
            if !merged.notes.iter().any(|known| known == note) {
                merged.notes.push(note.to_owned());
            }
        }
        for source in &other.sources {
            if !merged.sources.iter().any(|known| known.sha256 == source.sha256) {
                merged.sources.push(source.clone());
            }
        }
        for law in &other.laws {
            let name = law.key.to_string();
            let alike = |known: &&mut Law| {
                known.key.to_string() == name && known.variables.len() == law.variables.len()
            };
            let note = match merged.laws.iter_mut().find(alike) {
                None => {
                    merged.laws.push(law.clone());
                    continue;
                }
                Some(known) if known == law => continue,
                Some(known) => unite(known, law),
            };
            merged.notes.push(format!("{name}: {note}"));
        }
        merged
    }
}

/// Makes `known` the law of both; says how.
fn unite(known: &mut Law, other: &Law) -> String {
    let first = known.clone();
    let note = choose(known, other);
    known.on_devices = match (first.on_devices.clone(), other.on_devices.clone()) {
        (Some(mut mine), Some(theirs)) => {
            unite(&mut mine.law, &theirs.law);
            mine.reserved = mine.reserved.max(theirs.reserved);
            mine.before_bytes = mine.before_bytes.max(theirs.before_bytes);
            Some(mine)
        }
        (mine, theirs) => mine.or(theirs),
    };
    known.devices_unknown = match known.on_devices {
        Some(_) => None,
        None => first.devices_unknown.clone().or_else(|| other.devices_unknown.clone()),
    };
    known.inside = first.inside && other.inside;
    join_data_values(known, &first);
    join_data_values(known, other);
    known.short = known.shortfall();
    note
}

fn choose(known: &mut Law, other: &Law) -> String {
    if pool(known, other) {
        return format!("{} runs of one law pooled, {}", known.trained_on.len(), known.proof);
    }
    let contradicted = (!predicts(known, other), !predicts(other, known));
    let exact = |law: &Law| matches!(law.proof, Proof::Exact { .. });
    if exact(known) && exact(other) && contradicted.0 && contradicted.1 {
        let more = known.trained_on.len() >= other.trained_on.len();
        let mut kept = if more { known.clone() } else { other.clone() };
        kept.proof = Proof::Unverified;
        let note = "two laws that were exact contradict each other: neither is, record it again";
        kept.notes.push(note.to_owned());
        *known = kept;
        return note.to_owned();
    }
    let worth = |law: &Law, contradicted: bool| (!contradicted, rank(&law.proof), law.trained_on.len());
    if worth(other, contradicted.1) > worth(known, contradicted.0) {
        *known = other.clone();
    }
    format!("the {} law of {} runs was kept", known.proof, known.trained_on.len())
}

fn rank(proof: &Proof) -> usize {
    match proof {
        Proof::Unverified => 0,
        Proof::Calibrated { runs } => *runs,
        Proof::WorstCase { .. } => usize::MAX - 1,
        Proof::Exact { .. } => usize::MAX,
    }
}

/// True if a law predicts what another was trained on.
fn predicts(law: &Law, other: &Law) -> bool {
    other.trained_on.iter().all(|run| {
        let measured = run.working_peak_bytes as f64;
        let predicted = law.bytes(&run.shape).map(|bytes| bytes.working as f64);
        predicted.is_ok_and(|predicted| (predicted - measured).abs() <= AGREE * measured.max(1.0))
    })
}

/// If both are one sequence of allocations, and agree in a form for each size: pools what they
/// know.
fn pool(known: &mut Law, other: &Law) -> bool {
    let (Body::Symbolic(mine), Body::Symbolic(theirs)) = (&known.body, &other.body) else { return false };
    if mine.steps != theirs.steps || mine.threshold_bytes != theirs.threshold_bytes {
        return false;
    }
    let sizes: Option<Vec<Size>> = mine.sizes.iter().zip(&theirs.sizes).map(|(a, b)| both(a, b)).collect();
    let Some(sizes) = sizes.filter(|sizes| sizes.len() == theirs.sizes.len()) else { return false };
    let residual = match (&known.residual, &other.residual) {
        (Size::Bounded { bytes: a }, Size::Bounded { bytes: b }) => Size::Bounded { bytes: *a.max(b) },
        (a, b) if a == b => a.clone(),
        _ => return false,
    };
    let sequence = Sequence { sizes, ..mine.clone() };
    let mut pooled = Law { body: Body::Symbolic(sequence), residual, ..known.clone() };
    if rank(&other.proof) > rank(&pooled.proof) {
        pooled.proof = other.proof.clone();
    }
    let new = |run: &&TrainingRun| !known.trained_on.contains(run);
    pooled.trained_on.extend(other.trained_on.iter().filter(new).cloned());
    pooled.trained_on.sort_by_key(|run| (volume(&run.shape), run.shape.clone()));
    for (variable, theirs) in pooled.variables.iter_mut().zip(&other.variables) {
        (variable.min, variable.max) = (variable.min.min(theirs.min), variable.max.max(theirs.max));
    }
    pooled.same_shape_spread = known.same_shape_spread.max(other.same_shape_spread);
    pooled.one_time.join(&other.one_time);
    let largest = pooled.trained_on.last().map(|run| run.shape.clone()).unwrap_or_default();
    let grown = |law: &Law| law.one_time_growth.as_ref().and_then(|growth| growth.upper(&largest));
    if grown(other) > grown(&pooled) {
        pooled.one_time_growth.clone_from(&other.one_time_growth);
    }
    let resident = |law: &Law| law.baseline.as_ref().and_then(|baseline| baseline.resident_bytes);
    if resident(other) > resident(&pooled) {
        pooled.baseline.clone_from(&other.baseline);
    }
    pooled.choices.extend(other.choices.iter().filter(|choice| !known.choices.contains(choice)).cloned());
    pooled.resident = pooled.resident.or_else(|| other.resident.clone());
    pooled.learned = pooled.learned.or_else(|| other.learned.clone());
    let noted = |note: &&String| !known.notes.contains(note);
    pooled.notes.extend(other.notes.iter().filter(noted).cloned());
    *known = pooled;
    true
}

/// What one of them knows of data values is true of both: memory that depends on data in one record
/// does.
fn join_data_values(united: &mut Law, other: &Law) {
    let largest = united.trained_on.last().map(|run| run.shape.clone()).unwrap_or_default();
    let upper = |worst: &Option<WorstCase>| worst.as_ref().and_then(|worst| worst.upper(&largest));
    if upper(&other.worst) > upper(&united.worst) {
        united.worst.clone_from(&other.worst);
    }
    united.data_dependent = match (united.data_dependent, other.data_dependent) {
        (Some(a), Some(b)) => Some(a || b),
        (a, b) => a.or(b),
    };
    if united.data_dependent == Some(true) && united.proof != Proof::Unverified {
        united.proof = Proof::of_runs(united.trained_on.len());
    }
}

/// The size that both laws allow.
fn both(a: &Size, b: &Size) -> Option<Size> {
    match (a, b) {
        (Size::Exact { form, others }, Size::Exact { form: their_form, others: their_others }) => {
            let theirs = || their_others.iter().chain([their_form]);
            let mut common =
                [form].into_iter().chain(others).filter(|form| theirs().any(|other| other == *form));
            let form = common.next()?.clone();
            Some(Size::Exact { form, others: common.cloned().collect() })
        }
        (Size::Bounded { bytes: a }, Size::Bounded { bytes: b }) => Some(Size::Bounded { bytes: *a.max(b) }),
        (
            Size::Units { form, most, unit },
            Size::Units { form: theirs, most: their_most, unit: their_unit },
        ) if form == theirs && unit == their_unit && most.factors == their_most.factors => {
            let most = if most.coefficient <= their_most.coefficient { most } else { their_most };
            Some(Size::Units { form: form.clone(), most: most.clone(), unit: *unit })
        }
        (a, b) => (a == b).then(|| a.clone()),
    }
}
