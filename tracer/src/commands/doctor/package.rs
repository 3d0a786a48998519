//! The package that memtrace was installed from. What packs it names that in a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Where the file is below the prefix of an installation. It has one word.
const FILE: &str = "libexec/memtrace/package";
/// Most bytes of it, with the end of its line.
const WORD_MAX: usize = 16;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The package of this executable, and what to install for more.
pub fn of(executable: &Path) -> String {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(folder);
    match named(&prefix.join(FILE)) {
        Some(kind) => installed(&kind, prefix),
        None => format!(
            "built from source, in {}; ./scripts/wheel makes the wheel, and ./scripts/packages a tarball, .deb and .rpm",
            folder.display()
        ),
    }
}

fn installed(kind: &str, prefix: &Path) -> String {
    let name = match kind {
        "deb" => "Debian package",
        "rpm" => "RPM package",
        other => other,
    };
    let has = match kind {
        "wheel" => "the command and the Python module",
        _ => {
            "the command, and what C, C++ and Fortran include; for the Python module, install the wheel of this release"
        }
    };
    format!("{name} {VERSION} in {}: {has}", prefix.display())
}

/// The word in the file; `None` if it is not there, or is no word.
fn named(file: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(file).ok()?.take(WORD_MAX as u64 + 1).read_to_string(&mut text).ok()?;
    let word = text.trim_end();
    let fits = !word.is_empty() && text.len() <= WORD_MAX;
    let is_word = fits && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_word.then(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_package() {
        let prefix = tempfile::tempdir().unwrap();
        let (executable, file) = (prefix.path().join("bin/memtrace"), prefix.path().join(FILE));
        let place = format!("{VERSION} in {}: the command", prefix.path().display());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (word, begins, wheel_wanted) in [
            ("wheel\n", format!("wheel {place} and the Python module"), false),
            ("deb\n", format!("Debian package {place}"), true),
            ("rpm", format!("RPM package {place}"), true),
            ("tarball\n", format!("tarball {place}"), true),
        ] {
            std::fs::write(&file, word).unwrap();
            let said = of(&executable);
            assert!(said.starts_with(&begins), "{said}");
            assert_eq!(said.ends_with("the wheel of this release"), wheel_wanted, "{said}");
        }
    }

    #[test]
    fn without_a_word_it_was_built() {
        let prefix = tempfile::tempdir().unwrap();
        let (executable, file) = (prefix.path().join("bin/memtrace"), prefix.path().join(FILE));
        assert!(of(&executable).starts_with("built from source, in "));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for other in ["", "\n", "two words", "\u{1b}[2J", &"x".repeat(4096)] {
            std::fs::write(&file, other).unwrap();
            assert!(of(&executable).starts_with("built from source"), "{other:?}");
        }
        assert!(of(Path::new("memtrace")).starts_with("built from source"));
    }
}
