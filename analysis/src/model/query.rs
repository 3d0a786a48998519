//! Which law of a model answers a question; and why none does, if none does.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Error;
use crate::model::{Key, Law, Model};
use crate::profile::FAILED;

/// What a law is wanted for.
#[derive(Debug, Clone, Default)]
pub struct Query<'a> {
    /// The operator as recorded, or the last part of its name.
    pub operator: &'a str,
    /// Element type of its inputs; without byte order (`f4`) the native one.
    pub dtype: Option<&'a str>,
    /// Parameters by name; also `layout`, `device`, `threads`, and versions by the name of a
    /// library.
    pub params: BTreeMap<String, Value>,
    /// Versions of libraries that will run it. They count where a law names the library.
    pub libraries: BTreeMap<String, String>,
    /// Any version will do.
    pub any_version: bool,
    /// How many lengths the shape has.
    pub dims: Option<usize>,
}

impl Model {
    /// The law for an operator; `dtype` and `params` narrow the choice where there are several.
    ///
    /// # Errors
    /// As [`Model::find`].
    pub fn select(
        &self,
        operator: &str,
        dtype: Option<&str>,
        params: &BTreeMap<String, Value>,
    ) -> Result<&Law, Error> {
        self.find(&Query { operator, dtype, params: params.clone(), ..Query::default() })
    }

    /// Laws of this operator, by its whole name; if there are none, by the last part of it.
    pub fn of_operator(&self, operator: &str) -> impl Iterator<Item = &Law> {
        let whole = self.laws.iter().any(|law| law.key.operator == operator);
        self.laws.iter().filter(move |law| law.key.operator == operator || !whole && law.key.is_of(operator))
    }

    /// The one law that answers.
    ///
    /// # Errors
    /// No law is left, and the sentence says at what: operator, dtype, layout, device, parameter or
    /// version; or more than one is left, which it lists.
    pub fn find(&self, query: &Query) -> Result<&Law, Error> {
        let operator = query.operator;
        let mut laws: Vec<&Law> = self.of_operator(operator).collect();
        if laws.is_empty() {
            let known: Vec<&str> = self.laws.iter().map(|law| law.key.operator.as_str()).collect();
            let known = known.join(", ");
            return Err(Error::NoLaw(format!("the model has no law for {operator}; it has {known}")));
        }
        if let Some(dtype) = query.dtype {
            laws = narrowed(operator, laws, ("dtype", dtype), &|key| {
                (same_dtype(&key.dtype, dtype), Some(Value::from(key.dtype.as_str())))
            })?;
        }
        // An operator that takes sections and volumes has a law for each.
        if let Some(dims) = query.dims
            && laws.iter().any(|law| law.variables.len() == dims)
        {
            laws.retain(|law| law.variables.len() == dims);
        }
        // What calls that failed needed is an answer only to a query for such calls.
        let of_failures = |law: &&Law| law.key.params.contains_key(FAILED);
        if !query.params.contains_key(FAILED) && !laws.iter().all(of_failures) {
            laws.retain(|law| !of_failures(law));
        }
        for (name, wanted) in &query.params {
            if laws.iter().any(|law| law.key.versions.contains_key(name)) {
                continue;
            }
            laws = narrowed(operator, laws, (name, &text(wanted)), &|key| {
                let known = key.value(name);
                (known.as_ref().is_some_and(|known| same_value(known, wanted)), known)
            })?;
        }
        self.of_versions(query, laws)
    }

    fn of_versions<'a>(&self, query: &Query, laws: Vec<&'a Law>) -> Result<&'a Law, Error> {
        let differs = |law: &&Law| difference(&law.key, query);
        let fitting: Vec<&Law> = laws.iter().copied().filter(|law| differs(law).is_none()).collect();
        let left = match (fitting.is_empty(), query.any_version) {
            (true, true) => laws,
            (true, false) => {
                let why: Vec<String> = laws.iter().filter_map(differs).collect();
                return Err(Error::OtherVersions(format!(
                    "the model's law for {} is for {}",
                    query.operator,
                    why.join("; another for ")
                )));
            }
            (false, _) => fitting,
        };
        match left.as_slice() {
            [law] => Ok(law),
            several => Err(Error::NoLaw(format!(
                "the model has several laws for {}: choose one by its dtype, a parameter, its layout, or a library's version: {}",
                query.operator,
                listed(several)
            ))),
        }
    }
}

/// The keys of some of these laws, and how many others there are.
fn listed(laws: &[&Law]) -> String {
    const MOST: usize = 8;
    let keys: Vec<String> = laws.iter().take(MOST).map(|law| law.key.to_string()).collect();
    let others = laws.len() - keys.len();
    let more = if others > 0 { format!("; and {others} more") } else { String::new() };
    keys.join("; ") + &more
}

/// The laws that agree in one thing; an error with what they have instead, if none does.
fn narrowed<'a>(
    operator: &str,
    laws: Vec<&'a Law>,
    (name, wanted): (&str, &str),
    agrees: &dyn Fn(&Key) -> (bool, Option<Value>),
) -> Result<Vec<&'a Law>, Error> {
    let left: Vec<&Law> = laws.iter().copied().filter(|law| agrees(&law.key).0).collect();
    if !left.is_empty() {
        return Ok(left);
    }
    let mut known: Vec<String> =
        laws.iter().filter_map(|law| agrees(&law.key).1).map(|value| text(&value)).collect();
    known.sort();
    known.dedup();
    let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
    let reason = format!("the model has no law for {operator} with {name} {wanted}, but with {known}");
    Err(Error::NoLaw(if known == "there is none" {
        format!("the model has no law for {operator} with {name} {wanted}: it knows no {name} of it")
    } else {
        reason
    }))
}

/// `scipy 1.17.1, not 1.15.0`, if the versions of a law are not those of the query.
fn difference(key: &Key, query: &Query) -> Option<String> {
    let wanted_versions = query.params.iter().filter_map(|(name, wanted)| {
        let known = key.versions.get(name)?;
        let wanted = text(wanted);
        let parts = wanted.split('.').count();
        Some((name, known, (!same_parts(known, &wanted, parts)).then_some(wanted)))
    });
    let running = query.libraries.iter().filter_map(|(name, running)| {
        let known = key.versions.get(name).filter(|_| !query.params.contains_key(name))?;
        Some((name, known, (!same_parts(known, running, 2)).then(|| running.clone())))
    });
    let differ =
        wanted_versions.chain(running).filter_map(|(name, known, other)| Some((name, known, other?)));
    let words: Vec<String> =
        differ.map(|(name, known, other)| format!("{name} {known}, not {other}")).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// Versions that agree in their first parts: releases that differ in the third only repair faults.
fn same_parts(known: &str, wanted: &str, parts: usize) -> bool {
    known.split('.').take(parts).eq(wanted.split('.').take(parts))
}

impl Key {
    /// A parameter, the layout, the device, the threads, or a library's version by name.
    fn value(&self, name: &str) -> Option<Value> {
        let own = match name {
            "layout" => Some(Value::from(self.layout.as_str())),
            "device" if self.device.is_empty() => Some(Value::from("cpu")),
            "device" => Some(Value::from(self.device.as_str())),
            "threads" => self.threads.map(Value::from),
            _ => None,
        };
        let version = || self.versions.get(name).map(|version| Value::from(version.as_str()));
        self.params.get(name).cloned().or(own).or_else(version)
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `f4` means the native byte order, as NumPy reads it, and one dtype means all inputs have it.
fn same_dtype(known: &str, wanted: &str) -> bool {
    let native = if cfg!(target_endian = "little") { "<" } else { ">" };
    let same = |known: &str| {
        known == wanted || [native, "|"].iter().any(|order| known == format!("{order}{wanted}"))
    };
    known == wanted || known.split(',').all(same)
}

/// 3 and 3.0 are one value, as is a number given as text on a command line; one layout or device
/// means all inputs have it.
fn same_value(known: &Value, wanted: &Value) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    match (number(known), number(wanted)) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let (known, wanted) = (text(known), text(wanted));
            known == wanted || known.split(',').all(|each| each == wanted)
        }
    }
}
