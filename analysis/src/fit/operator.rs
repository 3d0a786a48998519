//! The law of one operator: fitted to its runs, proved by the largest of them.

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::ArrayInfo;

use super::groups::{Group, shapes};
use super::sequence::{NEGLIGIBLE_RESIDUAL, Places, choices, remarks, residual, sequence};
use super::variables::{self, Variables};
use super::{data_values, elision, verify};
use crate::law::align::{self, View};
use crate::law::{MIN_SHAPES, Size};
use crate::model::{Body, Key, Law, Proof, Seconds, TrainingRun, Variable};
use crate::profile::Run;
use crate::profile::measured::OneTime;
use crate::shape::{joined, volume};
use crate::stats::regression;

/// Why a group has no law.
pub(super) enum Unfit {
    /// It was run at fewer shapes than a law needs: at this many.
    Shapes(usize),
    /// A sentence.
    Other(String),
}

impl From<String> for Unfit {
    fn from(sentence: String) -> Unfit {
        Unfit::Other(sentence)
    }
}

/// The law of a group, or why there is none.
pub(super) fn law(group: &Group, places: &Places) -> Result<Law, Unfit> {
    let operator = &group.key.operator;
    let mut notes = group.notes.clone();
    let mut runs: Vec<&Run> = group.runs.iter().copied().filter(|run| run.span.call > 0).collect();
    if shapes(&runs) < shapes(&group.runs).min(MIN_SHAPES) {
        runs = group.runs.clone();
        notes.push(
            "fitted on first calls too: run the operator twice in a process to see its steady state".into(),
        );
    }
    let is_jax = group.key.versions.contains_key("jax");
    if runs.iter().any(|run| made_elsewhere(run, is_jax)) {
        let first = before_pools_had_room(group, is_jax);
        if is_jax && first.is_none() {
            return Err(Unfit::Other(format!(
                "{operator}: on the CPU XLA allocates in threads of its own, which its spans miss"
            )));
        }
        notes.push(match first {
            Some(_) => "its results lie in memory that its first call allocates and keeps, as in a pool: fitted on first calls, which need most".into(),
            None => "its results lie in memory that was there before its calls: what a pool holds for them is not counted".into(),
        });
        runs = first.unwrap_or(runs);
    }
    let found = shapes(&runs);
    if found < MIN_SHAPES {
        return Err(Unfit::Shapes(found));
    }
    let variables =
        variables::of(&runs).ok_or_else(|| format!("{operator} has no array input with dimensions"))?;
    let (fitted, held_out) = verify::split(&variables.points);
    let draft = Draft { key: &group.key, runs: &runs, variables: &variables, places };
    let (mut law, view) = draft.fit(&fitted);
    if let Some(&last) = held_out.last() {
        let point = &variables.points[last];
        let confirmed = verify::settle(&mut law, runs[last], point, view.as_ref());
        let shape = joined(point);
        match verify::prove(&law, runs[last], point) {
            Some(proof) if confirmed => law.proof = proof,
            Some(_) => {
                notes.push(format!("the run at {shape} needed as much as the law says, but in other blocks"))
            }
            None => {
                let everything: Vec<usize> = fitted.iter().chain(&held_out).copied().collect();
                (law, _) = draft.fit(&everything);
                notes
                    .push(format!("the run at {shape} contradicted the law, which was fitted again with it"));
            }
        }
    }
    if law.proof != Proof::Unverified && !verify::predicts(&law, &runs, &variables.points) {
        law.proof = Proof::Unverified;
        notes.push("runs at shapes that it was fitted on needed other amounts than it predicts".into());
    }
    law.data_dependent = data_values::depends(&runs, &variables.points);
    let takes_courses = matches!(law.body, Body::Regression(_)) || !held_out.is_empty();
    let may_be_elision = takes_courses
        && law.proof == Proof::Unverified
        && law.data_dependent != Some(true)
        && group.key.versions.contains_key("numpy");
    if may_be_elision {
        notes.extend(elision::advice(&runs, &variables.points, places));
    }
    law.notes.extend(notes);
    if law.data_dependent == Some(true) {
        // A run proves nothing about other data; many bound what others of their kind need.
        law.proof = Proof::of_runs(runs.len());
        let (worst, _) = draft.fit(&data_values::largest(&runs, &variables.points));
        law.worst = Some(data_values::covering(worst, &runs, &variables.points));
        let note = "its memory depends on what is in the arrays: the upper bound covers the worst data values that were run";
        law.notes.push(note.into());
    }
    law.short = law.shortfall();
    Ok(law)
}

/// The first calls of processes, for an operator whose later calls allocate less than they return:
/// memory pools (Arrow's, Polars') grow in the first call and have room in the second. `None` where
/// first calls do not allocate it either.
fn before_pools_had_room<'a>(group: &Group<'a>, is_jax: bool) -> Option<Vec<&'a Run>> {
    let first: Vec<&Run> = group.runs.iter().copied().filter(|run| run.span.call == 0).collect();
    let allocate_it = shapes(&first) >= MIN_SHAPES && !first.iter().any(|run| made_elsewhere(run, is_jax));
    allocate_it.then_some(first)
}

/// A result in the host's memory that is larger than all that its call allocated, and lies in a block
/// that was there before; JAX's arrays do not say where they lie, so none of its inputs or a part of
/// one.
fn made_elsewhere(run: &Run, is_jax: bool) -> bool {
    let made = |array: &&ArrayInfo| {
        let relation = &*array.relation;
        let elsewhere = if is_jax { !matches!(relation, "view" | "in_place") } else { relation == "older" };
        array.device.is_empty() && elsewhere
    };
    let bytes = run.span.outputs.iter().filter(made).map(|array| array.bytes).max();
    bytes.is_some_and(|bytes| bytes > run.span.working_peak_bytes)
}

/// What a law is fitted from.
struct Draft<'a> {
    key: &'a Key,
    runs: &'a [&'a Run],
    variables: &'a Variables,
    places: &'a Places<'a>,
}

impl Draft<'_> {
    /// Fits on some of the runs; also says in which view they align.
    fn fit(&self, chosen: &[usize]) -> (Law, Option<View>) {
        let runs: Vec<&Run> = chosen.iter().map(|&run| self.runs[run]).collect();
        let points: Vec<Vec<u64>> = chosen.iter().map(|&run| self.variables.points[run].clone()).collect();
        let programs: Vec<_> = runs.iter().map(|run| &run.program).collect();
        let mut notes = Vec::new();
        let alignment = align::align(&programs, &points);
        let (body, residual, proof) = match &alignment {
            Some(alignment) => {
                notes.extend(remarks(alignment, runs.len()));
                (
                    Body::Symbolic(sequence(alignment, &programs, &points, self.places)),
                    residual(alignment, &runs, &points),
                    Proof::Unverified,
                )
            }
            None => {
                notes.push(
                    "the runs do not align: their allocation sequences depend on the shape or the data; more runs of other shapes may show on what"
                        .into(),
                );
                let peaks: Vec<f64> = runs.iter().map(|run| run.span.working_peak_bytes as f64).collect();
                let regression = regression::fit(&points, &peaks);
                let proof = Proof::of_runs(regression.runs);
                (Body::Regression(regression), Size::Bounded { bytes: 0 }, proof)
            }
        };
        let spread = same_shape_spread(&runs, &points);
        if spread > NEGLIGIBLE_RESIDUAL {
            notes.push(format!("runs of one shape differ by {:.1} %", spread * 100.0));
        }
        let outputs = variables::arrays(&runs, &points, |run| &run.span.outputs);
        if outputs.is_none() {
            notes.push(
                "the number or ranks of the outputs differ from run to run: they are not predicted".into(),
            );
        }
        let law = Law {
            key: self.key.clone(),
            variables: narrowed(self.variables, &points),
            inputs: self.variables.inputs.clone(),
            outputs: outputs.unwrap_or_default(),
            body,
            residual,
            proof,
            trained_on: training_runs(&runs, &points),
            same_shape_spread: spread,
            short: 0.0,
            data_dependent: None,
            worst: None,
            one_time: OneTime::default(),
            one_time_growth: None,
            baseline: None,
            resident: None,
            on_devices: None,
            devices_unknown: None,
            seconds: seconds(self.runs, &self.variables.points),
            learned: None,
            choices: choices(&programs, self.places),
            inside: self.runs.iter().all(|run| run.span.parent.is_some()),
            notes,
        };
        (law, alignment.map(|alignment| alignment.view))
    }
}

/// The variables with the ranges of the runs that were fitted on.
fn narrowed(variables: &Variables, points: &[Vec<u64>]) -> Vec<Variable> {
    let mut narrowed = variables.variables.clone();
    for (index, variable) in narrowed.iter_mut().enumerate() {
        let lengths = || points.iter().map(|point| point[index]);
        variable.min = lengths().min().unwrap_or(variable.min);
        variable.max = lengths().max().unwrap_or(variable.max);
    }
    narrowed
}

fn same_shape_spread(runs: &[&Run], points: &[Vec<u64>]) -> f64 {
    let mut peaks: HashMap<&Vec<u64>, (u64, u64)> = HashMap::new();
    for (run, point) in runs.iter().zip(points) {
        let peak = run.span.working_peak_bytes;
        let (min, max) = peaks.entry(point).or_insert((peak, peak));
        (*min, *max) = ((*min).min(peak), (*max).max(peak));
    }
    peaks.into_values().map(|(min, max)| (max - min) as f64 / (min.max(1)) as f64).fold(0.0, f64::max)
}

fn training_runs(runs: &[&Run], points: &[Vec<u64>]) -> Vec<TrainingRun> {
    let evidence = |(run, point): (&&Run, &Vec<u64>)| TrainingRun {
        shape: point.clone(),
        working_peak_bytes: run.span.working_peak_bytes,
        seconds: run.seconds(),
    };
    runs.iter().zip(points).map(evidence).collect()
}

fn seconds(runs: &[&Run], points: &[Vec<u64>]) -> Seconds {
    let times = runs.iter().map(|run| run.seconds());
    let all: Vec<(u64, f64)> =
        points.iter().map(|point| u64::try_from(volume(point)).unwrap_or(u64::MAX)).zip(times).collect();
    let mut fastest: BTreeMap<u64, f64> = BTreeMap::new();
    for &(volume, seconds) in &all {
        let least = fastest.entry(volume).or_insert(seconds);
        *least = least.min(seconds);
    }
    let (volumes, times): (Vec<u64>, Vec<f64>) = fastest.into_iter().unzip();
    let (overhead, per_element) = regression::affine(&volumes, &times);
    let fitted = Seconds { overhead, per_element, recorded_spread: 0.0 };
    let off = |&(volume, seconds): &(u64, f64)| {
        let expected = fitted.at(volume as f64);
        (expected > 0.0).then(|| (seconds - expected).abs() / expected)
    };
    let mut spreads: Vec<f64> = all.iter().filter_map(off).collect();
    spreads.sort_by(f64::total_cmp);
    let most = spreads.len().saturating_sub(1) * 9 / 10;
    Seconds { recorded_spread: spreads.get(most).copied().unwrap_or(0.0), ..fitted }
}
