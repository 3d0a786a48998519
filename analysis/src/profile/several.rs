//! Profiles of several traces.

use std::collections::HashSet;

use memtrace_trace::Trace;
use rustc_hash::FxHashSet;

use super::sample::Sample;
use super::{Profile, Run, places, unused, without_places};
use crate::error::Error;
use crate::parallel;

/// Traces whose runs are in memory before the sample is taken of them.
const AT_ONCE: usize = 8;

/// Reads the finished spans of traces that lost no events, in their order, some of them at a time.
/// The sample of runs is taken of all of them. Traces of one program have the same call stacks: the
/// place of a site is read from the first trace that needs it, and stands in that one's profile
/// only.
///
/// # Errors
/// As [`super::read`].
pub fn read_all(traces: &[Trace]) -> Result<Vec<Profile>, Error> {
    read_with(traces, parallel::threads())
}

/// The same on some threads.
///
/// # Errors
/// As [`super::read`].
pub fn read_with(traces: &[Trace], threads: usize) -> Result<Vec<Profile>, Error> {
    let mut profiles = join(traces.chunks(AT_ONCE).map(|some| in_parallel(some, threads)))?;
    add_places(traces, &mut profiles)?;
    Ok(profiles)
}

/// Profiles of traces that were read in parts, one after the other: those that [`read_all`] gives for
/// all of these traces.
///
/// # Errors
/// Of a part.
pub fn join(parts: impl Iterator<Item = Result<Vec<Profile>, Error>>) -> Result<Vec<Profile>, Error> {
    let (mut profiles, mut sample) = (Vec::new(), Sample::new());
    let mut places = FxHashSet::default();
    for part in parts {
        let first = profiles.len();
        profiles.extend(part?);
        for (index, profile) in profiles.iter_mut().enumerate().skip(first) {
            for run in &profile.runs {
                sample.offer(&run.span, run.before_on_devices, (index, run.span.span));
            }
            profile.places.retain(|site, _| places.insert(*site));
        }
        keep(&mut profiles, &sample.taken());
        unused::trim();
    }
    Ok(profiles)
}

fn in_parallel(traces: &[Trace], threads: usize) -> Result<Vec<Profile>, Error> {
    let read = |found: &mut Vec<(usize, Profile)>, index: usize| {
        found.push((index, without_places(&traces[index])?));
        Ok(())
    };
    let threads = threads.min(traces.len());
    let found = parallel::in_parallel(traces.len(), threads, Vec::new, read)?;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.sort_unstable_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, profile)| profile).collect())
}

/// Drops runs that are no longer in the sample, by the number of the profile and of the span.
fn keep(profiles: &mut [Profile], taken: &FxHashSet<(usize, u32)>) {
    for (index, profile) in profiles.iter_mut().enumerate() {
        let all = profile.runs.len();
        profile.runs.retain(|run| taken.contains(&(index, run.span.span)));
        profile.runs.shrink_to_fit();
        profile.left_out += all - profile.runs.len();
    }
}

fn add_places(traces: &[Trace], profiles: &mut [Profile]) -> Result<(), Error> {
    let mut known = HashSet::<u64>::new();
    for (trace, profile) in traces.iter().zip(profiles) {
        let sites = profile.runs.iter().flat_map(Run::blocks).filter_map(|block| block.site);
        let new: HashSet<u64> = sites.filter(|site| !known.contains(site)).collect();
        if !new.is_empty() {
            profile.places = places::of_law(trace, &new)?;
            known.extend(profile.places.keys());
        }
    }
    Ok(())
}
