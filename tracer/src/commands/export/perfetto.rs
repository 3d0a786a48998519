//! Perfetto's own trace, a protobuf (`perfetto_trace.proto`): tracks for processes, threads and
//! counters, slices for operators.

use std::collections::HashMap;

use memtrace_analysis::report::export::{Exported, Span};
use prost::Message;

use super::nesting::UnderWay;

/// Values of `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const COUNTER: i32 = 4;
/// `CounterDescriptor.Unit`.
const SIZE_BYTES: i32 = 3;
/// All packets are of one writer.
const SEQUENCE: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(uint64, tag = "3")]
    uint_value: u64,
    #[prost(string, tag = "10")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Counter {
    #[prost(int32, tag = "3")]
    unit: i32,
}

/// Times are nanoseconds since the recording began. How many calls are not in it, since too many
/// overlap.
pub fn protobuf(exported: &Exported) -> (Vec<u8>, usize) {
    let mut tracks = Tracks::default();
    let (mut events, left_out) = slices(exported, &mut tracks);
    events.extend(counters(exported, &mut tracks));
    // What was written first of one time stays first.
    events.sort_by_key(|packet| packet.timestamp);
    let mut packet = tracks.packets;
    packet.append(&mut events);
    (Trace { packet }.encode_to_vec(), left_out)
}

/// Tracks of one thread: more calls that overlap are no picture.
const LANES_MAX: usize = 64;

/// A packet for each begin and end of a call. Calls that overlap others of their thread are on tracks of
/// their own below it, as far as there may be.
fn slices(exported: &Exported, tracks: &mut Tracks) -> (Vec<Packet>, usize) {
    let mut lanes: HashMap<(u32, u32), Vec<(u64, UnderWay)>> = HashMap::new();
    let mut packets = Vec::with_capacity(2 * exported.spans.len());
    let mut left_out = 0;
    for span in &exported.spans {
        let lanes = lanes.entry((span.process, span.tid)).or_default();
        let mut place = lanes.iter_mut().position(|(track, under_way)| {
            packets.extend(under_way.over(span).into_iter().map(|time| ended(*track, time)));
            under_way.begin(span)
        });
        if place.is_none() && lanes.len() < LANES_MAX {
            let track = match lanes.first() {
                None => tracks.thread(exported, span),
                Some((thread, _)) => tracks.below(*thread, "overlapping", None),
            };
            let mut under_way = UnderWay::default();
            under_way.begin(span);
            lanes.push((track, under_way));
            place = Some(lanes.len() - 1);
        }
        match place {
            Some(place) => packets.push(begun(lanes[place].0, span)),
            None => left_out += 1,
        }
    }
    let open = lanes.values().flatten();
    let ends = open.flat_map(|(track, under_way)| under_way.rest().map(|time| ended(*track, time)));
    packets.extend(ends);
    (packets, left_out)
}

fn begun(track_uuid: u64, span: &Span) -> Packet {
    let peak = Annotation { uint_value: span.working_peak, name: "working_peak_bytes".into() };
    let event = TrackEvent {
        r#type: SLICE_BEGIN,
        track_uuid,
        name: Some(span.operator.clone()),
        debug_annotations: vec![peak],
        ..TrackEvent::default()
    };
    event_at(span.start_ns, event)
}

fn ended(track_uuid: u64, time_ns: u64) -> Packet {
    event_at(time_ns, TrackEvent { r#type: SLICE_END, track_uuid, ..TrackEvent::default() })
}

fn event_at(time_ns: u64, event: TrackEvent) -> Packet {
    Packet {
        timestamp: Some(time_ns),
        trusted_packet_sequence_id: SEQUENCE,
        track_event: Some(event),
        track_descriptor: None,
    }
}

/// Live and resident bytes of each process.
fn counters(exported: &Exported, tracks: &mut Tracks) -> Vec<Packet> {
    let mut of: HashMap<(u32, &'static str), u64> = HashMap::new();
    let mut packets = Vec::with_capacity(2 * exported.points.len());
    for point in &exported.points {
        for (name, bytes) in [("live bytes", Some(point.live)), ("resident bytes", point.resident)] {
            let Some(bytes) = bytes else { continue };
            let track_uuid = *of.entry((point.process, name)).or_insert_with(|| {
                let process = tracks.process(exported, point.process);
                tracks.below(process, name, Some(Counter { unit: SIZE_BYTES }))
            });
            let counter_value = Some(i64::try_from(bytes).unwrap_or(i64::MAX));
            let event = TrackEvent { r#type: COUNTER, track_uuid, counter_value, ..TrackEvent::default() };
            packets.push(event_at(point.time_ns, event));
        }
    }
    packets
}

/// Tracks, each with a packet that describes it. They have the numbers 1, 2, …
#[derive(Default)]
struct Tracks {
    packets: Vec<Packet>,
    processes: HashMap<u32, u64>,
}

impl Tracks {
    fn add(&mut self, track: Track) -> u64 {
        let uuid = self.packets.len() as u64 + 1;
        self.packets.push(Packet {
            timestamp: None,
            trusted_packet_sequence_id: SEQUENCE,
            track_event: None,
            track_descriptor: Some(Track { uuid, ..track }),
        });
        uuid
    }

    fn process(&mut self, exported: &Exported, process: u32) -> u64 {
        if let Some(known) = self.processes.get(&process) {
            return *known;
        }
        let row = exported.processes.get(process as usize);
        let process_name = row.map_or_else(String::new, |row| row.command.clone());
        let described = Process { pid: pid(exported, process), process_name };
        let uuid = self.add(Track { process: Some(described), ..Track::default() });
        self.processes.insert(process, uuid);
        uuid
    }

    fn thread(&mut self, exported: &Exported, span: &Span) -> u64 {
        let parent_uuid = Some(self.process(exported, span.process));
        let thread = Some(Thread { pid: pid(exported, span.process), tid: span.tid as i32 });
        self.add(Track { thread, parent_uuid, ..Track::default() })
    }

    fn below(&mut self, parent: u64, name: &str, counter: Option<Counter>) -> u64 {
        self.add(Track { name: Some(name.into()), parent_uuid: Some(parent), counter, ..Track::default() })
    }
}

fn pid(exported: &Exported, process: u32) -> i32 {
    exported.processes.get(process as usize).map_or(process, |row| row.pid) as i32
}
