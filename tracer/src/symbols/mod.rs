//! Names, lines and inlined functions of native frames, from files only: no process is read.
//!
//! While a program is recorded its frames are addresses in files. Once it has ended, [`name`] looks
//! them all up, each file once and several at a time.

mod debug_info;
mod demangle;
mod elf;
mod embedded;
mod expand;
mod file;
mod functions;
pub mod perf_map;
mod separate;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use memtrace_trace::Trace;
use memtrace_trace::rows::{FrameRow, SiteRow};

use self::expand::expand;

#[cfg(any(test, feature = "fuzz"))]
pub use self::demangle::demangle;
pub use self::elf::{Elf, Source, build_id};
pub use self::file::{Places, Wanted};
pub use self::functions::{EVALUATION, exports, innermost, symbols};

/// A place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Function, as its programmer wrote it.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// Debug information nests, and so do calls that read it.
const STACK_BYTES: usize = 64 << 20;

/// Names native frames. Functions that were inlined get rows of their own between a frame and what
/// it calls, so frames are numbered anew, and sites follow. `build_id` is that of the file of a
/// frame; `None` if that is not known, and the frame stays as it is.
pub fn name<'a>(
    frames: Vec<FrameRow>,
    sites: &mut [SiteRow],
    build_id: impl Fn(&FrameRow) -> Option<&'a str>,
) -> Vec<FrameRow> {
    // Files with the same build id are one; those without go by their path.
    let mut numbers = BTreeMap::new();
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut at = Vec::with_capacity(frames.len());
    for frame in &frames {
        let known = build_id(frame).zip(frame.module.as_ref()).zip(frame.offset);
        // The call before a return address may be its function's last instruction.
        let place = known.and_then(|(file, offset)| Some((file, offset.checked_sub(1)?)));
        at.push(place.map(|((build_id, path), address)| {
            let key = (build_id, if build_id.is_empty() { path.as_str() } else { "" });
            let number = *numbers.entry(key).or_insert_with(|| {
                wanted.push(Wanted { build_id: build_id.into(), ..Wanted::default() });
                wanted.len() - 1
            });
            let file = &mut wanted[number];
            if !file.paths.iter().any(|known| known.as_os_str() == path.as_str()) {
                file.paths.push(path.into());
            }
            file.addresses.push(address);
            (number, address)
        }));
    }
    for file in &mut wanted {
        file.addresses.sort_unstable();
        file.addresses.dedup();
    }
    let found = look_up(&wanted);
    let places = |index: usize| at[index].and_then(|(file, address)| found[file].get(&address));
    expand(frames, sites, |index| places(index).map_or(&[], Vec::as_slice))
}

/// Names the native frames of a trace whose recorder could not. A path at which there was more than
/// one file says too little.
///
/// # Errors
/// The trace cannot be read or written.
pub fn name_trace(directory: &Path) -> memtrace_trace::Result<()> {
    let trace = Trace::open(directory)?;
    let mut builds: BTreeMap<String, Option<String>> = BTreeMap::new();
    for module in trace.modules()? {
        let known = builds.entry(module.path).or_insert_with(|| Some(module.build_id.clone()));
        if known.as_ref().is_some_and(|known| *known != module.build_id) {
            *known = None;
        }
    }
    let build_id = |frame: &FrameRow| builds.get(frame.module.as_ref()?)?.as_deref();
    let mut sites = trace.sites()?;
    let frames = name(trace.frames()?, &mut sites, build_id);
    memtrace_trace::replace_stacks(directory, &sites, &frames)
}

/// Looks files up, as many at a time as there are processors.
fn look_up(wanted: &[Wanted]) -> Vec<Places> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = wanted.get(number) else { return done };
            done.push((number, file.look_up()));
        }
    };
    let mut found: Vec<Places> = wanted.iter().map(|_| Places::default()).collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (0..processors.min(wanted.len())).filter_map(start).collect();
        for (number, places) in threads.into_iter().filter_map(|thread| thread.join().ok()).flatten() {
            found[number] = places;
        }
    });
    found
}
