//! Lines of /proc/PID/maps (proc_pid_maps(5)).

/// A mapping, as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its first address.
    pub start: u64,
    /// One past its last.
    pub end: u64,
    /// Four letters: `rwx`, each or `-`, and `p` for private or `s` for shared.
    pub rights: &'a str,
    /// It is of a file, or of memory that has a place in a file system.
    pub of_file: bool,
    /// The file, a name in brackets, or nothing.
    pub path: &'a str,
}

impl Listed<'_> {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The text of a process; empty if it is gone or another user's.
pub fn read(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// The mappings in a text, in order; what is no such line is left out.
pub fn parse(text: &str) -> impl Iterator<Item = Listed<'_>> {
    text.lines().filter_map(parse_line)
}

fn parse_line(line: &str) -> Option<Listed<'_>> {
    // Range, rights, offset, device, inode; then the path, which may have spaces in it.
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let (rights, inode) = (fields.next()?, fields.nth(2)?);
    let path = fields.next().unwrap_or_default().trim_start();
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Listed { start: address(start)?, end: address(end)?, rights, of_file: inode != "0", path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_have_spaces_or_be_missing() {
        let text = "1000-3000 rw-p 00000000 00:00 0 \n\
                    nonsense\n\
                    3000-4000 r-xp 00001000 fe:00 42                 /opt/my program (deleted)\n";
        let anonymous = Listed { start: 0x1000, end: 0x3000, rights: "rw-p", of_file: false, path: "" };
        let path = "/opt/my program (deleted)";
        let file = Listed { start: 0x3000, end: 0x4000, rights: "r-xp", of_file: true, path };
        assert_eq!(parse(text).collect::<Vec<_>>(), [anonymous, file]);
        assert_eq!(anonymous.bytes(), 0x2000);
    }
}
