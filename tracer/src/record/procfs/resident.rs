//! A process in /proc: its resident size, and which pages of its mappings are in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use memtrace_wire::arch::page::bytes as page_bytes;

/// Resident size as the kernel counts it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Now (VmRSS).
    pub now: u64,
    /// Largest so far (VmHWM).
    pub peak: u64,
    /// Its page tables (VmPTE), not among them.
    pub page_tables: u64,
}

/// Reads /proc/PID/status; `None` once the process is gone.
pub fn resident(pid: u32) -> Option<Resident> {
    parse_status(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The same, and the id under which /proc has it: the process's, or, where its first thread has
/// ended before the others, that of one of those, because a zombie has no memory.
pub fn resident_thread(pid: u32) -> Option<(u32, Resident)> {
    let read = |id| Some((id, resident(id)?));
    read(pid).or_else(|| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut ids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.find_map(read)
    })
}

pub fn parse_status(text: &str) -> Option<Resident> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(Resident { now: field("VmRSS:")?, peak: field("VmHWM:")?, page_tables: field("VmPTE:")? })
}

/// /proc/PID/pagemap, where bit 63 of a page's entry says that it is in memory and bit 62 that it
/// is swapped out, bit 61 that it is of a file or shared (admin-guide/mm/pagemap).
pub struct Pagemap {
    file: File,
    buffer: Vec<u8>,
    left: u64,
    /// Some mapping was too large to be measured.
    pub passed_over: bool,
}

/// Address space measured at one time: 8 bytes are read for every page of it, touched or not, while
/// the rings fill. Reservations of virtual machines and sanitizers are larger by far.
pub const MEASURED_MAX: u64 = 4 << 30;

const IN_USE: u64 = 0b11 << 62;
const IN_MEMORY: u64 = 1 << 63;
const OF_A_FILE: u64 = 1 << 61;

impl Pagemap {
    /// `None` if the process is gone or another user's.
    pub fn open(pid: u32) -> Option<Pagemap> {
        let file = File::open(format!("/proc/{pid}/pagemap")).ok()?;
        Some(Pagemap { file, buffer: vec![0; 1 << 16], left: MEASURED_MAX, passed_over: false })
    }

    /// Bytes of the mapping that are in memory or in swap.
    pub fn touched(&mut self, start: u64, bytes: u64) -> Option<u64> {
        self.measurable(bytes)?;
        self.count(start, bytes, |entry| entry & IN_USE != 0)
    }

    /// Bytes of a range that are in memory and of no file, nor shared: its own, or copied when it
    /// wrote to them.
    pub fn anonymous(&mut self, start: u64, bytes: u64) -> Option<u64> {
        self.count(start, bytes, |entry| entry & (IN_MEMORY | OF_A_FILE) == IN_MEMORY)
    }

    /// Bytes of a mapping of a file that were written to, and so are copies.
    pub fn copied(&mut self, start: u64, bytes: u64) -> Option<u64> {
        self.measurable(bytes)?;
        self.count(start, bytes, |entry| entry & IN_USE != 0 && entry & OF_A_FILE == 0)
    }

    /// Calls `each` with the address and length of what is in memory of a mapping, or in swap, page
    /// by page.
    pub fn each_touched(&mut self, start: u64, bytes: u64, mut each: impl FnMut(u64, u64)) {
        if self.measurable(bytes).is_some() {
            self.entries(start, bytes, |page, entry| {
                if entry & IN_USE != 0 {
                    each(page * page_bytes(), page_bytes());
                }
            });
        }
    }

    /// `None` if that is more than is measured at one time.
    fn measurable(&mut self, bytes: u64) -> Option<()> {
        self.passed_over |= bytes > self.left;
        (bytes <= self.left).then_some(())
    }

    /// Bytes of the pages whose entries are like this.
    fn count(&mut self, start: u64, bytes: u64, is_it: impl Fn(u64) -> bool) -> Option<u64> {
        let mut pages = 0;
        self.entries(start, bytes, |_, entry| pages += u64::from(is_it(entry)))?;
        Some(pages * page_bytes())
    }

    /// Calls `each` with every page of a range and its entry.
    fn entries(&mut self, start: u64, bytes: u64, mut each: impl FnMut(u64, u64)) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        let (mut page, end) = (start / page_bytes(), start.saturating_add(bytes).div_ceil(page_bytes()));
        while page < end {
            let want = ((end - page) as usize * 8).min(self.buffer.len());
            let got = self.file.read_at(&mut self.buffer[..want], page * 8).ok()? / 8;
            if got == 0 {
                return None;
            }
            let (entries, _) = self.buffer[..got * 8].as_chunks::<8>();
            for (entry, page) in entries.iter().zip(page..) {
                each(page, u64::from_le_bytes(*entry));
            }
            page += got as u64;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::*;

    #[test]
    fn status_is_read_in_bytes() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     512 kB\nVmPTE:\t      52 kB\n";
        let page_tables = 52 * 1024;
        assert_eq!(parse_status(text), Some(Resident { now: 512 * 1024, peak: 2048 * 1024, page_tables }));
        assert_eq!(parse_status("Name:\tkernel thread\n"), None);
    }

    #[test]
    fn touched_pages_of_a_mapping_are_counted() {
        let bytes = 64 * page_bytes();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, written to only inside its bounds and unmapped at the end.
        unsafe {
            let start = mmap_anonymous(null_mut(), bytes as usize, protection, flags).expect("a mapping");
            let _ = madvise(start, bytes as usize, Advice::LinuxNoHugepage);
            let from = start as u64;
            let mut pagemap = Pagemap::open(std::process::id()).expect("one's own pagemap can be read");
            assert_eq!(pagemap.touched(from, bytes), Some(0));
            for page in 0..5 {
                start.cast::<u8>().add(page * 2 * page_bytes() as usize).write_volatile(1);
            }
            assert_eq!(pagemap.touched(from, bytes), Some(5 * page_bytes()));
            assert_eq!(pagemap.anonymous(from, 3 * page_bytes()), Some(2 * page_bytes()));
            munmap(start, bytes as usize).expect("it is mapped");
        }
    }
}
