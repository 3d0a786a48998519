//! The running kernel's types, as far as they are needed (Documentation/bpf/btf.rst).
//!
//! They are 5 MB and 150,000 types: to parse all takes 17 ms, longer than a short command runs. One
//! pass over them finds the few that are needed; those are copied into a small BTF, which is what
//! the programs are relocated against.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;

use crate::Error;

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VAR: u32 = 14;

/// All types of the kernel, in the file's bytes.
pub(crate) struct Types {
    file: Bytes,
    strings: usize,
    /// Where each type begins, by id; 0 for `void`.
    places: Vec<u32>,
}

/// The bytes of a file of sysfs, which can be read only a page at a time: mapped
/// where possible (Linux 6.16).
enum Bytes {
    Mapped(*const u8, usize),
    Read(Vec<u8>),
}

impl Bytes {
    fn of(path: &str) -> std::io::Result<Bytes> {
        let file = File::open(path)?;
        let length = file.metadata()?.len() as usize;
        // SAFETY: a new mapping, read-only; the kernel's types do not change.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if place == libc::MAP_FAILED {
            std::fs::read(path).map(Bytes::Read)
        } else {
            Ok(Bytes::Mapped(place.cast(), length))
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: mapped by `of` with this length, until it is dropped.
            Bytes::Mapped(place, length) => unsafe { std::slice::from_raw_parts(*place, *length) },
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Bytes::Mapped(place, length) = self {
            // SAFETY: as above.
            unsafe { libc::munmap(place.cast_mut().cast(), *length) };
        }
    }
}

/// Words that follow a type's three, by kind; one for each member where it has any.
fn extra_words(kind: u32, members: u32) -> Option<u32> {
    Some(match kind {
        INT | VAR | 17 => 1,
        POINTER | 7..=12 | 16 | 18 => 0,
        ARRAY => 3,
        STRUCT | UNION | 15 | 19 => 3 * members,
        ENUM | 13 => 2 * members,
        _ => return None,
    })
}

impl Types {
    /// Reads the running kernel's.
    pub(crate) fn of_the_kernel() -> Result<Types, Error> {
        Types::parse(Bytes::of("/sys/kernel/btf/vmlinux").map_err(Error::NoBtf)?)
    }

    fn parse(file: Bytes) -> Result<Types, Error> {
        const SHORT: Error = Error::BadBtf("it ends too early");
        let word = |at: usize| {
            let bytes = file.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        if word(0).ok_or(SHORT)? & 0xffff != 0xeb9f {
            return Err(Error::BadBtf("it has another magic number"));
        }
        let header = word(4).ok_or(SHORT)? as usize;
        let begin = header + word(8).ok_or(SHORT)? as usize;
        let end = begin + word(12).ok_or(SHORT)? as usize;
        let strings = header + word(16).ok_or(SHORT)? as usize;
        if end > file.len() || strings >= file.len() || file.last() != Some(&0) {
            return Err(SHORT);
        }
        let mut places = vec![0];
        let mut at = begin;
        while at < end {
            let info = word(at + 4).ok_or(SHORT)?;
            let extra = extra_words(info >> 24 & 31, info & 0xffff).ok_or(Error::BadBtf("a kind is new"))?;
            places.push(at as u32);
            at += 12 + 4 * extra as usize;
        }
        if at != end {
            return Err(SHORT);
        }
        Ok(Types { file, strings, places })
    }

    /// A word of a type: 0 its name, 1 kind and number of members, 2 its size
    /// or type, then what follows.
    fn word(&self, id: u32, index: usize) -> u32 {
        let at = self.places.get(id as usize).map_or(0, |place| *place as usize) + 4 * index;
        self.file.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn kind(&self, id: u32) -> u32 {
        if id == 0 { 0 } else { self.word(id, 1) >> 24 & 31 }
    }

    fn name(&self, offset: u32) -> &[u8] {
        let text = self.file.get(self.strings + offset as usize..).unwrap_or_default();
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        &text[..end]
    }

    /// Ids of types of one kind by name, in the order of `names`; `None` where there is none.
    fn find(&self, kind: u32, names: &[String]) -> Vec<Option<u32>> {
        let mut found = vec![None; names.len()];
        for id in 1..self.places.len() as u32 {
            if self.kind(id) != kind {
                continue;
            }
            // Names are compared in place: most differ in their length or in the first byte.
            let text = &self.file[(self.strings + self.word(id, 0) as usize).min(self.file.len())..];
            let is_it = |name: &String| {
                let name = name.as_bytes();
                text.get(name.len()) == Some(&0) && text.first() == name.first() && text.starts_with(name)
            };
            if let Some(index) = names.iter().position(is_it) {
                found[index].get_or_insert(id);
            }
        }
        found
    }

    /// Ids by which programs are attached to tracepoints (`btf_trace_NAME`).
    pub(crate) fn tracepoints(&self, names: &[&str]) -> Vec<Option<u32>> {
        let types: Vec<String> = names.iter().map(|name| format!("btf_trace_{name}")).collect();
        self.find(TYPEDEF, &types)
    }

    /// True if an enumeration has this constant.
    pub(crate) fn has_constant(&self, enumeration: &str, constant: &str) -> bool {
        let Some(id) = self.find(ENUM, &[enumeration.to_string()])[0] else { return false };
        let mut constants = 0..(self.word(id, 1) & 0xffff) as usize;
        constants.any(|index| self.name(self.word(id, 3 + 2 * index)) == constant.as_bytes())
    }

    /// A BTF with only these structures, and those of `others` that there are, with whether there
    /// is each. Members of other named structures lose their types, pointers point to nothing:
    /// relocation needs only places and names.
    pub(crate) fn only<const N: usize>(
        &self,
        structures: &[&str],
        others: [&str; N],
    ) -> Result<(Vec<u8>, [bool; N]), Error> {
        let names: Vec<String> = structures.iter().chain(&others).map(|name| (*name).to_string()).collect();
        let wanted = self.find(STRUCT, &names);
        if let Some(missing) = wanted[..structures.len()].iter().position(Option::is_none) {
            return Err(Error::Missing(format!("struct {}", structures[missing])));
        }
        let there = std::array::from_fn(|index| wanted[structures.len() + index].is_some());
        let wanted: Vec<u32> = wanted.into_iter().flatten().collect();
        let mut copy =
            Copy { of: self, wanted: &wanted, new_ids: HashMap::new(), types: Vec::new(), strings: vec![0] };
        for id in &wanted {
            copy.add(*id);
        }
        Ok((copy.to_bytes(), there))
    }
}

/// A BTF in the making.
struct Copy<'a> {
    of: &'a Types,
    wanted: &'a [u32],
    new_ids: HashMap<u32, u32>,
    types: Vec<Vec<u32>>,
    strings: Vec<u8>,
}

impl Copy<'_> {
    fn name(&mut self, offset: u32) -> u32 {
        if self.of.name(offset).is_empty() {
            return 0;
        }
        let new = self.strings.len() as u32;
        self.strings.extend_from_slice(self.of.name(offset));
        self.strings.push(0);
        new
    }

    /// The id of a type's copy; 0, `void`, for what is left out.
    fn add(&mut self, id: u32) -> u32 {
        if let Some(new) = self.new_ids.get(&id) {
            return *new;
        }
        let of = self.of;
        let (kind, info) = (of.kind(id), of.word(id, 1));
        match kind {
            // typedef, volatile, const, restrict, type tag: the type behind them
            TYPEDEF..=11 | 18 => self.add(of.word(id, 2)),
            POINTER => self.put(id, vec![0, info, 0]),
            // Enumerations are read as numbers: 4 bytes without a sign.
            INT => self.put(id, vec![0, info, of.word(id, 2), of.word(id, 3)]),
            ENUM => self.put(id, vec![0, INT << 24, 4, 32]),
            ARRAY => {
                let (element, index) = (self.add(of.word(id, 3)), self.add(of.word(id, 4)));
                self.put(id, vec![0, info, 0, element, index, of.word(id, 5)])
            }
            STRUCT | UNION => self.structure(id),
            _ => 0,
        }
    }

    fn structure(&mut self, id: u32) -> u32 {
        let of = self.of;
        let (name, info) = (of.word(id, 0), of.word(id, 1));
        if !of.name(name).is_empty() && !self.wanted.contains(&id) {
            return 0;
        }
        let new = self.put(id, Vec::new());
        let mut words = vec![self.name(name), info, of.word(id, 2)];
        for member in 0..(info & 0xffff) as usize {
            let at = 3 + 3 * member;
            words.extend([self.name(of.word(id, at)), self.add(of.word(id, at + 1)), of.word(id, at + 2)]);
        }
        self.types[new as usize - 1] = words;
        new
    }

    fn put(&mut self, id: u32, words: Vec<u32>) -> u32 {
        self.types.push(words);
        let new = self.types.len() as u32;
        self.new_ids.insert(id, new);
        new
    }

    fn to_bytes(&self) -> Vec<u8> {
        let words: Vec<u32> = self.types.iter().flatten().copied().collect();
        let length = 4 * words.len() as u32;
        let header = [0x0001_eb9f, 24, 0, length, length, self.strings.len() as u32];
        let mut bytes: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&self.strings);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Damaged types are an error, never a panic.
    #[test]
    fn what_is_cut_short_is_refused() {
        let Ok(file) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        for length in [0, 3, 24, 1000, file.len() / 2, file.len() - 1] {
            assert!(Types::parse(Bytes::Read(file[..length].to_vec())).is_err(), "{length} bytes");
        }
        assert!(Types::parse(Bytes::Read(file)).is_ok());
    }

    #[test]
    fn a_copy_knows_where_members_lie() {
        let Ok(types) = Types::of_the_kernel() else { return };
        let (copy, there) = types
            .only(&["percpu_counter", "mm_struct"], ["task_struct", "no_such_structure"])
            .expect("every kernel has them");
        assert_eq!(there, [true, false]);
        let copy = Types::parse(Bytes::Read(copy)).expect("it is well formed");
        let names = ["mm_struct".to_string(), "percpu_counter".to_string(), "signal_struct".to_string()];
        let found: Vec<bool> = copy.find(STRUCT, &names).iter().map(Option::is_some).collect();
        assert_eq!(found, [true, true, false]);
        assert!(types.only(&["no_such_structure"], []).is_err());
        assert!(types.has_constant("bpf_func_id", "BPF_FUNC_map_lookup_elem"));
        assert!(!types.has_constant("bpf_func_id", "BPF_FUNC_no_such_helper"));
        assert_eq!(types.tracepoints(&["rss_stat", "no_such_tracepoint"])[1], None);
    }
}
