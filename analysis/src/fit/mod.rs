//! Fits a model to traces: groups runs by what changes a law, fits each group, proves what it can.

mod data_values;
mod devices;
pub mod dry_runs;
pub mod elision;
mod groups;
mod measured;
mod operator;
mod resident;
mod sequence;
mod table;
mod variables;
pub mod verify;

use std::collections::BTreeMap;

use memtrace_trace::Trace;

pub use table::fit_table;

use self::operator::Unfit;
use self::sequence::Places;
use crate::error::Error;
use crate::law::MIN_SHAPES;
use crate::model::{Model, SCHEMA_VERSION};
use crate::profile::{self, Profile};

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
    let left_out: usize = profiles.iter().map(|profile| profile.left_out).sum();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} calls were left out: of each operator and shape a law takes the first and the largest ones"
        ));
    }
    let runs = profiles.iter().flat_map(|profile| &profile.runs);
    let (mut laws, mut few) = (Vec::new(), BTreeMap::new());
    let places: Places = profiles
        .iter()
        .flat_map(|profile| profile.places.iter().map(|(site, place)| (*site, place)))
        .collect();
    for group in groups::groups(runs) {
        match operator::law(&group, &places) {
            Ok(mut law) => {
                (law.one_time, law.one_time_growth) = measured::one_time(profiles, &law);
                law.baseline = measured::baseline(profiles, &law.key.operator);
                law.resident = resident::fit(&law, &resident::samples(profiles, &group.runs, &law));
                match devices::of_devices(&law, &group, &places, profiles) {
                    Ok(there) => law.on_devices = there,
                    Err(reason) => {
                        notes.push(format!("of devices: {reason}"));
                        law.devices_unknown = Some(reason);
                    }
                }
                laws.push(law);
            }
            Err(Unfit::Shapes(found)) => {
                let most: &mut usize = few.entry(group.key.operator.clone()).or_default();
                *most = found.max(*most);
            }
            Err(Unfit::Other(reason)) => notes.push(reason),
        }
    }
    notes.extend(too_few_shapes(&few));
    if laws.is_empty() {
        let why = if notes.is_empty() { "they hold no finished span".to_owned() } else { notes.join("; ") };
        return Err(Error::NoRuns(format!("no law can be fitted to these traces: {why}")));
    }
    let sources = profiles.iter().filter_map(|profile| profile.source.clone()).collect();
    Ok(Model { schema_version: SCHEMA_VERSION, laws, notes, sources })
}

/// How many operators one sentence names.
const NAMED: usize = 3;

/// One sentence on all operators that were run at too few shapes, by the most shapes of each.
fn too_few_shapes(operators: &BTreeMap<String, usize>) -> Option<String> {
    let (&fewest, &most) = (operators.values().min()?, operators.values().max()?);
    let mut names: Vec<String> = operators.keys().take(NAMED).cloned().collect();
    if operators.len() > NAMED {
        names.push(format!("{} more", operators.len() - NAMED));
    }
    let were = if operators.len() == 1 { "was" } else { "were" };
    let at = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let plural = if most == 1 { "" } else { "s" };
    let names = joined_words(&names);
    Some(format!("{names} {were} run at {at} shape{plural}: a law needs {MIN_SHAPES}, none of them cubes"))
}

/// `a, b and c`
fn joined_words(words: &[String]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_operators_at_too_few_shapes_make_one_short_sentence() {
        let of = |operators: &[(&str, usize)]| {
            too_few_shapes(&operators.iter().map(|(name, found)| ((*name).to_owned(), *found)).collect())
        };
        assert_eq!(of(&[]), None);
        let one = "m:a was run at 1 shape: a law needs 3, none of them cubes";
        assert_eq!(of(&[("m:a", 1)]).as_deref(), Some(one));
        let nine: Vec<(String, usize)> =
            (0..9).map(|i| (format!("scipy.ndimage:filter_{i}"), 1 + i % 2)).collect();
        let nine: Vec<(&str, usize)> = nine.iter().map(|(name, found)| (name.as_str(), *found)).collect();
        let sentence = of(&nine).expect("a sentence");
        assert!(
            sentence.len() < 160 && sentence.contains("and 6 more were run at 1 to 2 shapes"),
            "{sentence}"
        );
    }
}
