//! Programs that recorded processes started. One that never says hello did not load the probe: it
//! is statically linked, set-user-ID, or was kept from it, and a note says so.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::record::procfs::executable::described;

/// Programs that were started and have not said hello.
#[derive(Default)]
pub struct Unrecorded {
    waiting: FxHashMap<u32, String>,
    /// Under a pid that another program has got since.
    given_up: BTreeMap<String, u32>,
}

/// Names listed at most.
const NAMES_MAX: usize = 5;

impl Unrecorded {
    /// The process `pid` is about to execute a program, or was made for one; `known` if that has
    /// said hello.
    pub fn started(&mut self, pid: u32, name: &[u8], known: bool) {
        if known {
            return;
        }
        if let Some(name) = self.waiting.insert(pid, String::from_utf8_lossy(name).into_owned()) {
            *self.given_up.entry(name).or_default() += 1;
        }
    }

    /// A program ran under this pid and has sent nothing.
    pub fn unmet(&mut self, pid: u32, name: &str) {
        self.waiting.entry(pid).or_insert_with(|| name.to_owned());
    }

    /// It could not be executed after all.
    pub fn failed(&mut self, pid: u32) {
        self.waiting.remove(&pid);
    }

    /// A program says hello.
    pub fn arrived(&mut self, pid: u32) {
        self.waiting.remove(&pid);
    }

    /// One sentence on those that never did, of which the kernel side may have seen their memory.
    pub fn note(&self, by_kernel_side: bool) -> Option<String> {
        let mut names = self.given_up.clone();
        for name in self.waiting.values() {
            *names.entry(name.clone()).or_default() += 1;
        }
        let count: u32 = names.values().sum();
        let otherwise = "statically linked, set-user-ID, 32-bit, linked with a sanitizer or another C library, \
                         short of memory or descriptors, or gone before it began";
        let listed: Vec<String> =
            names.keys().take(NAMES_MAX).map(|name| described(name, otherwise)).collect();
        let more = if names.len() > NAMES_MAX { ", …" } else { "" };
        let programs = if count == 1 { "program that was" } else { "programs that were" };
        let recorded = if by_kernel_side { "only resident memory was" } else { "nothing was" };
        (count > 0).then(|| {
            format!(
                "{count} {programs} started did not reach the recorder ({recorded} recorded): {}{more}.",
                listed.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_never_said_hello_is_noted() {
        let mut unrecorded = Unrecorded::default();
        unrecorded.started(1, b"/bin/static", false);
        unrecorded.started(2, b"/bin/true", false);
        unrecorded.arrived(2);
        unrecorded.started(3, b"/bin/nowhere", false);
        unrecorded.failed(3);
        unrecorded.started(4, b"/bin/quick", true);
        // The pid was given to another program.
        unrecorded.started(1, b"/bin/static", false);
        unrecorded.unmet(1, "static");
        let note = unrecorded.note(false).expect("one program never said hello");
        assert!(note.starts_with("2 programs that were started did not reach the recorder (nothing was"));
        assert!(note.contains(": /bin/static (statically linked, "), "{note}");
        unrecorded.unmet(5, "short");
        assert!(
            unrecorded.note(true).is_some_and(|note| note.contains("3 programs") && note.contains("short"))
        );
    }
}
