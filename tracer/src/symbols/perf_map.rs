//! Names of code that a program has generated itself, from the file that it writes for perf: `START
//! SIZE NAME` in hex, a line per function (Linux, tools/perf/Documentation/jit-interface.txt).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use rustix::process::geteuid;

use super::demangle::shorten;

/// This much of a file is read.
const BYTES_MAX: u64 = 256 << 20;
/// What a line may take.
const LINE_MAX: u64 = 64 << 10;

/// Names of addresses, as far as they are known.
pub type Names = BTreeMap<u64, Option<String>>;

/// Names the addresses of a process: `pid` is its number in its own namespace, `shown` the one
/// under which /proc shows it, if it still does. `since` is when it cannot have been started yet
/// (seconds since 1970): older files are of another process that had its number.
pub fn name(names: &mut Names, pid: u32, shown: Option<u32>, since: i64) {
    let inside = shown.map(|shown| format!("/proc/{shown}/root/tmp/perf-{pid}.map"));
    let paths = inside.into_iter().chain([format!("/tmp/perf-{pid}.map")]);
    if let Some(file) = paths.filter_map(|path| open(&path, since)).next() {
        read(names, file.take(BYTES_MAX));
    }
}

/// Any user may write into /tmp: only a file of the user's own counts, and no link.
fn open(path: &str, since: i64) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    (about.is_file() && about.uid() == geteuid().as_raw() && about.mtime() >= since).then_some(file)
}

/// Later lines replace earlier ones: code is thrown away, and other code takes its place.
pub fn read(names: &mut Names, file: impl Read) {
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match file.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 => {}
            _ => return,
        }
        let Some((start, end, name)) = parse(&line) else { continue };
        for (_, known) in names.range_mut(start..end) {
            *known = Some(shorten(&String::from_utf8_lossy(name)));
        }
    }
}

fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut fields = line.trim_ascii().splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(fields.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let (start, length) = (number()?, number()?);
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some((start, start.checked_add(length)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
        let mut names: Names = addresses.iter().map(|address| (*address, None)).collect();
        read(&mut names, text);
        names.into_values().collect()
    }

    #[test]
    fn addresses_have_the_last_name_given_to_them() {
        let text = b"1000 20 first\n0x2000 10 a name with blanks\n1010 8 later\n3000 0 empty\nffffffffffffffff 2 over\n";
        let found = named(text, &[0x0fff, 0x1000, 0x1010, 0x1018, 0x1020, 0x200f, 0x3000]);
        let [first, later, blanks] = ["first", "later", "a name with blanks"].map(|name| Some(name.into()));
        assert_eq!(found, [None, first.clone(), later, first, None, blanks, None]);
    }

    #[test]
    fn only_a_file_of_ones_own_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("own"), "1000 10 f\n").expect("a file");
        std::os::unix::fs::symlink(path("own"), path("link")).expect("a link");
        assert!(open(&path("own"), 0).is_some());
        assert!(open(&path("own"), i64::MAX).is_none(), "of an earlier process");
        assert!(open(&path("link"), 0).is_none());
        assert!(open(&path("none"), 0).is_none());
        assert!(open("/dev/null", 0).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(text: Vec<u8>, addresses: Vec<u64>) {
            named(&text, &addresses);
        }
    }
}
