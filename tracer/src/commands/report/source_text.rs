//! The text of source lines, as far as the files are there and have not changed since.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memtrace_trace::Meta;

use crate::terminal::clean;

/// Larger files are no sources.
const FILE_MAX: u64 = 16 << 20;
/// Longer lines are not written by people.
const LINE_MAX: usize = 1000;

/// Source files of a recording.
pub struct SourceText {
    folder: PathBuf,
    recorded: SystemTime,
    known: HashMap<(String, u32), Option<String>>,
}

impl SourceText {
    /// Relative paths are those of the recorded command.
    pub fn of(meta: &Meta) -> SourceText {
        let recorded = UNIX_EPOCH + Duration::from_nanos(meta.start_unix_ns.max(0) as u64);
        SourceText { folder: PathBuf::from(&meta.cwd), recorded, known: HashMap::new() }
    }

    /// What a table shows of a line; nothing where it is not known.
    pub fn shown(&mut self, source: Option<(&str, u32)>) -> String {
        source.and_then(|(file, line)| self.line(file, line)).map_or(String::new(), |text| clean(&text))
    }

    /// Those of the wanted lines of a file that are known, whole; for others to read, so only of a
    /// file below the working directory of the recorded command.
    pub fn lines(&self, file: &str, wanted: &BTreeSet<u32>) -> Vec<(u32, String)> {
        let path = self.below_folder(file);
        let Some(lines) = path.and_then(|path| open(&path, self.recorded)) else { return Vec::new() };
        let last = wanted.last().copied().unwrap_or(0);
        let numbered = (1..=last).zip(lines.map_while(Result::ok));
        let is_wanted = |(line, text): &(u32, String)| wanted.contains(line) && text.len() <= LINE_MAX;
        numbered.filter(is_wanted).map(|(line, text)| (line, text.trim_end().to_string())).collect()
    }

    /// The real path of a file, if it is below the folder and nothing on the way is hidden. A trace
    /// can name any file: `/` as its folder has none.
    fn below_folder(&self, file: &str) -> Option<PathBuf> {
        let folder = self.folder.canonicalize().ok().filter(|folder| folder.parent().is_some())?;
        let path = folder.join(file).canonicalize().ok()?;
        let mut parts = path.strip_prefix(&folder).ok()?.iter();
        (!parts.any(|part| part.as_encoded_bytes().starts_with(b"."))).then_some(path)
    }

    /// A line without its indentation.
    fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let (folder, recorded) = (&self.folder, self.recorded);
        let key = (file.to_string(), line);
        self.known.entry(key).or_insert_with(|| read(&folder.join(file), line, recorded)).clone()
    }
}

fn open(path: &Path, recorded: SystemTime) -> Option<Lines<BufReader<File>>> {
    let about = std::fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > FILE_MAX || about.modified().ok()? > recorded {
        return None;
    }
    Some(BufReader::new(File::open(path).ok()?).lines())
}

fn read(path: &Path, line: u32, recorded: SystemTime) -> Option<String> {
    let lines = open(path, recorded)?;
    let text = lines.map_while(Result::ok).nth(line.checked_sub(1)? as usize)?;
    let text = text.trim();
    (!text.is_empty() && text.len() <= LINE_MAX).then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_since_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), "import os\n    b = a * 2\n").unwrap();
        let cwd = folder.path().display().to_string();
        let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        let meta = Meta { cwd: cwd.clone(), start_unix_ns: later.as_nanos() as i64, ..Meta::default() };
        let mut text = SourceText::of(&meta);
        assert_eq!(text.line("a.py", 2).as_deref(), Some("b = a * 2"));
        let wanted = BTreeSet::from([2, 9]);
        assert_eq!(text.lines("a.py", &wanted), [(2, "    b = a * 2".to_string())]);
        assert_eq!((text.line("a.py", 0), text.line("a.py", 9), text.line("b.py", 1)), (None, None, None));
        let meta = Meta { cwd, start_unix_ns: 1, ..Meta::default() };
        assert_eq!(SourceText::of(&meta).line("a.py", 2), None);
    }

    #[test]
    fn lines_are_those_of_files_below_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().display().to_string();
        let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        let meta = Meta { cwd, start_unix_ns: later.as_nanos() as i64, ..Meta::default() };
        let text = SourceText::of(&meta);
        std::fs::write(folder.path().join("a.py"), "import os\n").unwrap();
        assert_eq!(text.lines("a.py", &BTreeSet::from([1])).len(), 1);
        std::fs::write(folder.path().join(".secret"), "password\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.py")).unwrap();
        for outside in ["/etc/passwd", "../../../../../../etc/passwd", "link.py", ".secret"] {
            assert_eq!(text.lines(outside, &BTreeSet::from([1])), []);
        }
        let all = Meta { cwd: "/".into(), ..meta };
        assert_eq!(SourceText::of(&all).lines("/etc/passwd", &BTreeSet::from([1])), []);
    }
}
