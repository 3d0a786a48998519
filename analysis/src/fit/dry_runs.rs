//! Laws of runs that were not recorded: the allocations and releases of dry runs.

use std::collections::HashMap;

use memtrace_trace::rows::{ArrayInfo, Kind, SpanRow};

use crate::error::Error;
use crate::fit::fit_profiles;
use crate::model::Model;
use crate::profile::{Block, Event, MIN_BYTES, Profile, Program, Run};

/// What one run of an operator allocated, in order.
#[derive(Debug, Clone)]
pub struct DryRun {
    /// Lengths of the axes that vary, such as batch and sequence.
    pub shape: Vec<u64>,
    /// Bytes of each block, in the order in which they are allocated.
    pub blocks: Vec<u64>,
    /// In time order: n allocates block n, -1 - n releases it.
    pub events: Vec<i64>,
    /// The most that the allocator had reserved for these blocks; 0 if that is not known.
    pub reserved_peak: u64,
}

/// Fits a law to dry runs of one operator as [`crate::fit`] does to recorded ones: of what it
/// allocates on devices.
///
/// # Errors
/// Fewer than three shapes, or events that are none of the blocks'.
pub fn fit_dry_runs(operator: &str, dry_runs: &[DryRun]) -> Result<Model, Error> {
    let runs = dry_runs.iter().enumerate().map(|(index, dry)| run(operator, index, dry));
    let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
    let reserved = runs.iter().zip(dry_runs).map(|(run, dry)| {
        let used = run.span.device_peak_bytes.unwrap_or(0).max(1);
        (run.span.process, (dry.reserved_peak, used))
    });
    let profile = Profile { reserved: reserved.collect(), ..Profile::of_runs(runs) };
    fit_profiles(&[profile])
}

fn run(operator: &str, index: usize, dry: &DryRun) -> Result<Run, Error> {
    let refused = || Error::Shape(format!("the events of {operator} are not those of its blocks"));
    let mut program = Program::default();
    let mut numbers: HashMap<usize, usize> = HashMap::new(); // of the blocks that a law is made of
    let (mut live, mut peak) = (0u64, 0u64);
    for &event in &dry.events {
        let (block, allocates) = if event < 0 { (-1 - event, false) } else { (event, true) };
        let block = usize::try_from(block).map_err(|_| refused())?;
        let bytes = *dry.blocks.get(block).ok_or_else(refused)?;
        let after = if allocates { live.checked_add(bytes) } else { live.checked_sub(bytes) };
        live = after.ok_or_else(refused)?;
        peak = peak.max(live);
        if bytes < MIN_BYTES {
            continue;
        }
        if allocates {
            numbers.insert(block, program.blocks.len());
            program.events.push(Event::Alloc(program.blocks.len()));
            program.blocks.push(Block {
                kind: Kind::PoolBlock,
                bytes,
                output: false,
                site: None,
                untouched: 0,
            });
        } else {
            program.events.push(Event::Free(numbers.remove(&block).ok_or_else(refused)?));
        }
    }
    let array = ArrayInfo {
        shape: dry.shape.clone(),
        dtype: "|V0".to_owned(), // arguments, no elements
        layout: "C".to_owned(),
        ..ArrayInfo::default()
    };
    let span = SpanRow {
        operator: operator.to_owned(),
        call: 1, // not a first call: all that is allocated is part of the run
        process: u32::try_from(index).unwrap_or(u32::MAX),
        end_ns: Some(0),
        inputs: [array].into(),
        device_peak_bytes: Some(peak),
        allocations: dry.blocks.len() as u64,
        ..SpanRow::default()
    };
    Ok(Run { span, on_devices: program, ..Run::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two axes, a square in one: weights, activations, and scores that are gone before the last.
    fn dry(batch: u64, length: u64) -> DryRun {
        let blocks =
            vec![1_000_000, 4 * batch * length * 64, 4 * batch * length * length, 8 * batch * length * 64];
        let events = vec![0, 1, 2, -3, 3, -4, -2];
        DryRun { shape: vec![batch, length], blocks, events, reserved_peak: 4_000_000 * batch }
    }

    #[test]
    fn a_law_of_batch_and_sequence() {
        let runs: Vec<DryRun> = [(2, 33), (3, 70), (5, 101), (7, 47)].map(|(b, s)| dry(b, s)).into();
        let model = fit_dry_runs("train", &runs).unwrap();
        let peak = 1_000_000 + 4 * 16 * 1024 * 64 + 4 * 16 * 1024 * 1024; // the scores, not what comes after them
        let there = model.laws[0].bytes(&[16, 1024]).unwrap().device;
        assert_eq!(there.working, peak);
        assert!(
            there.reserved > 1.0 && there.reserved(peak) > peak,
            "the allocator kept more than it allocated"
        );
        assert_eq!(model.laws[0].bytes(&[16, 1024]).unwrap().working, 0, "nothing is known of the host");
    }

    #[test]
    fn events_of_other_blocks_are_refused() {
        for events in [vec![4], vec![-1], vec![0, -1, -1], vec![i64::MIN]] {
            let runs = [DryRun { events, ..dry(2, 33) }];
            assert!(fit_dry_runs("train", &runs).is_err());
        }
    }
}
