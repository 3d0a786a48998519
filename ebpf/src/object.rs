//! The embedded object: relocated, its maps made, its programs ready to be loaded.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Object};
use memtrace_wire::arch::page::bytes as page_bytes;

use crate::btf::Types;
use crate::sys::Map;
use crate::{Error, Parts, release};

#[cfg(programs_built)]
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/memtrace.bpf.o"));
#[cfg(not(programs_built))]
const OBJECT: &[u8] = &[];

/// The structures of `bpf/kernel.h` that every kernel has.
const STRUCTURES: [&str; 8] = [
    "percpu_counter",
    "mm_struct",
    "signal_struct",
    "thread_info",
    "task_struct",
    "pt_regs",
    "bpf_array",
    "list_head",
];
/// Those of Linux before 6.2.
const OLDER: [&str; 2] = ["mm_rss_stat", "task_rss_stat"];

/// Maps by name, and instructions by program.
pub(crate) struct Relocated {
    pub(crate) maps: HashMap<String, Map>,
    pub(crate) programs: HashMap<String, Vec<bpf_insn>>,
    /// Counters of resident pages are those of Linux before 6.2 (`bpf/split.h`).
    pub(crate) is_split: bool,
}

/// What the programs are fitted to, besides the kernel's types.
pub(crate) struct Setting {
    /// Processors that there can be.
    pub(crate) processors: u32,
    pub(crate) parts: Parts,
    pub(crate) ring_bytes: u32,
    /// Programs run on perf events, which before Linux 6.1 may not make elements of a map as they
    /// come.
    pub(crate) on_perf_events: bool,
}

/// Fits the programs to the running kernel.
pub(crate) fn relocate(types: &Types, setting: &Setting) -> Result<Relocated, Error> {
    let (structures, [is_split, holds_back]) = types.only(&STRUCTURES, OLDER)?;
    if is_split && !holds_back {
        return Err(Error::Missing("struct task_rss_stat (it has fewer than four processors)".into()));
    }
    let can_look_elsewhere =
        !is_split || types.has_constant("bpf_func_id", "BPF_FUNC_map_lookup_percpu_elem");
    let globals = [
        ("processors", if can_look_elsewhere { setting.processors } else { 0 }),
        ("split", u32::from(is_split)),
        ("together", u32::from(release::is_since(6, 6))),
        ("joins_late", u32::from(setting.parts.running)),
        ("page_shift", page_bytes().trailing_zeros()),
    ]
    .map(|(name, value)| (name, value.to_ne_bytes()));
    let unfit = |error: &dyn std::error::Error| Error::Unfit(whole(error));
    let mut object = Object::parse(OBJECT).map_err(|error| unfit(&error))?;
    let globals = globals.iter().map(|(name, value)| (*name, (value.as_slice(), true)));
    object.patch_map_data(globals.collect()).map_err(|error| unfit(&error))?;
    let structures = Btf::parse(&structures, object.endianness).map_err(|error| unfit(&error))?;
    object.relocate_btf(&structures).map_err(|error| unfit(&error))?;
    let mut maps = HashMap::new();
    if let Some(events) = object.maps.get_mut("events") {
        events.set_max_entries(setting.ring_bytes);
    }
    for (name, description) in &object.maps {
        let is_made_before = setting.on_perf_events && name == "tasks";
        let flags = if is_made_before { 0 } else { description.map_flags() };
        let map = Map::create(name, description, flags)?;
        if description.section_kind() == EbpfSectionKind::Rodata {
            map.set(&0u32, description.data())?;
            map.freeze();
        }
        maps.insert(name.clone(), map);
    }
    let text = object.functions.keys().map(|(section, _)| *section).collect();
    let described: Vec<_> = object.maps.clone().into_iter().collect();
    let places = described.iter().map(|(name, map)| (name.as_str(), maps[name].fd.as_raw_fd(), map));
    object.relocate_maps(places, &text).map_err(|error| unfit(&error))?;
    object.relocate_calls(&text).map_err(|error| unfit(&error))?;
    let mut programs = HashMap::new();
    for (name, program) in &object.programs {
        let Some(function) = object.functions.get(&program.function_key()) else { continue };
        programs.insert(name.clone(), function.instructions.clone());
    }
    Ok(Relocated { maps, programs, is_split })
}

/// An error with what caused it, in one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
