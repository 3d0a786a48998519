//! Lines and inlined functions, from DWARF.

use std::borrow::Cow;

use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;

use super::Place;
use super::demangle::{demangle, shorten};
use super::elf::Elf;

type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Debug information of a file that unpacks to more is not read: it would be in memory as a whole.
const BYTES_MAX: u64 = 1 << 30;
/// Functions inlined into one another at one instruction.
const INLINED_MAX: usize = 64;
/// The sections that say where lines and functions are.
const READ: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// True if a file has debug information.
pub fn is_in(file: &Elf<'_>) -> bool {
    file.section_by_name(SectionId::DebugInfo.name()).is_some_and(|section| section.size() > 0)
}

/// What is at each of the addresses: the innermost inlined function first, the function itself
/// last. `shared` is the file that dwz(1) has moved common parts to.
pub fn places(
    file: &Elf<'_>,
    shared: Option<&Elf<'_>>,
    addresses: &[u64],
) -> Option<FxHashMap<u64, Vec<Place>>> {
    let mut room = BYTES_MAX;
    let sections = read(file, &mut room)?;
    let shared = shared.and_then(|shared| read(shared, &mut room));
    let slice = |bytes| EndianSlice::new(bytes, LittleEndian);
    let dwarf = sections.borrow_with_sup(shared.as_ref(), |section| slice(section));
    let context = Context::from_dwarf(dwarf).ok()?;
    let found = addresses.iter().map(|address| (*address, at(&context, *address)));
    Some(found.filter(|(_, places)| !places.is_empty()).collect())
}

fn read<'a>(file: &Elf<'a>, room: &mut u64) -> Option<Sections<'a>> {
    DwarfSections::load(|id| {
        let Some(section) = file.section_by_name(id.name()).filter(|_| READ.contains(&id)) else {
            return Ok(Cow::default());
        };
        let bytes = section.compressed_file_range().map_err(drop)?.uncompressed_size;
        *room = room.checked_sub(bytes).ok_or(())?;
        section.uncompressed_data().map_err(drop)
    })
    .ok()
}

fn at(context: &Context<Slice<'_>>, address: u64) -> Vec<Place> {
    let mut places = Vec::new();
    // Units that were split off (.dwo) stay unread: their skeletons have the lines.
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return places };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let location = frame.location.as_ref();
        places.push(Place {
            function: name.map(|name| demangle(&name)),
            file: location.and_then(|location| location.file).map(shorten),
            line: location.and_then(|location| location.line).filter(|line| *line > 0),
        });
        if places.len() == INLINED_MAX {
            break;
        }
    }
    places
}
