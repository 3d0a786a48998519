//! Addresses of heap blocks.

/// An acquire takes two words if so many low bits of its address are zero, and all from the
/// 47th on. Blocks have addresses below 2⁴⁷.
pub const ZERO_BITS: u32 = 3;

/// Below lie executables and the heap of brk(2), above what is mapped: an executable is loaded at two
/// thirds of the address space (2⁴⁷ bytes) and up to 2⁴⁴ further, and mappings come down from its
/// end, less up to 2⁴⁴ (Linux arch/x86/include/asm/elf.h, arch/x86/mm/mmap.c).
pub const MAPPED_FROM: u64 = 0x6800_0000_0000;
