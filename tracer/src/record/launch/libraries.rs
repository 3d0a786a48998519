//! The libraries that are preloaded, and where they are installed.

use std::ffi::CStr;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustc_hash::FxBuildHasher;

use crate::record::procfs::environment::PROBE;

/// The probe.
pub fn find_probe() -> Result<PathBuf> {
    find_library(PROBE, "memtrace-probe")
}

/// A library to preload: next to the executable, in `../libexec/memtrace` (installed) or
/// `../preload` (a build tree). Installed with a C library before glibc 2.34, a copy of it that loads
/// what the C library itself lacks.
pub fn find_library(name: &str, package: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe().context("cannot find where memtrace is installed")?;
    let directory = executable.parent().context("memtrace has no directory")?;
    let copy = if has_dlopen(&libc_version()) { "" } else { "../libexec/memtrace/before-2.34" };
    let places = [copy, "", "../libexec/memtrace", "../preload"];
    let mut candidates = places.iter().map(|place| directory.join(place).join(name));
    let found = candidates.find(|path| path.is_file()).with_context(|| {
        let executable = executable.display();
        format!("{name} is not next to {executable}: install memtrace again, or build it with `cargo build --profile preload -p {package}`")
    })?;
    // `..` may lead elsewhere after a chdir.
    let found = found.canonicalize()?;
    if is_listable(&found) { Ok(found) } else { linked(&found, &std::env::temp_dir()) }
}

/// Whether glibc of this version (`2.36`) has dlopen(3) and threads itself.
fn has_dlopen(version: &str) -> bool {
    let minor = version.strip_prefix("2.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.is_none_or(|minor: u32| minor >= 34)
}

fn libc_version() -> String {
    // SAFETY: gnu_get_libc_version(3) returns a string that stays.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// The dynamic linker reads the variable as a list, whose parts are separated by spaces and colons
/// (ld.so(8)).
fn is_listable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte))
}

/// A link to a library below `folder`, in a directory of the user's own, which processes that become
/// another user pass through. It stays: processes that outlive the recording start others with it.
fn linked(library: &Path, folder: &Path) -> Result<PathBuf> {
    let refused = || {
        let (library, folder) = (library.display(), folder.display());
        format!(
            "{library} cannot be preloaded, for its path has a space or a colon, and no link to it can be made in {folder}: install memtrace in another directory"
        )
    };
    let user = rustix::process::getuid().as_raw();
    let own = folder.join(format!("memtrace-{user}"));
    let place = own.join(format!("{:016x}", FxBuildHasher.hash_one(library.as_os_str().as_bytes())));
    DirBuilder::new().recursive(true).mode(0o700).create(&place).with_context(refused)?;
    // Another user who can write there could have other code preloaded.
    let about = own.symlink_metadata().with_context(refused)?;
    ensure!(about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0, refused());
    for folder in [&own, &place] {
        set_permissions(folder, Permissions::from_mode(0o711)).with_context(refused)?;
    }
    let link = place.join(library.file_name().unwrap_or_default());
    if !std::fs::read_link(&link).is_ok_and(|target| target == library) {
        // A recording that starts at the same time may make it first.
        let made = symlink(library, &link);
        let is_there = || std::fs::read_link(&link).is_ok_and(|target| target == library);
        ensure!(made.is_ok() || is_there(), refused());
    }
    ensure!(is_listable(&link), refused());
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_for_old_c_libraries() {
        assert!(["2.28", "2.31", "2.33.9"].iter().all(|version| !has_dlopen(version)));
        assert!(["2.34", "2.36", "2.40.9", "3.0"].iter().all(|version| has_dlopen(version)));
    }

    #[test]
    fn a_path_that_would_be_read_as_two_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("with space").join("lib.so");
        assert!(!is_listable(&library) && !is_listable(Path::new("/a:b")) && is_listable(folder.path()));
        for _ in 0..2 {
            let link = linked(&library, folder.path()).unwrap();
            assert_eq!(std::fs::read_link(&link).unwrap(), library);
            for folder in link.ancestors().skip(1).take(2) {
                assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o711, "other users pass");
            }
        }
        let nowhere = folder.path().join("file");
        std::fs::write(&nowhere, "").unwrap();
        let error = linked(&library, &nowhere).unwrap_err();
        assert!(format!("{error}").contains("install memtrace in another directory"));
    }
}
