//! Trace events in JSON, as chrome://tracing defined them and Perfetto reads them: complete events for
//! operators, counters for memory.

use std::collections::HashMap;

use anyhow::Result;
use memtrace_analysis::report::export::Exported;
use serde::Serialize;
use serde_json::{Value, json};

use super::EXPORTER;
use super::nesting::UnderWay;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    trace_events: Vec<Value>,
    display_time_unit: &'static str,
    other_data: OtherData<'a>,
}

#[derive(Serialize)]
struct OtherData<'a> {
    command: &'a str,
    exporter: &'static str,
}

/// Times are microseconds since the recording began.
pub fn json(exported: &Exported) -> Result<Vec<u8>> {
    let pid = |process: u32| exported.processes.get(process as usize).map_or(process, |row| row.pid);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let mut events = Vec::new();
    for process in &exported.processes {
        events.push(json!({
            "ph": "M", "name": "process_name", "pid": process.pid, "tid": 0,
            "args": {"name": process.command},
        }));
    }
    let mut under_way = HashMap::<(u32, u32), UnderWay>::new();
    for (number, span) in exported.spans.iter().enumerate() {
        let mut call = json!({
            "cat": "operator", "name": span.operator, "pid": pid(span.process), "tid": span.tid,
            "ts": micros(span.start_ns), "args": {"working_peak_bytes": span.working_peak},
        });
        let track = under_way.entry((span.process, span.tid)).or_default();
        track.over(span);
        if track.begin(span) {
            call["ph"] = "X".into();
            call["dur"] = micros(span.length_ns).into();
            events.push(call);
        } else {
            call["ph"] = "b".into();
            call["id"] = number.into();
            events.push(call);
            events.push(json!({
                "ph": "e", "cat": "operator", "name": span.operator, "pid": pid(span.process),
                "tid": span.tid, "ts": micros(span.end_ns()), "id": number,
            }));
        }
    }
    for point in &exported.points {
        let (pid, ts) = (pid(point.process), micros(point.time_ns));
        let mut counter = |name: &str, bytes: u64| {
            events.push(json!({
                "ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": {"bytes": bytes},
            }));
        };
        counter("live", point.live);
        if let Some(resident) = point.resident {
            counter("resident", resident);
        }
    }
    let other_data = OtherData { command: &exported.command, exporter: EXPORTER };
    Ok(serde_json::to_vec(&File { trace_events: events, display_time_unit: "ms", other_data })?)
}
