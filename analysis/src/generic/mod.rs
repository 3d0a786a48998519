//! Bounds for an operator that was never run: the laws of the library functions it calls, composed
//! along its text.
//!
//! Constraints: prints nothing, runs nothing, never panics. A [`Source`] says what the text does, a
//! [`Library`] what its calls need, and [`bound`] walks the one with the other at given shapes
//! (docs/generic.md).

mod arguments;
mod arrays;
mod builtin;
mod call;
mod dtype;
mod express;
mod index;
mod known;
mod language;
mod lengths;
mod library;
mod loops;
mod machine;
mod nested;
mod scalar;
mod shape;
mod small;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use crate::error::Error;
use crate::model::predict::Term;
pub use dtype::Dtype;
pub use library::Library;
pub use machine::Control;
use machine::{Frame, Machine, Site};
use nested::Cycles;
pub use source::Source;
use value::{Array, Layout, MAX_WORK, Meter, Place, Value};

/// Most paths through undecided conditions that are walked.
const MAX_PATHS: usize = 64;
/// No more of them are walked once they have done as much as this many long ones.
const MAX_LONG_PATHS: u64 = 4;

/// The inputs of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// Shape of each array input; the last stands for those that are missing.
    pub shapes: Vec<Vec<u64>>,
    /// Element type of each, likewise.
    pub dtypes: Vec<Dtype>,
    /// `C`, `F` or `strided`, of all of them.
    pub layout: String,
    /// Other parameters by name.
    pub params: BTreeMap<String, Json>,
}

/// A bound, with the keys of [`crate::model::Prediction`]. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bounded {
    /// The operator.
    pub operator: String,
    /// Shape of its first array.
    pub shape: Vec<u64>,
    /// Working peak as composed, inputs not included: the largest over the paths.
    pub peak_bytes: u64,
    /// The bound: that, times how far composed peaks were off elsewhere. `null` where `model.unknown`
    /// names anything: no bound can be given.
    pub upper_bytes: Option<u64>,
    /// `unverified`: nothing was run.
    pub confidence: &'static str,
    /// Array inputs.
    pub input_bytes: u64,
    /// `peak_bytes + input_bytes`.
    pub total_bytes: u64,
    /// Shape of the first array that comes out.
    pub output_shape: Vec<u64>,
    /// Its element type; empty if no array comes out.
    pub output_dtype: String,
    /// All arrays that come out.
    pub output_bytes: u64,
    /// It was never run, so at any shape.
    pub extrapolated: bool,
    /// Where it comes from.
    pub model: Explained,
}

/// The part of a bound that explains it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// `generic`
    pub kind: &'static str,
    /// `unverified`
    pub proof: &'static str,
    /// What is live at the peak: function and line that made it, largest first.
    pub terms: Vec<Term>,
    /// What is not known, in words: `peak_bytes` is an estimate if there is any.
    pub unknown: Vec<String>,
    /// Control statements met on the path that sets the peak.
    pub control: Control,
    /// Paths that were walked.
    pub paths: usize,
    /// `upper_bytes / peak_bytes` where there is a bound.
    pub factor: f64,
    /// Operators the factor was learned from.
    pub learned_from: usize,
    /// Library versions the laws were measured with.
    pub versions: BTreeMap<String, String>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

struct Path {
    peak: u64,
    met: Vec<(Site, bool)>,
    unknown: Vec<String>,
    control: Control,
    seen: Vec<(u64, Place)>,
    outputs: Vec<Array>,
    inputs: u64,
    shape: Vec<u64>,
    raised: bool,
    /// As [`Machine`] counts it.
    work: u64,
}

/// A first bound of the working peak of an operator at given shapes, without running it.
///
/// # Errors
/// [`Error::Shape`]: no shape, or an empty one. [`Error::Source`]: too long to be walked through.
pub fn bound(source: &Source, library: &Library, wanted: &Inputs) -> Result<Bounded, Error> {
    if wanted.shapes.is_empty() || wanted.shapes.iter().flatten().any(|&length| length == 0) {
        return Err(Error::Shape("give a shape with lengths of at least 1".to_owned()));
    }
    let mut open: Vec<Vec<(Site, bool)>> = vec![Vec::new()];
    let mut largest: Option<(Path, Vec<(Site, bool)>)> = None;
    let (mut walked, mut work, mut ends) = (0, 0, false);
    let mut unknown = BTreeSet::new();
    while let Some(decisions) = open.pop() {
        if walked == MAX_PATHS || work > MAX_LONG_PATHS * MAX_WORK {
            break;
        }
        walked += 1;
        let path = walk(source, library, wanted, &decisions, None)?;
        work += path.work;
        if !path.raised {
            ends = true;
            unknown.extend(path.unknown.iter().cloned());
        }
        // Each condition that was new on this path is taken the other way on one of its own.
        for at in decisions.len()..path.met.len() {
            let mut other = path.met[..=at].to_vec();
            other[at].1 = !other[at].1;
            open.insert(0, other);
        }
        let better =
            largest.as_ref().is_none_or(|(known, _)| (path.peak, !path.raised) > (known.peak, !known.raised));
        if better {
            largest = Some((path, decisions));
        }
    }
    let more = !open.is_empty();
    let (mut path, decisions) = largest.ok_or_else(|| Error::Source("it has no path".to_owned()))?;
    unknown.extend(std::mem::take(&mut path.unknown));
    if !ends {
        unknown.insert("what comes after an error: every path raises one".to_owned());
    }
    if more {
        unknown.insert(format!("more than {walked} paths through its conditions"));
    }
    path.unknown = unknown.into_iter().collect();
    let seen = walk(source, library, wanted, &decisions, Some(path.peak))?.seen;
    Ok(bounded(source, library, path, &seen, walked))
}

fn walk(
    source: &Source,
    library: &Library,
    wanted: &Inputs,
    decisions: &[(Site, bool)],
    watch: Option<u64>,
) -> Result<Path, Error> {
    let _cycles = Cycles;
    let meter = Meter::watching(watch);
    let longest = wanted.shapes.iter().flatten().copied().max().unwrap_or(1);
    let mut machine = Machine::new(source, library, Rc::clone(&meter), longest, decisions);
    let name: Rc<str> = source.entry.as_str().into();
    let missing = || Error::Source(format!("its entry {name} is not among its functions"));
    let function = source.functions.get(&*name).ok_or_else(missing)?;
    let mut frame = Frame::new();
    let mut inputs: Vec<Array> = Vec::new();
    let taken = |parameter: &&source::Parameter| {
        parameter.default.is_none() && matches!(parameter.takes, source::Takes::One | source::Takes::Named)
    };
    let required = function.parameters.iter().filter(taken).count();
    for parameter in &function.parameters {
        let given = wanted.params.get(&parameter.name).map(express::constant);
        if given.is_none() && parameter.takes == source::Takes::Rest && required == 0 {
            // What a decorator made takes whatever the function takes.
            inputs = (0..wanted.shapes.len()).map(|at| input(wanted, at)).collect();
            let arrays = inputs.iter().cloned().map(Value::Array).collect();
            frame.insert(parameter.name.clone(), Value::list(arrays));
            continue;
        }
        let takes_none = parameter.takes == source::Takes::Names;
        if given.is_none() && required == 0 && inputs.is_empty() && !takes_none {
            // Every parameter has a default: the first is taken to be the array.
            let array = input(wanted, 0);
            inputs.push(array.clone());
            frame.insert(parameter.name.clone(), Value::Array(array));
            continue;
        }
        let value = match (given, &parameter.default) {
            (Some(value), _) => value,
            (None, Some(default)) => machine.value(default, &mut Frame::new())?,
            (None, None) if parameter.takes == source::Takes::Rest => Value::list(Vec::new()),
            (None, None) if parameter.takes == source::Takes::Names => Value::mapping(Vec::new()),
            (None, None) => {
                let array = input(wanted, inputs.len());
                inputs.push(array.clone());
                Value::Array(array)
            }
        };
        frame.insert(parameter.name.clone(), value);
    }
    let result = machine.enter(&name, function, frame)?;
    Ok(Path {
        peak: meter.peak(),
        met: std::mem::take(&mut machine.met),
        unknown: machine.unknown.iter().cloned().collect(),
        control: machine.control(),
        seen: meter.seen(),
        outputs: result.arrays(),
        inputs: inputs.iter().map(Array::bytes).sum(),
        shape: inputs.first().map(|array| array.shape.clone()).unwrap_or_default(),
        raised: machine.raised(),
        work: machine.work,
    })
}

fn input(wanted: &Inputs, at: usize) -> Array {
    let shape = wanted.shapes.get(at).or(wanted.shapes.last()).cloned().unwrap_or_default();
    let dtype = wanted.dtypes.get(at).or(wanted.dtypes.last()).copied().unwrap_or(Dtype::new('f', 4));
    let layout = match wanted.layout.as_str() {
        "F" => Layout::F,
        "strided" => Layout::Strided,
        _ => Layout::C,
    };
    Array { shape, dtype, layout, blocks: Vec::new(), class: None }
}

fn bounded(source: &Source, library: &Library, path: Path, seen: &[(u64, Place)], paths: usize) -> Bounded {
    let mut sums: BTreeMap<&Place, u64> = BTreeMap::new();
    for (bytes, place) in seen {
        *sums.entry(place).or_default() += bytes;
    }
    let mut terms: Vec<Term> = sums
        .into_iter()
        .map(|(place, bytes)| Term { words: format!("{}, {}", place.what, place.at), bytes })
        .collect();
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    let residual = &library.residual;
    let factor = residual.factor.max(1.0);
    let mut notes = Vec::new();
    let differs = |(name, version): (&String, &String)| {
        library.versions.get(name).is_some_and(|known| known != version)
    };
    for (name, version) in source.versions.iter().filter(|pair| differs(*pair)) {
        let measured = library.versions.get(name).map_or("", String::as_str);
        notes.push(format!("the laws were measured with {name} {measured}, this is {version}"));
    }
    let upper = path.unknown.is_empty().then(|| (path.peak as f64 * factor).ceil());
    let first = path.outputs.first();
    Bounded {
        operator: source.entry.clone(),
        shape: path.shape,
        peak_bytes: path.peak,
        upper_bytes: upper.map(|upper| if upper < u64::MAX as f64 { upper as u64 } else { u64::MAX }),
        confidence: "unverified",
        input_bytes: path.inputs,
        total_bytes: path.peak.saturating_add(path.inputs),
        output_shape: first.map(|array| array.shape.clone()).unwrap_or_default(),
        output_dtype: first.map(|array| array.dtype.to_string()).unwrap_or_default(),
        output_bytes: path.outputs.iter().map(Array::bytes).fold(0, u64::saturating_add),
        extrapolated: true,
        model: Explained {
            kind: "generic",
            proof: "unverified",
            terms,
            unknown: path.unknown,
            control: path.control,
            paths,
            factor,
            learned_from: residual.operators,
            versions: library.versions.clone(),
            notes,
        },
    }
}
