//! The laws of what operators allocate on devices, next to those of the host's memory.

use memtrace_trace::rows::ArrayInfo;

use super::groups::Group;
use super::operator::{Unfit, law};
use super::sequence::Places;
use crate::model::{DeviceLaw, Law};
use crate::profile::{Profile, Run};

/// A compiled function of JAX always makes its results, so where nothing was seen of them XLA had
/// an arena.
const NO_BUFFERS: &str = "JAX reported no buffer: record it with XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async and \
                      XLA_PYTHON_CLIENT_PREALLOCATE=false";

fn made_unseen(run: &Run) -> bool {
    // A donated input may contain a result.
    let given = |array: &ArrayInfo| run.span.inputs.iter().any(|input| input.address == array.address);
    let made = |array: &ArrayInfo| !array.device.is_empty() && array.bytes > 0 && !given(array);
    run.device_peak() == 0 && run.span.outputs.iter().any(made)
}

/// The law of what the runs of another law allocated on devices: they, or their inputs; `None` if
/// neither.
pub(super) fn of_devices(
    host: &Law,
    group: &Group,
    places: &Places,
    profiles: &[Profile],
) -> Result<Option<Box<DeviceLaw>>, String> {
    let steady = group.runs.iter().any(|run| run.span.call > 0);
    let counted = group.runs.iter().filter(|run| run.span.call > 0 || !steady);
    let before_bytes = counted.map(|run| run.before_on_devices).max().unwrap_or(0);
    let used = group.runs.iter().any(|run| run.device_peak() > 0);
    if !used && group.key.device.is_empty() {
        return Ok(None);
    }
    if group.key.versions.contains_key("jax") && group.runs.iter().any(|run| made_unseen(run)) {
        return Err(NO_BUFFERS.to_owned());
    }
    // Some operators leave small arrays to the host: those runs say nothing of the others.
    let there = group.runs.iter().filter(|run| run.device_peak() > 0 || !used);
    let runs: Vec<Run> = there.map(|run| run.of_devices()).collect();
    let group = Group { key: group.key.clone(), runs: runs.iter().collect(), notes: Vec::new() };
    let too_few = || format!("{} used one in runs of too few shapes", group.key.operator);
    let law = law(&group, places).map_err(|unfit| match unfit {
        Unfit::Shapes(shapes) => {
            format!("{} used one in runs of {shapes} shapes, which are too few", group.key.operator)
        }
        Unfit::Other(sentence) => sentence,
    })?;
    if law.names() != host.names() {
        return Err(too_few());
    }
    let reserved = reserved(profiles, &law.key.operator);
    Ok(Some(Box::new(DeviceLaw { law, before_bytes, reserved })))
}

/// Processes whose driver bytes peaked below this part of the largest of them do not count: a
/// pool's first segment is large compared with a few small blocks.
const SMALL_PROCESS: u64 = 4;

/// Driver bytes for each used byte: the most of the processes that ran an operator.
fn reserved(profiles: &[Profile], operator: &str) -> f64 {
    let of_profile = |profile: &'_ Profile| {
        let calls = profile.first_calls.iter().filter(|call| call.operator == operator);
        calls.filter_map(|call| profile.reserved.get(&call.process).copied()).collect::<Vec<_>>()
    };
    let seen: Vec<(u64, u64)> = profiles.iter().flat_map(of_profile).collect();
    let largest = seen.iter().map(|(driver, _)| *driver).max().unwrap_or(0);
    let large = seen.iter().filter(|(driver, _)| driver.saturating_mul(SMALL_PROCESS) >= largest);
    large.map(|(driver, used)| *driver as f64 / (*used).max(1) as f64).fold(1.0, f64::max)
}
