//! Strategies for what the tables do not declare.

use proptest::prelude::*;

use crate::column::text;
use crate::{Lost, Meta, OutOfMemory, Peak, Refused, Rows, Share, SiteShare, Totals};

pub(crate) fn meta() -> impl Strategy<Value = Meta> {
    let texts = prop::collection::vec(text(), 5);
    let lists = (prop::collection::vec(text(), 0..4), prop::collection::vec((text(), text()), 0..4));
    (texts, lists, any::<[u64; 8]>(), any::<[i64; 3]>(), any::<[Option<u32>; 4]>()).prop_map(
        |(texts, lists, numbers, times, options)| Meta {
            memtrace: texts[0].clone(),
            command: lists.0.clone(),
            cwd: texts[1].clone(),
            host: texts[2].clone(),
            kernel: texts[3].clone(),
            cpus: numbers[0] as u32,
            start_unix_ns: times[0],
            duration_ns: times[1],
            clock: texts[4].clone(),
            recorded: lists.1.into_iter().collect(),
            lost: Lost {
                events: numbers[1],
                late_events: numbers[2],
                unseen_releases: numbers[3],
                kernel_events: numbers[0],
                samples: numbers[6],
            },
            exit: options[0].map(|exit| exit as i32),
            user_ns: options[2].map(u64::from),
            system_ns: options[3].map(u64::from),
            peak: Peak {
                live_bytes: numbers[4],
                heap_bytes: numbers[5],
                heap_bytes_at_peak: numbers[5] / 2,
                mapped_bytes: numbers[7],
                resident_bytes: numbers[6],
                resident_sum_bytes: numbers[5],
                peak_ns: times[2],
                gc_independent_bytes: options[1].map(u64::from),
                gc_independent_upper_bytes: options[2].map(u64::from),
                garbage_at_peak_bytes: options[3].map(u64::from),
                device_driver_bytes: options[1].map(u64::from),
                device_used_bytes: options[0].map(u64::from),
            },
            totals: Totals { allocations: numbers[7], requested_bytes: numbers[0] },
            out_of_memory: vec![OutOfMemory {
                process: numbers[3] as u32,
                pid: numbers[2] as u32,
                command: texts[1].clone(),
                live_bytes: numbers[4],
                resident_bytes: numbers[5],
                limit_bytes: Some(numbers[6]),
                operators: vec![Share { name: texts[2].clone(), bytes: numbers[7] }],
                sites: vec![SiteShare { site: numbers[0], bytes: numbers[1] }],
            }],
            refused: vec![Refused {
                process: numbers[2] as u32,
                pid: numbers[3] as u32,
                command: texts[2].clone(),
                time_ns: times[1],
                requested_bytes: numbers[7],
                site: options[1].map(u64::from),
                limit_bytes: options[2].map(u64::from),
                live_bytes: numbers[0],
                operators: Vec::new(),
                sites: vec![SiteShare { site: numbers[1], bytes: numbers[0] }],
            }],
            rows: Rows {
                min_size_bytes: numbers[1],
                folded: numbers[2],
                aggregate: numbers[3] % 2 == 0,
                ..Rows::default()
            },
            notes: lists.0,
            ..Meta::default()
        },
    )
}
