//! pprof: its protobuf (`profile.proto`), with the sample types of Go's heap profiles.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use memtrace_analysis::report::export::{Exported, Frame};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The profile of a trace, gzipped.
pub fn gzipped(exported: &Exported) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&profile(exported).encode_to_vec())?;
    Ok(encoder.finish()?)
}

fn profile(exported: &Exported) -> Profile {
    let mut tables = Tables::new();
    let mut profile = Profile {
        time_nanos: exported.start_unix_ns,
        duration_nanos: exported.duration_ns,
        ..Profile::default()
    };
    let types = [("inuse_space", "bytes"), ("alloc_space", "bytes"), ("alloc_objects", "count")];
    for (name, unit) in types.map(|(name, unit)| (tables.text(name), tables.text(unit))) {
        profile.sample_type.push(ValueType { r#type: name, unit });
    }
    profile.default_sample_type = tables.text("inuse_space");
    profile.comment = vec![tables.text(&exported.command), tables.text("inuse_space: live at the peak")];
    // The main executable comes first.
    tables.mapping(exported.processes.first().map_or("", |process| program(&process.command)));
    let mut of_frames = Vec::with_capacity(exported.frames.len());
    for frame in &exported.frames {
        let location = tables.location(frame);
        of_frames.push(location);
    }
    let used = |stack: &&memtrace_analysis::report::export::Stack| stack.at_peak > 0 || stack.allocated > 0;
    for stack in exported.stacks.iter().filter(used) {
        let frames = std::iter::successors(Some(stack.frame), |frame| exported.frames[*frame].parent);
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        profile.sample.push(Sample {
            location_id: frames.map(|frame| of_frames[frame]).collect(),
            value: [stack.at_peak, stack.allocated, stack.blocks].map(whole).to_vec(),
        });
    }
    let Tables { texts, mappings, locations, functions, .. } = tables;
    Profile { mapping: mappings, location: locations, function: functions, string_table: texts, ..profile }
}

fn program(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}

/// Texts, functions, locations and mappings, each one time.
struct Tables {
    texts: Vec<String>,
    of_text: HashMap<String, i64>,
    mappings: Vec<Mapping>,
    of_mapping: HashMap<String, u64>,
    functions: Vec<Function>,
    of_function: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    of_location: HashMap<(u64, u64, i64), u64>,
}

impl Tables {
    /// The first text is empty.
    fn new() -> Tables {
        Tables {
            texts: vec![String::new()],
            of_text: HashMap::from([(String::new(), 0)]),
            mappings: Vec::new(),
            of_mapping: HashMap::new(),
            functions: Vec::new(),
            of_function: HashMap::new(),
            locations: Vec::new(),
            of_location: HashMap::new(),
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.of_text.get(text) {
            return *known;
        }
        let number = self.texts.len() as i64;
        self.texts.push(text.into());
        self.of_text.insert(text.into(), number);
        number
    }

    /// The number of a library; 0 of none.
    fn mapping(&mut self, library: &str) -> u64 {
        if library.is_empty() {
            return 0;
        }
        if let Some(known) = self.of_mapping.get(library) {
            return *known;
        }
        let (id, filename) = (self.mappings.len() as u64 + 1, self.text(library));
        let known = true;
        let mapping =
            Mapping { id, filename, has_functions: known, has_filenames: known, has_line_numbers: known };
        self.mappings.push(mapping);
        self.of_mapping.insert(library.into(), id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (self.text(&frame.function), self.text(&frame.file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.of_function.entry(key).or_insert(next);
        if id == next {
            self.functions.push(Function { id, name: key.0, system_name: key.0, filename: key.1 });
        }
        id
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        let key = (self.mapping(&frame.library), self.function(frame), i64::from(frame.line));
        let next = self.locations.len() as u64 + 1;
        let id = *self.of_location.entry(key).or_insert(next);
        if id == next {
            let line = vec![Line { function_id: key.1, line: key.2 }];
            self.locations.push(Location { id, mapping_id: key.0, line });
        }
        id
    }
}
