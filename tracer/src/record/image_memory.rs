//! Resident memory of a process that nobody has allocated: its first stack, and the data of its executable and libraries.

use super::maps::{self, Listed};
use super::sample::Pagemap;

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageMemory {
    /// The stack of the first thread.
    pub stack: u64,
    /// Variables, and what the dynamic linker or the program has written to elsewhere in private mappings of files.
    pub data: u64,
}

/// A mapping in /proc/PID/maps that is one of these.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    bytes: u64,
    is_stack: bool,
}

impl ImageMemory {
    /// Looks; `thread` is where /proc shows the process. `None` if it is gone.
    pub fn of(thread: u32, pagemap: &mut Pagemap) -> Option<ImageMemory> {
        let text = maps::read(thread);
        if text.is_empty() {
            return None;
        }
        let (mut stack, mut data) = (0, 0);
        for mapping in mappings(&text) {
            let bytes = pagemap.anonymous(mapping.start, mapping.bytes)?;
            *if mapping.is_stack { &mut stack } else { &mut data } += bytes;
        }
        Some(ImageMemory { stack, data })
    }
}

/// The stack, private mappings of files, and what lies right behind one that may be written to: variables that begin with
/// zeroes have no place in the file (proc_pid_maps(5); load_elf_library in glibc's elf/dl-map-segments.h maps them so).
fn mappings(text: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut data_end = None;
    for Listed { start, end, rights, of_file, path } in maps::parse(text) {
        let private = rights.ends_with('p');
        let behind = private && !of_file && path.is_empty() && data_end == Some(start);
        let of_file = private && of_file;
        let is_stack = path == "[stack]";
        if of_file || behind || is_stack {
            found.push(Mapping { start, bytes: end.saturating_sub(start), is_stack });
        }
        data_end = (of_file && rights.starts_with("rw")).then_some(end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_allocates() {
        let maps = "1000-2000 r-xp 00000000 fe:00 42 /bin/x\n\
                    2000-3000 rw-p 00001000 fe:00 42 /bin/x\n\
                    3000-5000 rw-p 00000000 00:00 0\n\
                    5000-6000 rw-p 00000000 00:00 0 [heap]\n\
                    7000-8000 rw-p 00000000 00:00 0\n\
                    8000-9000 rw-s 00000000 fe:00 43 /tmp/shared\n\
                    a000-c000 rw-p 00000000 00:00 0 [stack]\n\
                    c000-d000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        let found: Vec<_> = mappings(maps).iter().map(|m| (m.start, m.bytes, m.is_stack)).collect();
        let data = |start, bytes| (start, bytes, false);
        let expected =
            [data(0x1000, 0x1000), data(0x2000, 0x1000), data(0x3000, 0x2000), (0xa000, 0x2000, true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn one_has_a_stack_and_data() {
        let own = std::process::id();
        let memory = ImageMemory::of(own, &mut Pagemap::open(own).unwrap()).unwrap();
        assert!(memory.stack >= 4096 && memory.data >= 4096, "{memory:?}");
    }
}
