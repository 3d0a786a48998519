//! Resident memory of a process that no allocation accounts for: its first stack, and the data of
//! its executable and libraries.

use std::path::Path;

use memtrace_wire::arch::page::bytes as page_bytes;
use object::{Object, ObjectSegment};

use super::maps::{self, Listed};
use super::resident::Pagemap;
use crate::symbols::Source;

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageMemory {
    /// The stack of the first thread.
    pub stack: u64,
    /// Variables, and what the dynamic linker or the program has written to elsewhere in private
    /// mappings of files.
    pub data: u64,
}

/// A mapping in /proc/PID/maps that is one of these.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    start: u64,
    bytes: u64,
    is_stack: bool,
}

impl ImageMemory {
    /// That of a process now; `thread` is its id in /proc. `None` if it is gone.
    pub fn of(thread: u32, pagemap: &mut Pagemap) -> Option<ImageMemory> {
        let text = maps::read(thread);
        if text.is_empty() {
            return None;
        }
        let (mut stack, mut data) = (0, 0);
        // As the process sees it: it may have a root of its own.
        let zeroed = |path: &str| zeroed_by(Path::new(&format!("/proc/{thread}/root{path}")));
        for mapping in mappings(&text, zeroed) {
            let bytes = pagemap.anonymous(mapping.start, mapping.bytes)?;
            *if mapping.is_stack { &mut stack } else { &mut data } += bytes;
        }
        Some(ImageMemory { stack, data })
    }
}

/// The stack, private mappings of files, and what lies right behind one that may be written to, as
/// far as the file has it (`zeroed`, in bytes by path): variables that begin with zeroes have no
/// place in it (proc_pid_maps(5); `_dl_map_segments` in glibc's elf/dl-map-segments.h maps them
/// so). What a program maps itself may come to lie there as well.
pub fn mappings(text: &str, zeroed: impl Fn(&str) -> u64) -> Vec<Mapping> {
    let mut found = Vec::new();
    // Where the last writable mapping of a file ends, and its path.
    let mut data = None;
    for Listed { start, end, rights, of_file, path } in maps::parse(text) {
        let private = rights.ends_with('p');
        let is_stack = path == "[stack]";
        let bytes = end.saturating_sub(start);
        let behind =
            data.filter(|(data_end, _)| *data_end == start && private && !of_file && path.is_empty());
        if private && of_file || is_stack {
            found.push(Mapping { start, bytes, is_stack });
        } else if let Some((_, file)) = behind
            && let bytes @ 1.. = zeroed(file).min(bytes)
        {
            found.push(Mapping { start, bytes, is_stack });
        }
        data = (private && of_file && rights.starts_with("rw")).then_some((end, path));
    }
    found
}

/// How much a loader maps behind the last page that an executable or library has in its file; 0 of
/// what is neither.
pub fn zeroed_by(path: &Path) -> u64 {
    let beyond = |source: &Source| {
        let pages = |address: u64| address.div_ceil(page_bytes()).saturating_mul(page_bytes());
        source
            .elf()?
            .segments()
            .map(|segment| {
                let (address, in_file) = (segment.address(), segment.file_range().1);
                pages(address.saturating_add(segment.size()))
                    .saturating_sub(pages(address.saturating_add(in_file)))
            })
            .max()
    };
    Source::open(path).as_ref().and_then(beyond).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use super::*;

    #[test]
    fn only_what_no_allocation_accounts_for() {
        let maps = "1000-2000 r-xp 00000000 fe:00 42 /bin/x\n\
                    2000-3000 rw-p 00001000 fe:00 42 /bin/x\n\
                    3000-5000 rw-p 00000000 00:00 0\n\
                    5000-6000 rw-p 00000000 00:00 0 [heap]\n\
                    7000-8000 rw-p 00000000 00:00 0\n\
                    8000-9000 rw-s 00000000 fe:00 43 /tmp/shared\n\
                    a000-c000 rw-p 00000000 00:00 0 [stack]\n\
                    c000-d000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        let found = |zeroed: u64| -> Vec<_> {
            let zeroed = |path: &str| if path == "/bin/x" { zeroed } else { 0 };
            mappings(maps, zeroed).iter().map(|m| (m.start, m.bytes, m.is_stack)).collect()
        };
        let data = |start, bytes| (start, bytes, false);
        let (file, stack) = ([data(0x1000, 0x1000), data(0x2000, 0x1000)], [(0xa000, 0x2000, true)]);
        assert_eq!(found(0x9000), [&file[..], &[data(0x3000, 0x2000)], &stack].concat());
        // The rest is the program's own, mapped right behind.
        assert_eq!(found(0x1000), [&file[..], &[data(0x3000, 0x1000)], &stack].concat());
        assert_eq!(found(0), [&file[..], &stack].concat());
    }

    #[test]
    fn a_file_says_how_much_is_zeroed() {
        assert_eq!(zeroed_by(Path::new("/proc/self/maps")), 0);
        assert_eq!(zeroed_by(Path::new("/nowhere")), 0);
        // Variables of this executable.
        static ZEROED: [AtomicU8; 1 << 20] = [const { AtomicU8::new(0) }; 1 << 20];
        std::hint::black_box(&ZEROED);
        let own = zeroed_by(&std::env::current_exe().unwrap());
        assert!((1 << 20..64 << 20).contains(&own), "{own}");
    }

    #[test]
    fn one_has_a_stack_and_data() {
        let own = std::process::id();
        let memory = ImageMemory::of(own, &mut Pagemap::open(own).unwrap()).unwrap();
        assert!(memory.stack >= 4096 && memory.data >= 4096, "{memory:?}");
    }
}
