//! Which events sample loads and stores, as /sys/bus/event_source/devices says
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-{events,format}).

use std::fs;
use std::path::Path;

use crate::event::{Content, Event, Rate};

/// Samples of a thread each second: enough to say which of its large blocks it uses,
/// for a thousandth of its time.
const HERTZ: u64 = 1000;

/// The events of all units under `devices` that know the addresses of loads and stores; none on
/// most virtual machines.
pub fn memory_events(devices: &Path) -> Vec<Event> {
    let Ok(entries) = fs::read_dir(devices) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().flat_map(|name| Unit { name, folder: &devices.join(name) }.memory_events()).collect()
}

/// One unit.
struct Unit<'a> {
    name: &'a str,
    folder: &'a Path,
}

impl Unit<'_> {
    fn read(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.folder.join(file)).ok()?.trim().to_owned())
    }

    fn memory_events(&self) -> Vec<Event> {
        let Some(unit) = self.read("type").and_then(|number| number.parse().ok()) else { return Vec::new() };
        // A unit of some processors only (those of one kind) says which.
        let cpus = self.read("cpus").map(|list| cpu_list(&list)).unwrap_or_default();
        let precise = self.read("caps/max_precise").and_then(|most| most.parse::<u8>().ok());
        let event = |name: &str, config| Event {
            name: format!("{}/{name}/", self.name),
            rate: Rate::Frequency(HERTZ),
            unit,
            config,
            leader: None,
            filter: 0,
            precise: precise.unwrap_or(3).min(3),
            content: Content::Accesses,
            cpus: cpus.clone(),
        };
        if self.name == "ibs_op" {
            // It samples whatever is executed; what is no load or store bears no address.
            let filter = self.configure("swfilt").map_or(0, |config| config[2]);
            return vec![Event { precise: 0, filter, ..event("", [0; 3]) }];
        }
        let named = |name: &str| self.configure(&self.read(&format!("events/{name}"))?);
        let loads = named("mem-loads")
            .map(|config| Event { leader: named("mem-loads-aux"), ..event("mem-loads", config) });
        let stores = named("mem-stores").map(|config| event("mem-stores", config));
        loads.into_iter().chain(stores).collect()
    }

    /// `config`, `config1` and `config2` of a description as `event=0xcd,umask=0x1,ldlat=3`. `None`
    /// if one of the names has no place here.
    fn configure(&self, description: &str) -> Option<[u64; 3]> {
        let mut words = [0; 3];
        for term in description.split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = match value.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok()?,
                None => value.parse().ok()?,
            };
            let (word, bits) = place(&self.read(&format!("format/{}", name.trim()))?, value)?;
            words[word] |= bits;
        }
        Some(words)
    }
}

/// Where a value goes by a format as `config1:0-15` or `config:0-7,32-35`: which word, and its bits
/// there, the lowest first.
fn place(format: &str, mut value: u64) -> Option<(usize, u64)> {
    let (word, ranges) = format.split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
    let mut bits = 0;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        for bit in first..=last.min(63) {
            bits |= (value & 1) << bit;
            value >>= 1;
        }
    }
    Some((word, bits))
}

/// Numbers of a list as `0-3,8`. What is none is left out.
pub(crate) fn cpu_list(list: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        Some(first..=last.min(first.saturating_add(MOST)))
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(folder: &Path, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = folder.join(name).join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, format!("{text}\n")).expect("a file");
        }
    }

    const FORMATS: [(&str, &str); 4] = [
        ("type", "4"),
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("format/ldlat", "config1:0-15"),
    ];

    #[test]
    fn an_intel_server() {
        let folder = tempfile::tempdir().expect("a folder");
        unit(folder.path(), "software", &[("type", "1")]);
        unit(folder.path(), "cpu", &FORMATS);
        unit(
            folder.path(),
            "cpu",
            &[
                ("caps/max_precise", "3"),
                ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
                ("events/mem-loads-aux", "event=0x03,umask=0x82"),
                ("events/mem-stores", "event=0xcd,umask=0x2"),
            ],
        );
        let events = memory_events(folder.path());
        let [loads, stores] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((loads.name.as_str(), loads.unit, loads.config), ("cpu/mem-loads/", 4, [0x1cd, 3, 0]));
        assert_eq!((loads.leader, stores.leader), (Some([0x8203, 0, 0]), None));
        assert_eq!((stores.config, stores.precise, stores.cpus.len()), ([0x2cd, 0, 0], 3, 0));
    }

    #[test]
    fn a_processor_of_two_kinds() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, cpus) in [("cpu_core", "0-3"), ("cpu_atom", "4,6-7")] {
            unit(folder.path(), name, &FORMATS);
            unit(folder.path(), name, &[("cpus", cpus), ("events/mem-stores", "event=0xd0,umask=0x6")]);
        }
        let events = memory_events(folder.path());
        let cpus: Vec<_> = events.iter().map(|event| event.cpus.clone()).collect();
        assert_eq!(cpus, [vec![4, 6, 7], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn an_amd_server() {
        let folder = tempfile::tempdir().expect("a folder");
        unit(folder.path(), "ibs_op", &[("type", "11"), ("format/swfilt", "config2:0")]);
        let events = memory_events(folder.path());
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((event.unit, event.config, event.filter, event.precise), (11, [0; 3], 1, 0));
    }

    #[test]
    fn what_cannot_be_understood_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        unit(folder.path(), "odd", &[("type", "many"), ("events/mem-loads", "event=1")]);
        unit(folder.path(), "cpu", &FORMATS);
        unit(
            folder.path(),
            "cpu",
            &[("events/mem-loads", "colour=blue"), ("events/mem-stores", "event=0xzz")],
        );
        assert_eq!(memory_events(folder.path()), []);
        assert_eq!(memory_events(&folder.path().join("nothing")), []);
    }

    proptest! {
        /// Bits that are taken from where they were put are the value, as far as there was room.
        #[test]
        fn a_value_is_found_where_it_was_put(value in any::<u64>(), first in 0..16u32, length in 0..16u32, second in 32..40u32) {
            let format = format!("config2:{first}-{},{second}", first + length);
            let (word, bits) = place(&format, value).expect("it is a format");
            let low = bits >> first & ((2 << length) - 1);
            let high = bits >> second & 1;
            prop_assert_eq!((word, low | high << (length + 1)), (2, value & ((4 << length) - 1)));
        }

        #[test]
        fn no_text_can_hurt(text in ".{0,40}") {
            place(&text, 7);
            cpu_list(&text);
        }
    }
}
