//! Everything that is known of addresses in one file.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::Place;
use super::debug_info;
use super::demangle::demangle;
use super::elf::{Source, build_id};
use super::embedded;
use super::functions::{Functions, symbols};
use super::separate;
use object::Object;

/// Addresses in a file that are to be named.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Its build id, empty if it has none.
    pub build_id: String,
    /// Where it is or was.
    pub paths: Vec<PathBuf>,
    /// Addresses of instructions, as stated in the file.
    pub addresses: Vec<u64>,
}

/// What is at an address: the innermost inlined function first, the function itself last.
pub type Places = FxHashMap<u64, Vec<Place>>;

impl Wanted {
    /// Looks all addresses up. None is found if the file is gone, or another one took its place.
    pub fn look_up(&self) -> Places {
        self.paths.iter().find_map(|path| self.look_up_in(path)).unwrap_or_default()
    }

    fn look_up_in(&self, path: &Path) -> Option<Places> {
        let source = Source::open(path)?;
        let binary = source.elf().filter(|elf| build_id(elf) == self.build_id)?;
        let stripped = binary.symbol_table().is_none();
        let bare = !debug_info::is_in(&binary);
        let separate = if stripped || bare { separate::find(path, &binary) } else { None };
        let debug = separate.as_ref().and_then(Source::elf);
        let embedded = if stripped { embedded::unpack(&binary) } else { None };
        let embedded = embedded.as_deref().and_then(|bytes| object::File::parse(bytes).ok());
        let separately = debug.iter().flat_map(symbols).chain(embedded.iter().flat_map(symbols));
        let functions = Functions::new(symbols(&binary).into_iter().chain(separately));
        let (described, at) =
            if bare { (debug.as_ref(), separate.as_ref()) } else { (Some(&binary), Some(&source)) };
        let shared = at.and_then(separate::shared);
        let shared = shared.as_ref().and_then(Source::elf);
        let mut places = described
            .and_then(|file| debug_info::places(file, shared.as_ref(), &self.addresses))
            .unwrap_or_default();
        for address in &self.addresses {
            // The linker's name tells overloads and clones apart; the compiler's is all there is of inlined ones.
            if let Some(name) = functions.find(*address) {
                let chain = places.entry(*address).or_default();
                match chain.last_mut() {
                    Some(outermost) => outermost.function = Some(demangle(name)),
                    None => chain.push(Place { function: Some(demangle(name)), ..Place::default() }),
                }
            }
        }
        Some(places)
    }
}
