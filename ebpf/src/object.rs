//! The embedded object: relocated, its maps made, its programs ready to be loaded.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Object};

use crate::Error;
use crate::btf::Types;
use crate::sys::Map;

#[cfg(programs_built)]
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/memtrace.bpf.o"));
#[cfg(not(programs_built))]
const OBJECT: &[u8] = &[];

/// The structures of `bpf/kernel.h`.
const STRUCTURES: [&str; 7] =
    ["percpu_counter", "mm_struct", "signal_struct", "thread_info", "task_struct", "pt_regs", "bpf_array"];

/// Maps by name, and instructions by program.
pub(crate) struct Relocated {
    pub(crate) maps: HashMap<String, Map>,
    pub(crate) programs: HashMap<String, Vec<bpf_insn>>,
}

/// Fits the programs to the running kernel.
pub(crate) fn relocate(
    types: &Types,
    processors: u32,
    joins_late: bool,
    ring_bytes: u32,
) -> Result<Relocated, Error> {
    let globals = [
        ("processors", processors),
        ("together", u32::from(counters_lie_together())),
        ("joins_late", u32::from(joins_late)),
    ]
    .map(|(name, value)| (name, value.to_ne_bytes()));
    let unfit = |error: &dyn std::error::Error| Error::Unfit(whole(error));
    let mut object = Object::parse(OBJECT).map_err(|error| unfit(&error))?;
    let globals = globals.iter().map(|(name, value)| (*name, (value.as_slice(), true)));
    object.patch_map_data(globals.collect()).map_err(|error| unfit(&error))?;
    let structures =
        Btf::parse(&types.only(&STRUCTURES)?, object.endianness).map_err(|error| unfit(&error))?;
    object.relocate_btf(&structures).map_err(|error| unfit(&error))?;
    let mut maps = HashMap::new();
    if let Some(events) = object.maps.get_mut("events") {
        events.set_max_entries(ring_bytes);
    }
    for (name, description) in &object.maps {
        let map = Map::create(name, description)?;
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
    Ok(Relocated { maps, programs })
}

/// Since Linux 6.6: see `bpf/resident.h`.
fn counters_lie_together() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
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
