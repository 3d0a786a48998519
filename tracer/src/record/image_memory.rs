//! Resident memory of a process that nobody has allocated: its first stack, and the data of its executable and libraries.

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
        let maps = std::fs::read_to_string(format!("/proc/{thread}/maps")).ok()?;
        let (mut stack, mut data) = (0, 0);
        for mapping in mappings(&maps) {
            let bytes = pagemap.anonymous(mapping.start, mapping.bytes)?;
            *if mapping.is_stack { &mut stack } else { &mut data } += bytes;
        }
        Some(ImageMemory { stack, data })
    }
}

/// The stack, private mappings of files, and what lies right behind one that may be written to: variables that begin with
/// zeroes have no place in the file (proc_pid_maps(5); load_elf_library in glibc's elf/dl-map-segments.h maps them so).
fn mappings(maps: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut data_end = None;
    for line in maps.lines() {
        let Some((start, end, rights, inode, path)) = parse(line) else { continue };
        let private = rights.ends_with('p');
        let of_file = private && inode != "0";
        let behind = private && inode == "0" && path.is_empty() && data_end == Some(start);
        let is_stack = path == "[stack]";
        if of_file || behind || is_stack {
            found.push(Mapping { start, bytes: end.saturating_sub(start), is_stack });
        }
        data_end = (of_file && rights.starts_with("rw")).then_some(end);
    }
    found
}

fn parse(line: &str) -> Option<(u64, u64, &str, &str, &str)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (rights, inode, path) = (fields.next()?, fields.nth(2)?, fields.next().unwrap_or_default());
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(start)?, address(end)?, rights, inode, path))
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
