//! Whether programs may use CUDA here: the second library is preloaded only where there is a
//! driver.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::libraries::find_library;

/// Whether memory on devices is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cuda {
    /// Where the dynamic linker finds a driver.
    #[default]
    Auto,
    /// Not at all.
    Off,
}

impl Cuda {
    /// The library to preload, if any, and how the trace names that.
    pub fn library(self) -> (Option<PathBuf>, &'static str) {
        match self {
            Cuda::Off => (None, "off"),
            Cuda::Auto if find_driver().is_none() => (None, "no driver"),
            Cuda::Auto => match find_cuda_probe() {
                Ok(library) => (Some(library), "driver calls"),
                Err(_) => (None, "no library"),
            },
        }
    }
}

/// Where the library is.
pub fn find_cuda_probe() -> Result<PathBuf> {
    find_library("libmemtrace_cuda.so", "memtrace-cuda-probe")
}

/// The name that every program opens the driver by.
const DRIVER: &str = "libcuda.so.1";

/// The driver as the dynamic linker would find it for a program with our environment (ld.so(8)): in
/// the folders that LD_LIBRARY_PATH names, in its cache, or where it always searches.
pub fn find_driver() -> Option<PathBuf> {
    const ALWAYS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let named = folders(path.as_bytes()).map(|folder| folder.join(DRIVER));
    let always = ALWAYS.iter().map(|folder| Path::new(folder).join(DRIVER));
    named.chain(cached(&cache)).chain(always).find(|place| place.is_file())
}

/// The folders of a search path; an empty one is the working directory.
fn folders(path: &[u8]) -> impl Iterator<Item = PathBuf> {
    let parts = path.split(|byte| matches!(byte, b':' | b';')).filter(|_| !path.is_empty());
    parts.map(|part| PathBuf::from(OsStr::from_bytes(if part.is_empty() { b"." } else { part })))
}

/// The driver's files among the paths of the linker's cache, whose strings end with NUL each.
fn cached(cache: &[u8]) -> impl Iterator<Item = PathBuf> {
    let paths = cache.split(|byte| *byte == 0).filter_map(|text| {
        // The first string follows the table without a NUL in between.
        let start = text.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&text[start..])))
    });
    paths.filter(|path| path.file_name() == Some(OsStr::new(DRIVER))).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_separated_as_the_dynamic_linker_does() {
        assert_eq!(folders(b"").count(), 0);
        let found: Vec<PathBuf> = folders(b"/a:;/b").collect();
        assert_eq!(found, ["/a", ".", "/b"].map(PathBuf::from));
    }

    #[test]
    fn the_cache_is_searched_for_the_name_alone() {
        let cache =
            b"\x01\x02ldconfig\0libcuda.so.1\0/x/libcuda.so.1.1\0/x/libcuda.so.1\0/y/libcudart.so.12\0";
        assert_eq!(cached(cache).collect::<Vec<_>>(), [PathBuf::from("/x/libcuda.so.1")]);
        assert_eq!(cached(b"").count(), 0);
    }
}
