//! `.gnu_debugdata`: a symbol table packed into a stripped binary (GDB manual, "MiniDebugInfo").

use std::io::Read;

use lzma_rust2::XzReader;
use object::{Object, ObjectSection};

use super::elf::Elf;

/// What is unpacked may take this many bytes; Fedora's largest take some megabytes.
const UNPACKED_MAX: u64 = 256 << 20;
/// What unpacking itself may take.
const MEMORY_MAX_KB: u32 = 128 << 10;

/// The ELF file that is packed into another one.
pub fn unpack(binary: &Elf<'_>) -> Option<Vec<u8>> {
    unpack_xz(binary.section_by_name(".gnu_debugdata")?.data().ok()?)
}

fn unpack_xz(packed: &[u8]) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut reader = XzReader::new_mem_limit(packed, false, MEMORY_MAX_KB).take(UNPACKED_MAX + 1);
    reader.read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= UNPACKED_MAX).then_some(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    fn xz(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new("xz");
        let mut xz = command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        xz.stdin.take()?.write_all(bytes).ok()?;
        Some(xz.wait_with_output().ok()?.stdout)
    }

    #[test]
    fn what_was_packed_is_unpacked_and_damage_is_seen() {
        let Some(mut packed) = xz(b"a symbol table") else {
            eprintln!("not checked: xz is not installed");
            return;
        };
        assert_eq!(unpack_xz(&packed).as_deref(), Some(&b"a symbol table"[..]));
        let middle = packed.len() / 2;
        packed[middle] ^= 0x10;
        assert_eq!(unpack_xz(&packed), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let header = [b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36".as_slice(), &bytes].concat();
            proptest::prop_assert_eq!(unpack_xz(&bytes), None);
            unpack_xz(&header);
        }
    }
}
