//! Runs grouped by what changes a law.

use std::collections::{BTreeMap, BTreeSet};

use memtrace_trace::rows::ArrayInfo;
use serde_json::Value;

use crate::law::MIN_SHAPES;
use crate::model::{Key, devices};
use crate::profile::{Run, TASK, THREADS};

/// Runs that share a law.
pub(super) struct Group<'a> {
    pub(super) key: Key,
    pub(super) runs: Vec<&'a Run>,
    pub(super) notes: Vec<String>,
}

/// Groups runs by key. A parameter that takes a new value at every shape (a length that is passed
/// next to the array) cannot be part of a key: it is dropped, and a note says so.
pub(super) fn groups<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Group<'a>> {
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
    let enough = |group: &Group| shapes(&group.runs) >= MIN_SHAPES;
    let groups = by_key(&[]);
    if groups.iter().any(enough) || shapes(&runs) < MIN_SHAPES {
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
    let params = run.span.params.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut params: BTreeMap<String, Value> = params.collect();
    params.remove(TASK);
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

/// Number of distinct shapes.
pub(super) fn shapes(runs: &[&Run]) -> usize {
    let shapes = |run: &&Run| run.span.inputs.iter().map(|input| input.shape.clone()).collect::<Vec<_>>();
    runs.iter().map(shapes).collect::<BTreeSet<_>>().len()
}
