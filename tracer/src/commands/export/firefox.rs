//! The Firefox Profiler's processed profile: allocations at the peak by call stack, operators as
//! markers, memory of each process as a counter.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo,
    MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, SamplingInterval, StackHandle,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use memtrace_analysis::report::export::Exported;

/// A call of an operator.
struct Call {
    operator: StringHandle,
    category: CategoryHandle,
    working_peak: u64,
}

impl StaticSchemaMarker for Call {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "memtrace-operator";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.peak}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "peak",
        label: "Working peak",
        format: MarkerFieldFormat::Bytes,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.operator
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.operator
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        self.working_peak as f64
    }
}

/// The profile of a trace.
pub fn json(exported: &Exported) -> Result<Vec<u8>> {
    let start = UNIX_EPOCH + Duration::from_nanos(exported.start_unix_ns.max(0) as u64);
    let mut profile = Profile::new(&exported.command, start.into(), SamplingInterval::from_millis(50));
    profile.set_os_name("Linux");
    profile.set_symbolicated(true);
    let processes = processes(exported, &mut profile);
    let first = match processes.first() {
        Some((_, thread)) => *thread,
        None => {
            let process = profile.add_process(&exported.command, 0, at(0));
            let thread = profile.add_thread(process, 0, at(0), true);
            extent(&mut profile, thread, 0, length(exported));
            thread
        }
    };
    allocations(exported, &mut profile, first);
    markers(exported, &mut profile, &processes, first);
    counters(exported, &mut profile, &processes);
    Ok(serde_json::to_vec(&profile)?)
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns)
}

/// Each with its first thread, whose name is the process's.
fn processes(exported: &Exported, profile: &mut Profile) -> Vec<(ProcessHandle, ThreadHandle)> {
    let length = length(exported);
    let added = exported.processes.iter().map(|process| {
        let handle = profile.add_process(&process.command, process.pid, at(process.start_ns));
        let thread = profile.add_thread(handle, process.pid, at(process.start_ns), true);
        if let Some(end) = process.end_ns {
            profile.set_process_end_time(handle, at(end));
            profile.set_thread_end_time(thread, at(end));
        }
        extent(profile, thread, process.start_ns, process.end_ns.unwrap_or(length).max(process.start_ns));
        (handle, thread)
    });
    added.collect()
}

/// The recording's length.
fn length(exported: &Exported) -> u64 {
    exported.duration_ns.max(0) as u64
}

/// A sample where a thread begins and one where it ends. The profiler shows threads that have samples,
/// and of all markers and counters what lies between the first sample and the last.
fn extent(profile: &mut Profile, thread: ThreadHandle, start: u64, end: u64) {
    for time in [start, end] {
        profile.add_sample(thread, at(time), None, CpuDelta::ZERO, 1);
    }
}

/// All call stacks are of the first process: they are sums over all.
fn allocations(exported: &Exported, profile: &mut Profile, thread: ThreadHandle) {
    let category = CategoryPairHandle::from(profile.add_category("Memory", CategoryColor::Blue));
    let mut stacks: Vec<StackHandle> = Vec::with_capacity(exported.frames.len());
    for frame in &exported.frames {
        let label = profile.intern_string(&frame.label());
        let info =
            FrameInfo { frame: Frame::Label(label), category_pair: category, flags: FrameFlags::empty() };
        let frame_handle = profile.intern_frame(thread, info);
        let parent = frame.parent.map(|parent| stacks[parent]);
        stacks.push(profile.intern_stack(thread, parent, frame_handle));
    }
    for (address, stack) in (1..).zip(exported.stacks.iter().filter(|stack| stack.at_peak > 0)) {
        let bytes = i64::try_from(stack.at_peak).unwrap_or(i64::MAX);
        profile.add_allocation_sample(thread, at(0), Some(stacks[stack.frame]), address, bytes);
    }
}

fn markers(
    exported: &Exported,
    profile: &mut Profile,
    processes: &[(ProcessHandle, ThreadHandle)],
    first: ThreadHandle,
) {
    let category = profile.add_category("Operators", CategoryColor::Orange);
    for span in &exported.spans {
        let thread = processes.get(span.process as usize).map_or(first, |(_, thread)| *thread);
        let operator = profile.intern_string(&span.operator);
        let timing = MarkerTiming::Interval(at(span.start_ns), at(span.end_ns()));
        profile.add_marker(thread, timing, Call { operator, category, working_peak: span.working_peak });
    }
}

fn counters(exported: &Exported, profile: &mut Profile, processes: &[(ProcessHandle, ThreadHandle)]) {
    let mut live = HashMap::new();
    for point in &exported.points {
        let index = point.process as usize;
        let Some((process, _)) = processes.get(index) else { continue };
        let (counter, before) = live.entry(point.process).or_insert_with(|| {
            let counter = profile.add_counter(*process, "malloc", "Memory", "Live bytes");
            // The profiler reads the first sample as 0, whatever it says.
            profile.add_counter_sample(counter, at(exported.processes[index].start_ns), 0.0, 0);
            (counter, 0.0)
        });
        let bytes = point.live as f64;
        profile.add_counter_sample(*counter, at(point.time_ns), bytes - *before, 0);
        *before = bytes;
    }
}
