//! An event sampled on all processors, and its records.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::arch::code::IS_DECODED;
use crate::error::Error;
use crate::event::{Content, Event, Rate};
use crate::record::{Record, What, parse};
use crate::sys::{self, Mapping, Setting};
use crate::unit::cpu_list;

/// Pages of data in a ring for every single fault: with the page before them as much as
/// `perf_event_mlock_kb` gives each user for each processor by default.
const PAGES_MOST: usize = 128;
/// Where only some are sampled: ten milliseconds of nothing but faults.
const PAGES_FOR_SOME: usize = 16;
const PAGES_LEAST: usize = 8;
/// All rings together, where there are many processors.
const ALL_PAGES: usize = 8192;

/// What could not be recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing {
    /// Records for which a ring had no room.
    pub lost: u64,
    /// Times the kernel took no more samples for the rest of a tick.
    pub throttled: u64,
    /// Records that made no sense.
    pub damaged: u64,
}

/// An event that is sampled in every program that children of the thread which opened it execute,
/// and in their children and threads. Dropping it ends that.
///
/// It is opened on each processor, because a ring can be had for an event that is inherited only if
/// it is one processor's (mmap(2) of it is EINVAL else). No notice of a new thread is needed, and
/// none is missed.
pub struct Sampler {
    rings: Vec<(Mapping, OwnedFd)>,
    /// Of groups, one for each ring.
    _leaders: Vec<OwnedFd>,
    content: Content,
    /// The kernel's own accesses on behalf of a program are not sampled: this user may not.
    pub user_only: bool,
    /// What could not be recorded so far.
    pub missing: Missing,
    bytes: Vec<u8>,
}

impl Sampler {
    /// Begins; with the kernel's accesses if that is allowed. Registers are those of the program: it
    /// has none while the kernel works for it.
    pub fn open(event: &Event) -> Result<Sampler, Error> {
        if event.content == Content::Registers && !IS_DECODED {
            return Err(Error::NotDecoded);
        }
        match Sampler::open_for(event, event.content == Content::Registers) {
            Err(Error::NotAllowed(_) | Error::Filtered) => Sampler::open_for(event, true),
            other => other,
        }
    }

    fn open_for(event: &Event, user_only: bool) -> Result<Sampler, Error> {
        let cpus = if event.cpus.is_empty() { online() } else { event.cpus.clone() };
        let share = (ALL_PAGES / cpus.len().max(1)).max(1);
        let most = if event.rate == Rate::Period(1) { PAGES_MOST } else { PAGES_FOR_SOME };
        let mut pages = (1 << share.ilog2()).clamp(PAGES_LEAST, most);
        let mut sampler = Sampler {
            rings: Vec::new(),
            _leaders: Vec::new(),
            content: event.content,
            user_only,
            missing: Missing::default(),
            bytes: Vec::new(),
        };
        for cpu in cpus {
            let wake = (pages * sys::page() / 2) as u32;
            let filter = if user_only { event.filter } else { 0 };
            let setting =
                Setting { cpu, user_only: user_only && event.filter == 0, leader: None, samples: true, wake };
            let [config, config1, config2] = event.config;
            let open = |config, setting| match sys::open(event, config, setting) {
                // The processor was taken off line.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
                other => other.map(Some).map_err(|error| Error::open(&event.name, error)),
            };
            let leader = match event.leader {
                Some(config) => match open(config, Setting { samples: false, ..setting })? {
                    None => continue,
                    leader => leader,
                },
                None => None,
            };
            let setting = Setting { leader: leader.as_ref(), ..setting };
            let Some(opened) = open([config, config1, config2 | filter], setting)? else { continue };
            let mapping = loop {
                match Mapping::new(&opened, pages) {
                    Ok(mapping) => break mapping,
                    // Another program of this user has rings.
                    Err(_) if pages > PAGES_LEAST => pages /= 2,
                    Err(error) => return Err(Error::Ring(error)),
                }
            };
            sampler._leaders.extend(leader);
            sampler.rings.push((mapping, opened));
        }
        Ok(sampler)
    }

    /// Passes on the records that have come since, ring by ring, with the number of the ring: each
    /// thread has counters of its own on each. What is missing adds to `missing`.
    pub fn read(&mut self, mut each: impl FnMut(u32, Record)) {
        for (number, (ring, _)) in self.rings.iter_mut().enumerate() {
            self.bytes.clear();
            let missing = &mut self.missing;
            missing.damaged += u64::from(!ring.drain(&mut self.bytes));
            let damaged = parse(&self.bytes, self.content, |record| match record.what {
                What::Lost(lost) => missing.lost += lost,
                What::Throttled => missing.throttled += 1,
                _ => each(number as u32, record),
            });
            missing.damaged += damaged;
        }
    }

    /// Waits for rings that are half full, for as long as this lives; or until
    /// `stop` is readable or closed.
    pub fn waiter(&self, stop: BorrowedFd) -> Waiter {
        let rings = self.rings.iter().map(|(_, event)| event.as_raw_fd());
        let all = std::iter::once(stop.as_raw_fd()).chain(rings);
        Waiter { descriptors: all.map(sys::readable).collect() }
    }
}

/// See [`Sampler::waiter`].
pub struct Waiter {
    descriptors: Vec<libc::pollfd>,
}

impl Waiter {
    /// False if it is to stop.
    pub fn wait(&mut self) -> bool {
        sys::wait(&mut self.descriptors);
        self.descriptors[0].revents == 0
    }
}

fn online() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(&list);
    if cpus.is_empty() { vec![0] } else { cpus }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The real thing, where it is allowed: faults of a child are sampled, from
    /// the program it executes on.
    #[test]
    fn faults_of_a_child_are_sampled() {
        let mut sampler = match Sampler::open(&Event::page_faults(1)) {
            Ok(sampler) => sampler,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let mut child = Command::new("/bin/true").spawn().expect("there is true(1)");
        let pid = child.id();
        assert!(child.wait().expect("it ends").success());
        let (mut samples, mut execs) = (0, 0);
        sampler.read(|_, record| match record.what {
            What::Sample { address, memory } if record.pid == pid => {
                assert!(address != 0 && memory.is_none() && record.ns > 0);
                samples += 1;
            }
            What::Exec if record.pid == pid => execs += 1,
            _ => {}
        });
        assert_eq!((execs, sampler.missing), (1, Missing::default()));
        assert!(samples > 10);
    }
}
