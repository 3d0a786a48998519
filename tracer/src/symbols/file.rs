//! Everything that is known of addresses in one file.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::Place;
use super::debug_info;
use super::demangle::{demangle, demangle_in};
use super::elf::{Source, build_id};
use super::embedded;
use super::functions::{EVALUATION, Functions, symbols};
use super::separate;
use object::Object;

/// Functions of CPython, of glibc and of the probe.
const RUNTIMES: [&str; 3] = [EVALUATION, "__libc_start_main", "memtrace_span_begin"];

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
        let own = symbols(&binary);
        // What runs a program is named too, but says little about it: to read some 30 MB of debug
        // information for its lines would take longer than most programs.
        let is_runtime = own.iter().any(|function| RUNTIMES.contains(&function.name));
        let functions = Functions::new(own.into_iter().chain(separately));
        let (described, at) =
            if bare { (debug.as_ref(), separate.as_ref()) } else { (Some(&binary), Some(&source)) };
        let shared = at.and_then(separate::shared);
        let shared = shared.as_ref().and_then(Source::elf);
        let mut places = described
            .filter(|_| !is_runtime)
            .and_then(|file| debug_info::places(file, shared.as_ref(), &self.addresses))
            .unwrap_or_default();
        for address in &self.addresses {
            // The linker's name distinguishes overloads and clones; the compiler's is all there is
            // of inlined ones.
            if let Some(name) = functions.find(*address) {
                let chain = places.entry(*address).or_default();
                match chain.last_mut() {
                    Some(outermost) => {
                        outermost.function = Some(demangle_in(name, outermost.file.as_deref()));
                    }
                    None => chain.push(Place { function: Some(demangle(name)), ..Place::default() }),
                }
            }
        }
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An executable of a few lines with debug information; `None` without a compiler.
    fn program(folder: &Path) -> Option<PathBuf> {
        let (source, binary) = (folder.join("a.c"), folder.join("a"));
        std::fs::write(
            &source,
            "static inline __attribute__((always_inline)) int f(int x) { return x * x; }\n\
             int main(int argc, char **argv) { return f(argc); }\n",
        )
        .ok()?;
        let mut gcc = std::process::Command::new("gcc");
        gcc.args(["-O1", "-g", "-Wl,--build-id=none", "-o"]).args([&binary, &source]);
        gcc.status().ok().filter(|status| status.success()).map(|_| binary)
    }

    fn look_up(path: &Path, addresses: std::ops::Range<u64>) -> Places {
        let file = Wanted { paths: vec![path.into()], addresses: addresses.collect(), ..Wanted::default() };
        file.look_up()
    }

    /// Whatever is damaged in a file, looking it up ends, and only what was requested is named.
    #[test]
    fn damaged_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(binary) = program(folder.path()) else {
            eprintln!("not checked: gcc is not installed");
            return;
        };
        let whole = std::fs::read(&binary).expect("it was built");
        let inlined = look_up(&binary, 0x1000..0x1400).into_values().find(|places| places.len() == 2);
        let names = inlined.expect("f is inlined into main").into_iter().map(|place| place.function);
        assert!(names.eq(["f", "main"].map(|name| Some(name.into()))));
        let damage = prop::collection::vec((0..whole.len(), any::<u8>()), 1..64);
        let damaged = folder.path().join("b");
        proptest!(ProptestConfig::with_cases(512), |(damage in damage, length in 0..=whole.len())| {
            let mut bytes = whole.clone();
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            bytes.truncate(if length % 4 == 0 { length } else { whole.len() });
            std::fs::write(&damaged, bytes).expect("a file");
            let found = look_up(&damaged, 0x1000..0x1400);
            prop_assert!(found.keys().all(|address| (0x1000..0x1400).contains(address)));
        });
    }
}
