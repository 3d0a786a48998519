//! Fits a model to traces: groups runs by what changes a law, fits each group, proves what it can.

mod devices;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use memtrace_trace::Trace;
use memtrace_trace::rows::ArrayInfo;
use serde_json::Value;

use crate::contents::{self, Worst};
use crate::error::Error;
use crate::law::align::{self, Alignment, View};
use crate::law::bounded;
use crate::law::resident::{self, Look};
use crate::law::search::Search;
use crate::law::{Seen, Sequence, Size, regression, volume};
use crate::model::{Body, Key, Law, Model, Once, Proof, SCHEMA_VERSION, Seconds, TrainingRun};
use crate::profile::{self, Event, Profile, Program, Run, THREADS};
use crate::sites::Place;
use crate::variables::{self, Variables};
use crate::verify;

/// A residual below this part of every run's peak is a constant, whatever it does.
const NEGLIGIBLE_RESIDUAL: f64 = 0.001;

/// Fits one law per operator and key that the traces ran at three shapes or more.
///
/// # Errors
/// A trace cannot be read, or no operator was run at enough shapes.
pub fn fit(traces: &[Trace]) -> Result<Model, Error> {
    fit_profiles(&profile::read_all(traces)?)
}

/// The same from profiles that were read before.
///
/// # Errors
/// No operator was run at enough shapes.
pub fn fit_profiles(profiles: &[Profile]) -> Result<Model, Error> {
    let mut notes: Vec<String> = profiles.iter().flat_map(|profile| profile.notes.clone()).collect();
    let runs = profiles.iter().flat_map(|profile| &profile.runs);
    let mut laws = Vec::new();
    let places: Places = profiles
        .iter()
        .flat_map(|profile| profile.places.iter().map(|(site, place)| (*site, place)))
        .collect();
    for group in groups(runs) {
        match law(&group, &places) {
            Ok(mut law) => {
                law.once = once(profiles, &law.key.operator);
                law.baseline = baseline(profiles, &law.key.operator);
                law.resident = resident::fit(&law, &looks(profiles, &group, &law));
                match devices::of_devices(&law, &group, &places, profiles) {
                    Ok(there) => law.on_devices = there,
                    Err(reason) => {
                        notes.push(format!("of devices: {reason}"));
                        law.devices_unknown = Some(reason);
                    }
                }
                laws.push(law);
            }
            Err(reason) => notes.push(reason),
        }
    }
    if laws.is_empty() {
        let why = if notes.is_empty() { "they hold no finished span".to_owned() } else { notes.join("; ") };
        return Err(Error::NoRuns(format!("no law can be fitted to these traces: {why}")));
    }
    let sources = profiles.iter().filter_map(|profile| profile.source.clone()).collect();
    Ok(Model { schema_version: SCHEMA_VERSION, laws, notes, sources })
}

/// Where sites are, by id.
type Places<'a> = HashMap<u64, &'a Place>;

/// Runs that share a law.
struct Group<'a> {
    key: Key,
    runs: Vec<&'a Run>,
    notes: Vec<String>,
}

/// Groups runs by key. A parameter that takes a new value at every shape (a length that is passed
/// beside the array) cannot be part of a key: it is dropped, and a note says so.
fn groups<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Group<'a>> {
    let mut families: BTreeMap<String, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let ranks: Vec<usize> = run.span.inputs.iter().map(|input| input.shape.len()).collect();
        let family = Key { params: BTreeMap::new(), ..key(run) };
        families.entry(format!("{family} {ranks:?}")).or_default().push(run);
    }
    families.into_values().flat_map(split_by_params).collect()
}

fn split_by_params(runs: Vec<&Run>) -> Vec<Group<'_>> {
    let by_key = |ignored: &[String]| {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for &run in &runs {
            let mut key = key(run);
            key.params.retain(|name, _| !ignored.contains(name));
            let group = groups.entry(key.to_string()).or_insert(Group { key, runs: vec![], notes: vec![] });
            group.runs.push(run);
        }
        groups.into_values().collect::<Vec<_>>()
    };
    let enough = |group: &Group| shapes(&group.runs) >= verify::MIN_SHAPES;
    let groups = by_key(&[]);
    if groups.iter().any(enough) || shapes(&runs) < verify::MIN_SHAPES {
        return groups;
    }
    let names: BTreeSet<String> = runs.iter().flat_map(|run| key(run).params.into_keys()).collect();
    let varies =
        |name: &String| runs.iter().any(|run| key(run).params.get(name) != key(runs[0]).params.get(name));
    let ignored: Vec<String> = names.into_iter().filter(varies).collect();
    let note = format!("{} changed with the shape and is not part of the law's key", ignored.join(", "));
    let mut merged = by_key(&ignored);
    merged.iter_mut().for_each(|group| group.notes.push(note.clone()));
    merged
}

fn key(run: &Run) -> Key {
    let joined = |of: fn(&ArrayInfo) -> &str| run.span.inputs.iter().map(of).collect::<Vec<_>>().join(",");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut params: BTreeMap<String, Value> = run.span.params.clone().into_iter().collect();
    params.remove("task"); // Dask's key, chunk and worker: where it ran, not what
    let versions = match params.remove("versions") {
        Some(Value::Object(versions)) => {
            versions.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        }
        _ => BTreeMap::new(),
    };
    let threads = params.remove(THREADS).and_then(|threads| threads.as_u64());
    let operator = run.span.operator.clone();
    Key {
        operator,
        params,
        dtype: joined(|array| &array.dtype),
        layout: joined(|array| &array.layout),
        versions,
        device: devices(&run.span.inputs),
        threads,
    }
}

/// Devices of the arrays; nothing where all are in the host's memory.
fn devices(arrays: &[ArrayInfo]) -> String {
    let named: Vec<&str> = arrays.iter().map(|array| array.device.as_str()).collect();
    if named.iter().all(|device| device.is_empty()) { String::new() } else { named.join(",") }
}

fn shapes(runs: &[&Run]) -> usize {
    let shapes = |run: &&Run| run.span.inputs.iter().map(|input| input.shape.clone()).collect::<Vec<_>>();
    runs.iter().map(shapes).collect::<BTreeSet<_>>().len()
}

/// The law of a group, or a sentence on why there is none.
fn law(group: &Group, places: &Places) -> Result<Law, String> {
    let operator = &group.key.operator;
    let mut notes = group.notes.clone();
    let mut runs: Vec<&Run> = group.runs.iter().copied().filter(|run| run.span.call > 0).collect();
    if shapes(&runs) < shapes(&group.runs).min(verify::MIN_SHAPES) {
        runs = group.runs.clone();
        notes.push(
            "fitted on first calls too: run the operator twice in a process to see its steady state".into(),
        );
    }
    if group.key.versions.contains_key("jax") && runs.iter().any(|run| made_elsewhere(run)) {
        return Err(format!(
            "{operator}: on the CPU XLA allocates in threads of its own, which its spans miss"
        ));
    }
    let found = shapes(&runs);
    if found < verify::MIN_SHAPES {
        let least = verify::MIN_SHAPES;
        return Err(format!("{operator} was run at {found} shapes: a law needs {least}, none of them cubes"));
    }
    let variables =
        variables::of(&runs).ok_or_else(|| format!("{operator} has no array input with dimensions"))?;
    let (fitted, held_out) = verify::split(&variables.points);
    let draft = Draft { key: &group.key, runs: &runs, variables: &variables, places };
    let (mut law, view) = draft.fit(&fitted);
    if let Some(&last) = held_out.last() {
        let point = &variables.points[last];
        let confirmed = verify::settle(&mut law, runs[last], point, view.as_ref());
        let shape = crate::model::joined(point);
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
    if law.proof != Proof::Unverified && !verify::foretells(&law, &runs, &variables.points) {
        law.proof = Proof::Unverified;
        notes.push("shapes that it was fitted on needed something else than it says".into());
    }
    law.notes.extend(notes);
    law.data_dependent = contents::matter(&runs, &variables.points);
    if law.data_dependent == Some(true) {
        // A run proves nothing about other data; many bound what others of their kind need.
        law.proof = Proof::of_runs(runs.len());
        let (worst, _) = draft.fit(&contents::largest(&runs, &variables.points));
        law.worst = Some(Worst::covering(worst, &runs, &variables.points));
        let note = "its memory depends on what is in the arrays: at most is what the worst contents need that were run";
        law.notes.push(note.into());
    }
    Ok(law)
}

/// A result in the host's memory that is larger than all that its call allocated, and none of its inputs or a part of one.
fn made_elsewhere(run: &Run) -> bool {
    let made =
        |array: &&ArrayInfo| array.device.is_empty() && !matches!(&*array.relation, "view" | "in_place");
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
                    "the runs do not align: their allocation sequences depend on the shape or the data"
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
            data_dependent: None,
            worst: None,
            once: Once::default(),
            baseline: None,
            resident: None,
            on_devices: None,
            devices_unknown: None,
            seconds: seconds(self.runs, &self.variables.points),
            learned: None,
            choices: choices(&programs, self.places),
            notes,
        };
        (law, alignment.map(|alignment| alignment.view))
    }
}

/// The variables with the ranges of the runs that were fitted on.
fn narrowed(variables: &Variables, points: &[Vec<u64>]) -> Vec<crate::model::Variable> {
    let mut narrowed = variables.variables.clone();
    for (index, variable) in narrowed.iter_mut().enumerate() {
        let lengths = || points.iter().map(|point| point[index]);
        variable.min = lengths().min().unwrap_or(variable.min);
        variable.max = lengths().max().unwrap_or(variable.max);
    }
    narrowed
}

fn remarks(alignment: &Alignment, runs: usize) -> Vec<String> {
    let mut remarks = Vec::new();
    if alignment.view.folded {
        remarks
            .push("a loop whose count depends on the shape is counted as its largest repetition".to_owned());
    }
    if !alignment.view.aside.is_empty() {
        remarks.push("some shapes need small workspaces that others do not".to_owned());
    }
    let odd = runs - alignment.runs.len();
    if odd > 0 {
        let whose = if alignment.partial { ", all of some shape," } else { "" };
        remarks
            .push(format!("{odd} of {runs} runs{whose} took another course than the rest and were left out"));
    }
    remarks
}

/// The symbolic sequence of aligned runs: one size per distinct row of bytes.
fn sequence(alignment: &Alignment, programs: &[&Program], points: &[Vec<u64>], places: &Places) -> Sequence {
    let of_runs: Vec<Vec<u64>> = alignment.runs.iter().map(|&run| points[run].clone()).collect();
    let search = Search::new(&of_runs);
    let mut known: HashMap<&[u64], i64> = HashMap::new();
    let mut rows: Vec<&[u64]> = Vec::new();
    let mut of_block = Vec::with_capacity(alignment.bytes.len());
    for bytes in &alignment.bytes {
        let number = *known.entry(bytes).or_insert_with(|| {
            rows.push(bytes);
            rows.len() as i64
        });
        of_block.push(number);
    }
    let mut sequence = Sequence {
        threshold_bytes: alignment.view.threshold,
        sizes: bounded::sizes(&search, &of_runs, &rows),
        ..Sequence::default()
    };
    if !alignment.view.aside.is_empty() {
        let held = |(program, point): (&&Program, &Vec<u64>)| Seen {
            shape: point.clone(),
            bytes: alignment.view.aside_bytes(program),
        };
        sequence.sizes.push(Size::Nearby { seen: programs.iter().zip(points).map(held).collect() });
        sequence.steps.push(sequence.sizes.len() as i64);
        sequence.placed.push(0);
    }
    let mut texts: HashMap<&str, u32> = HashMap::new();
    for event in &alignment.course.events {
        let (Event::Alloc(block) | Event::Free(block)) = *event;
        let text = alignment.sites[block].and_then(|site| places.get(&site)).map(|place| place.text.as_str());
        let place = text.map_or(0, |text| {
            *texts.entry(text).or_insert_with(|| {
                sequence.places.push(text.to_owned());
                sequence.places.len() as u32
            })
        });
        let allocates = matches!(event, Event::Alloc(_));
        sequence.steps.push(if allocates { of_block[block] } else { -of_block[block] });
        sequence.placed.push(if allocates { place } else { 0 });
    }
    sequence
}

/// What library functions that the runs went through choose by the lengths.
fn choices(programs: &[&Program], places: &Places) -> Vec<String> {
    let sites = programs.iter().flat_map(|program| &program.blocks).filter_map(|block| block.site);
    let choices: BTreeSet<&String> = sites.filter_map(|site| places.get(&site)?.choice.as_ref()).collect();
    choices.into_iter().cloned().collect()
}

/// What the recorded peaks hold beyond the sequence's own: the blocks below its threshold.
fn residual(alignment: &Alignment, runs: &[&Run], points: &[Vec<u64>]) -> Size {
    let beyond = |&run: &usize| {
        let program = &runs[run].program;
        let sized = alignment.view.of(program).peak().saturating_add(alignment.view.aside_bytes(program));
        (runs[run].span.working_peak_bytes.saturating_sub(sized), runs[run].span.working_peak_bytes)
    };
    let (beyond, peaks): (Vec<u64>, Vec<u64>) = alignment.runs.iter().map(beyond).unzip();
    let largest = beyond.iter().copied().max().unwrap_or(0);
    let negligible = |(&beyond, &peak): (&u64, &u64)| beyond as f64 <= NEGLIGIBLE_RESIDUAL * peak as f64;
    if beyond.iter().zip(&peaks).all(negligible) || bounded::bounded(&beyond).is_some() {
        return Size::Bounded { bytes: largest };
    }
    let points: Vec<Vec<u64>> = alignment.runs.iter().map(|&run| points[run].clone()).collect();
    let beyond: Vec<f64> = beyond.iter().map(|&bytes| bytes as f64).collect();
    Size::Fitted(regression::fit(&points, &beyond))
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
    let volumes: Vec<u64> =
        points.iter().map(|point| u64::try_from(volume(point)).unwrap_or(u64::MAX)).collect();
    let times: Vec<f64> = runs.iter().map(|run| run.seconds()).collect();
    let (overhead, per_element) = regression::affine(&volumes, &times);
    Seconds { overhead, per_element }
}

/// Once bytes of an operator: the largest over the processes that ran it.
fn once(profiles: &[Profile], operator: &str) -> Once {
    let mut largest = Once::default();
    for profile in profiles {
        let mut processes: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
        for run in profile.runs.iter().filter(|run| run.span.operator == operator) {
            processes.entry(run.span.process).or_default().push(run);
        }
        let of_process = processes.into_values().map(|runs| profile::once(&runs));
        largest = of_process.fold(largest, |a, b| if b.bytes > a.bytes { b } else { a });
    }
    largest
}

/// What the processes held before: the largest over those that ran the operator.
fn baseline(profiles: &[Profile], operator: &str) -> Option<crate::model::Baseline> {
    let of_profile = |profile: &'_ Profile| {
        let runs = profile.runs.iter().filter(|run| run.span.operator == operator);
        runs.filter_map(|run| profile.baselines.get(&run.span.process).cloned())
            .max_by_key(|b| b.resident_bytes)
    };
    profiles.iter().filter_map(of_profile).max_by_key(|baseline| baseline.resident_bytes)
}

/// Resident peaks of a group's runs, first calls included: a process has once bytes too.
fn looks(profiles: &[Profile], group: &Group, law: &Law) -> Vec<Look> {
    let of_group: HashSet<*const Run> = group.runs.iter().map(|&run| std::ptr::from_ref(run)).collect();
    let look = |profile: &Profile, run: &Run| {
        Some(Look {
            shape: variables::point(&law.variables, &run.span.inputs)?,
            resident: run.span.resident_peak_bytes?,
            untouched: run.span.at_resident_peak.map(|then| then.untouched),
            settings: profile.allocators.get(&run.span.process).cloned().unwrap_or_default(),
        })
    };
    let of_profile = |profile: &Profile| {
        let runs = profile.runs.iter().filter(|&run| of_group.contains(&std::ptr::from_ref(run)));
        runs.filter_map(|run| look(profile, run)).collect::<Vec<_>>()
    };
    profiles.iter().flat_map(of_profile).collect()
}
