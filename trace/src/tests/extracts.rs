//! Parts of tables are what the whole tables say.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use crate::rows::{FrameRow, ProcessRow, SiteRow, TimelineRow};
use crate::{Health, MemorySample, Meta, Trace, TraceWriter};

/// The frames of the stacks that end at `leaves`: callers have smaller numbers.
fn on_the_way(frames: &BTreeMap<u32, FrameRow>, leaves: &[u32]) -> HashMap<u32, FrameRow> {
    let mut found = HashMap::new();
    for leaf in leaves {
        let mut next = frames.get(leaf);
        while let Some(frame) = next {
            found.insert(frame.frame, frame.clone());
            next = frame.parent.filter(|parent| *parent < frame.frame).and_then(|parent| frames.get(&parent));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_of_tables_are_what_the_tables_say(
        processes in prop::collection::vec(any::<ProcessRow>(), 0..20),
        timeline in prop::collection::vec(any::<TimelineRow>(), 0..40),
        rows_of_a_part in 1usize..12,
        until_ns in any::<i64>(),
        sites in prop::collection::vec(any::<SiteRow>(), 0..20),
        frames in prop::collection::vec((any::<FrameRow>(), prop::option::of(0u32..60)), 0..60),
        leaves in prop::collection::vec(0u32..70, 0..5),
        picked in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let numbered = frames.into_iter().zip(0..).map(|((row, parent), frame)| FrameRow { frame, parent, ..row });
        let frames: BTreeMap<u32, FrameRow> = numbered.map(|row| (row.frame, row)).collect();
        let directory = tempfile::tempdir().unwrap();
        let mut writer = TraceWriter::create(directory.path()).unwrap();
        for rows in timeline.chunks(rows_of_a_part) {
            rows.iter().for_each(|row| writer.timeline(row.clone()).unwrap());
            writer.close_part().unwrap();
        }
        writer.processes(&processes).unwrap();
        writer.sites(&sites).unwrap();
        writer.frames(&frames.values().cloned().collect::<Vec<_>>()).unwrap();
        writer.finish(&Meta::default()).unwrap();
        let trace = Trace::open(directory.path()).unwrap();

        let health = processes.into_iter().map(|row| Health {
            process: row.process,
            lost_events: row.lost_events,
            allocator_settings: row.allocator_settings,
        });
        let mut health: Vec<Health> = health.collect();
        health.sort_by_key(|row| row.process);
        prop_assert_eq!(trace.health().unwrap(), health);
        // A time that a row has is the border of some part.
        for until_ns in [until_ns, timeline.first().map_or(0, |row| row.time_ns)] {
            let samples = timeline.iter().filter(|row| row.time_ns <= until_ns).map(|row| MemorySample {
                process: row.process,
                time_ns: row.time_ns,
                heap_bytes: row.heap_bytes,
                resident_bytes: row.resident_bytes,
            });
            prop_assert_eq!(trace.samples_until(until_ns).unwrap(), samples.collect::<Vec<_>>());
        }
        let wanted: HashSet<u64> = match sites.is_empty() {
            true => HashSet::from([7]),
            false => picked.iter().map(|index| index.get(&sites).site).collect(),
        };
        let found = sites.iter().filter(|row| wanted.contains(&row.site)).map(|row| (row.site, row.frame));
        prop_assert_eq!(trace.leaves(&wanted).unwrap(), found.collect::<HashMap<_, _>>());
        let stacks = on_the_way(&frames, &leaves);
        prop_assert_eq!(trace.frames_of(leaves).unwrap(), stacks);
    }
}
