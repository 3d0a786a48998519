//! The probe's reading of `.eh_frame`, which cannot be tested where it is built (it has no standard
//! library), against gimli's, for every row of real libraries.

#[path = "../../probe-lib/src/arch"]
mod arch {
    #[allow(dead_code)]
    #[path = "x86_64/unwind.rs"]
    pub mod unwind;
}
#[allow(dead_code)]
#[path = "../../probe-lib/src/stack/unwind/cfi/mod.rs"]
mod cfi;

use std::fs;
use std::path::PathBuf;

use cfi::{Cfa, Rule, Saved};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A file as it would be mapped, at whatever address the vector has.
struct Loaded {
    memory: Vec<u8>,
    index: u64,
}

impl Loaded {
    fn new(file: &object::File<'_>) -> Option<Loaded> {
        let end = file.segments().map(|segment| segment.address() + segment.size()).max()?;
        let mut memory = vec![0; end as usize];
        for segment in file.segments() {
            let (at, data) = (segment.address() as usize, segment.data().ok()?);
            memory[at..at + data.len()].copy_from_slice(data);
        }
        Some(Loaded { memory, index: file.section_by_name(".eh_frame_hdr")?.address() })
    }

    fn rule(&self, counter: u64) -> Rule {
        let base = self.memory.as_ptr() as usize;
        // SAFETY: the file's segments are where they belong, seen from `base`.
        unsafe { cfi::rule(base + self.index as usize, base + counter as usize) }
    }
}

/// What gimli's row means in the probe's words.
fn expected(section: &EhFrame<Bytes<'_>>, row: &gimli::UnwindTableRow<usize>, is_signal: bool) -> Rule {
    let code = |expression: &UnwindExpression<usize>| expression.get(section).unwrap().0.slice().to_vec();
    let return_address = row.register(X86_64::RA).unwrap_or(RegisterRule::Undefined);
    let bp = match row.register(X86_64::RBP).unwrap_or(RegisterRule::SameValue) {
        RegisterRule::SameValue => Saved::Same,
        RegisterRule::Offset(offset) => Saved::AtCfa(offset as i32),
        RegisterRule::Expression(it) => match &code(&it)[..] {
            [0x76, offset] if offset & 0x80 == 0 => Saved::AtBp((i32::from(*offset) << 25) >> 25),
            _ => Saved::Lost,
        },
        _ => Saved::Lost,
    };
    let cfa = match (return_address, row.cfa()) {
        (RegisterRule::Undefined, _) => Cfa::End,
        (RegisterRule::Offset(-8), CfaRule::RegisterAndOffset { register: X86_64::RSP, offset }) => {
            Cfa::Sp(*offset as i32)
        }
        (RegisterRule::Offset(-8), CfaRule::RegisterAndOffset { register: X86_64::RBP, offset }) => {
            Cfa::Bp(*offset as i32)
        }
        (RegisterRule::Offset(-8), CfaRule::Expression(it)) => match &code(it)[..] {
            [0x77, 8, 0x80, 0, 0x3f, 0x1a, from, 0x2a, 0x33, 0x24, 0x22] => Cfa::Plt(i32::from(from - 0x30)),
            [0x76, offset, 0x06] if offset & 0x80 == 0 => Cfa::AtBp((i32::from(*offset) << 25) >> 25),
            _ => Cfa::Unknown,
        },
        (RegisterRule::Expression(_), CfaRule::Expression(_)) if is_signal => Cfa::Signal,
        _ => Cfa::Unknown,
    };
    match cfa {
        Cfa::Unknown => Rule::UNKNOWN,
        Cfa::End | Cfa::Signal => Rule { cfa, bp: Saved::Lost, ..Rule::UNKNOWN },
        _ => Rule { cfa, bp, ..Rule::UNKNOWN },
    }
}

/// Compares all rows of a file; how many there were, and how many of them the probe does not know.
fn compare(path: &PathBuf) -> Option<(u64, u64)> {
    let data = fs::read(path).ok()?;
    let file = object::File::parse(&*data).ok()?;
    let loaded = Loaded::new(&file)?;
    let frames = file.section_by_name(".eh_frame")?;
    let bases = BaseAddresses::default().set_eh_frame(frames.address());
    let mut section = EhFrame::new(frames.data().ok()?, LittleEndian);
    section.set_address_size(8);
    let mut context = UnwindContext::new();
    let mut entries = section.entries(&bases);
    let (mut rows, mut unknown) = (0, 0);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        let mut table = fde.rows(&section, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            let wanted = expected(&section, row, fde.is_signal_trampoline());
            for counter in [row.start_address(), row.end_address() - 1] {
                let found = loaded.rule(counter);
                assert_eq!(found, wanted, "{} {counter:#x}", path.display());
            }
            rows += 1;
            unknown += u64::from(wanted.cfa == Cfa::Unknown);
        }
    }
    Some((rows, unknown))
}

/// Everything that this process has mapped, and what programs that are traced are made of.
fn libraries() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths: Vec<PathBuf> =
        maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].into())).collect();
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/bin"] {
        let names = ["libc.so.6", "libstdc++.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libcrypto.so.3"];
        let programs = ["bash", "python3", "perl", "gdb"];
        paths.extend(names.iter().chain(&programs).map(|name| PathBuf::from(folder).join(name)));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        paths.extend(entries.filter(|path| path.to_string_lossy().contains("libpython3")));
    }
    let mut real: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    real
}

#[test]
fn every_row_of_real_libraries_is_what_gimli_says() {
    let (mut rows, mut unknown) = (0, 0);
    for path in libraries() {
        if let Some(counted) = compare(&path) {
            eprintln!("{}: {counted:?}", path.display());
            rows += counted.0;
            unknown += counted.1;
        }
    }
    assert!(rows > 10_000, "libraries were found");
    assert!(unknown * 100 < rows, "compilers write few rules of other kinds: {unknown} of {rows}");
}
