//! Every reader of bytes that others may have made, as a function of such bytes that must return:
//! `scripts/fuzz` runs them on inputs that a fuzzer makes up, the tests here on the corpus.
//!
//! A target panics if what it reads breaks a promise, and is the same function of the same bytes
//! each time. Its seeds are in `fuzz/corpus`, and what was once found in `fuzz/findings`, in a
//! folder of its name.

mod files;
mod planning;

use crate::commands::fuzz::settings;
use crate::record::fuzz as record;

/// A target.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Reads the bytes.
    pub read: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident: $read:path,)*) => { &[$(Target { name: stringify!($name), read: $read }),*] };
}

/// All of them.
pub const TARGETS: &[Target] = targets! {
    ring: record::ring,
    events: record::events,
    hello: record::hello,
    kernel: record::kernel,
    procfs: record::procfs,
    python_lines: record::python_lines,
    tables: files::tables,
    meta: files::meta,
    elf: files::elf,
    names: files::names,
    live: files::live,
    model: planning::model,
    graph: planning::graph,
    recommend: planning::recommend,
    bound: planning::bound,
    settings: settings,
};

#[cfg(feature = "fuzz")]
mod libfuzzer {
    use std::sync::OnceLock;

    use super::{TARGETS, Target};

    static CHOSEN: OnceLock<&Target> = OnceLock::new();

    /// The one that the environment names.
    fn choose() {
        memtrace_trace::quiet_panics();
        let name = std::env::var("MEMTRACE_FUZZ").expect("MEMTRACE_FUZZ names a target");
        let chosen = TARGETS.iter().find(|target| target.name == name);
        CHOSEN.get_or_init(|| chosen.unwrap_or_else(|| panic!("there is no target {name}")));
    }

    libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
        (CHOSEN.get().expect("chosen").read)(bytes);
    });
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::fuzz_inputs::seeds;

    fn read(target: &Target, name: &str, bytes: &[u8]) {
        let begun = Instant::now();
        (target.read)(bytes);
        assert!(begun.elapsed() < Duration::from_secs(10), "{}/{name} hangs", target.name);
    }

    /// So are all inputs that a fuzzer has ever found something with.
    #[test]
    fn the_corpus_is_read() {
        for target in TARGETS {
            let inputs = seeds("corpus", target.name);
            assert!(!inputs.is_empty(), "{} has no seed", target.name);
            for (name, bytes) in inputs.into_iter().chain(seeds("findings", target.name)) {
                eprintln!("{}/{name}", target.name);
                read(target, &name, &bytes);
            }
        }
    }

    /// Where there is no fuzzer: a few inputs near the corpus.
    #[test]
    fn damaged_seeds_are_read() {
        for target in TARGETS {
            let inputs: Vec<Vec<u8>> =
                seeds("corpus", target.name).into_iter().map(|(_, bytes)| bytes).collect();
            let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8);
            let kept = prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
            let damaged = (prop::sample::select(inputs), damage, kept);
            let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
            let outcome = TestRunner::new(config).run(&damaged, |(mut bytes, damage, kept)| {
                bytes.truncate(kept.map_or(bytes.len(), |kept| kept.index(bytes.len() + 1)));
                if !bytes.is_empty() {
                    for (place, byte) in &damage {
                        let place = place.index(bytes.len());
                        bytes[place] = *byte;
                    }
                }
                read(target, "damaged", &bytes);
                Ok(())
            });
            outcome.unwrap_or_else(|error| panic!("{}: {error}", target.name));
        }
    }
}
