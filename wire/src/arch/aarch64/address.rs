//! Addresses of heap blocks.

/// An acquire takes two words if so many low bits of its address are zero, and all from the
/// 48th on. Blocks have addresses below 2⁴⁸, and programs' own lie in its upper half.
pub const ZERO_BITS: u32 = 4;

/// Below lie executables and the heap of brk(2), above what is mapped: an executable is loaded at two
/// thirds of the address space (2⁴⁸ bytes) and up to 2⁴⁵ further, and mappings come down from its
/// end, less up to 2⁴⁵ (Linux arch/arm64/include/asm/elf.h, arch/arm64/Kconfig). Kernels with smaller
/// address spaces map nothing above it: there no block is known as a mapping of its own.
pub const MAPPED_FROM: u64 = 0xD000_0000_0000;
