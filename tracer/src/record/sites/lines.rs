//! Which line an instruction of a Python code object belongs to: the four formats of CPython 3.8 to
//! 3.13.

/// Decodes the line of the instruction at byte `offset`; `None` where it has none. Before the first
/// instruction it is the first line (PyCode_Addr2Line).
pub fn line(minor: u32, table: &[u8], first_line: u32, offset: i32) -> Option<u32> {
    let Ok(offset) = u64::try_from(offset) else { return Some(first_line) };
    let line = match minor {
        ..=9 => by_increments(table, first_line, offset),
        10 => by_ranges(table, first_line, offset)?,
        _ => by_locations(table, first_line, offset)?,
    };
    u32::try_from(line).ok()
}

/// 3.8 and 3.9 (Objects/lnotab_notes.txt): pairs of an address increment and a signed line
/// increment.
fn by_increments(table: &[u8], first_line: u32, offset: u64) -> i64 {
    let (mut address, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        address += u64::from(pair[0]);
        if address > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    line
}

/// 3.10 (PEP 626): pairs of a length and a signed line increment; -128: no line.
fn by_ranges(table: &[u8], first_line: u32, offset: u64) -> Option<i64> {
    let (mut end, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        end += u64::from(pair[0]);
        let increment = pair[1] as i8;
        line += if increment == i8::MIN { 0 } else { i64::from(increment) };
        if offset < end {
            return (increment != i8::MIN).then_some(line);
        }
    }
    None
}

/// 3.11 and later (Objects/locations.md): entries of a code and a length in units of two bytes,
/// then what the code demands.
fn by_locations(table: &[u8], first_line: u32, offset: u64) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let (mut end, mut line) = (0, i64::from(first_line));
    while let Some(first) = bytes.next() {
        end += 2 * (u64::from(first & 7) + 1);
        let code = first >> 3 & 15;
        let rest = match code {
            0..=9 => 1,
            10..=12 => {
                line += i64::from(code - 10);
                2
            }
            13 | 14 => {
                line += signed_varint(&mut bytes)?;
                for _ in 0..if code == 14 { 3 } else { 0 } {
                    varint(&mut bytes)?;
                }
                0
            }
            _ => 0,
        };
        for _ in 0..rest {
            bytes.next()?;
        }
        if offset < end {
            return (code != 15).then_some(line);
        }
    }
    None
}

/// Six bits a byte, the least first; bit 6 says that more follow.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The sign is in the lowest bit.
fn signed_varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = varint(bytes)?;
    let magnitude = (value >> 1) as i64;
    Some(if value & 1 != 0 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Prints every code object of some library modules: first line, line table, and
    /// `start:end:line` of each range as the interpreter itself decodes it.
    const PRINTER: &str = r#"
import argparse, dataclasses, dis, sys, tokenize, types, typing
def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)
def ranges(code):
    if sys.version_info >= (3, 10):
        return [(start, end, -1 if line is None else line) for start, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [start for start, _ in starts[1:]] + [len(code.co_code)]
    return [(start, end, line) for (start, line), end in zip(starts, ends)]
for module in (argparse, dataclasses, tokenize, typing):
    with open(module.__file__, encoding="utf-8") as source:
        whole = compile(source.read(), module.__file__, "exec")
    for code in codes(whole):
        table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
        print(code.co_firstlineno, table.hex() or "-", *("%d:%d:%d" % each for each in ranges(code)))
"#;

    #[test]
    fn every_instruction_has_the_line_its_interpreter_says() {
        for minor in 8..=13 {
            let name = format!("python3.{minor}");
            let versions =
                std::fs::read_dir(format!("{}/.pyenv/versions", std::env::var("HOME").unwrap_or_default()));
            let installed =
                versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin").join(&name));
            let Some(python) = installed.into_iter().find(|path| path.exists()) else {
                eprintln!("not checked: {name} is not installed under pyenv");
                continue;
            };
            let printed = Command::new(python).args(["-c", PRINTER]).output().expect("an interpreter runs");
            let printed = String::from_utf8(printed.stdout).expect("it prints ASCII");
            assert!(printed.lines().count() > 100, "{name} printed its code objects");
            for code in printed.lines() {
                check(minor, code);
            }
        }
    }

    fn check(minor: u32, code: &str) {
        let mut fields = code.split(' ');
        let first_line = fields.next().and_then(|text| text.parse().ok()).expect("a first line");
        let table = fields.next().expect("a table").trim_matches('-');
        let byte = |at: usize| u8::from_str_radix(&table[at..at + 2], 16).expect("hex");
        let table: Vec<u8> = (0..table.len()).step_by(2).map(byte).collect();
        for range in fields {
            let numbers: Vec<i32> = range.split(':').map(|text| text.parse().expect("a number")).collect();
            let expected = u32::try_from(numbers[2]).ok();
            for offset in (numbers[0]..numbers[1]).step_by(2) {
                assert_eq!(
                    line(minor, &table, first_line, offset),
                    expected,
                    "3.{minor}, line {first_line}, at {offset}"
                );
            }
        }
    }

    proptest::proptest! {
        /// Whatever the bytes, decoding ends, and before the first instruction it is the first
        /// line.
        #[test]
        fn any_table_is_read(minor in 8..15u32, table: Vec<u8>, first_line: u32, offset: i32) {
            line(minor, &table, first_line, offset);
            proptest::prop_assert_eq!(line(minor, &table, first_line, -1), Some(first_line));
        }
    }
}
