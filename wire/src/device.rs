//! What is reported of memory that a CUDA driver allocates: the texts of the device events, as
//! little-endian words.
//!
//! Every device event has a text: a [`DeviceRecord`], and for
//! [`Kind::DeviceFound`](crate::event::Kind::DeviceFound) the device's name behind it. The event's
//! address is the block's, as in all other acquires; handles and pools, whose values may take all
//! 64 bits, are in the record. Acquires bear a stack.
//!
//! Order: an acquire is reported after the driver's call has succeeded, so a call that fails leaves
//! nothing. A release is reported before the call, since another thread may get the same address
//! before the call has returned; [`DeviceReleaseFailed`](crate::event::Kind::DeviceReleaseFailed)
//! revokes it if the call fails. The driver allocates and frees stream-ordered memory
//! (`cuMemAllocAsync`, `cuMemFreeAsync`) in the order of the calls of a stream, so the order of
//! calls on the host is the order of allocation, whenever kernels run.

use core::mem::size_of;

/// Words of a [`DeviceRecord`].
pub const RECORD_WORDS: usize = 6;
/// Bytes of a [`DeviceRecord`].
pub const RECORD_BYTES: usize = RECORD_WORDS * size_of::<u64>();
/// Most bytes of a device's name.
pub const NAME_MAX: usize = 256;
/// The device of memory that is on none, or on one that is not known.
pub const NO_DEVICE: u32 = u32::MAX;

/// What kind of memory an acquire is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Memory {
    /// `cuMemAlloc`.
    Linear = 1,
    /// `cuMemAllocPitch`: bytes are pitch times height.
    Pitch = 2,
    /// `cuMemAllocManaged`: on a device or on the host, wherever it was last used.
    Managed = 3,
    /// `cuMemAllocHost`, `cuMemHostAlloc`: host memory that cannot be paged out.
    Host = 4,
    /// `cuMemHostRegister`: memory the program had, made so. Not allocated by it.
    Registered = 5,
    /// `cuArrayCreate`, `cuArray3DCreate`.
    Array = 6,
    /// `cuMipmappedArrayCreate`.
    Mipmap = 7,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`: part of what its pool (`owner`) has reserved.
    Pool = 8,
    /// `cuMemCreate`: physical memory, its handle is `owner`. Each acquire of the same handle is
    /// one more reference to it (`cuMemRetainAllocationHandle`). It stays until its last
    /// reference is released and its last range unmapped.
    Physical = 9,
    /// `cuMemImportFromShareableHandle`: a reference to physical memory
    /// that may be another process's.
    ImportedPhysical = 10,
    /// `cuIpcOpenMemHandle`: memory of another process.
    Ipc = 11,
    /// `cuMemPoolImportPointer`: a block of another process's pool.
    ImportedPool = 12,
    /// `cuGraphAddMemAllocNode`: an address that is backed while the graph runs, from memory the
    /// device reserves for graphs.
    Graph = 13,
    /// A range that `cuMemMap` has mapped to physical memory (`owner`);
    /// `extra` is the offset in it.
    Mapped = 14,
    /// A block that PyTorch's caching allocator handed out: part of what it has reserved.
    TorchBlock = 15,
    /// A block of a pool that the program reports through `memtrace_device_block` (CuPy, RMM, JAX).
    PoolBlock = 16,
}

impl Memory {
    /// All kinds.
    pub const ALL: [Memory; 16] = [
        Memory::Linear,
        Memory::Pitch,
        Memory::Managed,
        Memory::Host,
        Memory::Registered,
        Memory::Array,
        Memory::Mipmap,
        Memory::Pool,
        Memory::Physical,
        Memory::ImportedPhysical,
        Memory::Ipc,
        Memory::ImportedPool,
        Memory::Graph,
        Memory::Mapped,
        Memory::TorchBlock,
        Memory::PoolBlock,
    ];

    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Memory> {
        Memory::ALL.into_iter().find(|memory| *memory as u8 == code)
    }
}

/// What a device event says, in addition to its address, stamp and stack. What
/// an event does not name is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DeviceRecord {
    /// [`Memory`]'s code; 0 where the event is about no memory, or about any.
    pub memory: u32,
    /// Ordinal of the device as the driver counts (after `CUDA_VISIBLE_DEVICES`);
    /// [`NO_DEVICE`] if there is none.
    pub device: u32,
    /// The context it belongs to; 0 for what outlives contexts (pools, physical memory).
    pub context: u64,
    /// A pool's or physical memory's handle.
    pub owner: u64,
    /// Bytes acquired, mapped or unmapped; of a sample of a pool: reserved now;
    /// of a device: all its memory.
    pub bytes: u64,
    /// Of a sample of a pool: used now. Of a range: its offset in the physical memory. Of a
    /// framework's block: what the framework says it has reserved of the device after this.
    pub extra: u64,
    /// Of a sample of a pool: the most it ever reserved. Of a framework's block: what it says it
    /// has handed out after this.
    pub most: u64,
}

impl DeviceRecord {
    /// A record that names nothing.
    pub const NONE: DeviceRecord =
        DeviceRecord { memory: 0, device: NO_DEVICE, context: 0, owner: 0, bytes: 0, extra: 0, most: 0 };

    /// To words.
    pub const fn words(&self) -> [u64; RECORD_WORDS] {
        let head = self.memory as u64 | (self.device as u64) << 32;
        [head, self.context, self.owner, self.bytes, self.extra, self.most]
    }

    /// From a text, and what is behind the record in it; `None` if it is too short.
    pub fn read(text: &[u8]) -> Option<(DeviceRecord, &[u8])> {
        let (record, rest) = text.split_first_chunk::<RECORD_BYTES>()?;
        let mut words = [0; RECORD_WORDS];
        for (word, bytes) in words.iter_mut().zip(record.chunks_exact(size_of::<u64>())) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [head, context, owner, bytes, extra, most] = words;
        let (memory, device) = (head as u32, (head >> 32) as u32);
        Some((DeviceRecord { memory, device, context, owner, bytes, extra, most }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_their_words() {
        let record = DeviceRecord {
            memory: 9,
            device: 3,
            context: 1 << 60,
            owner: u64::MAX,
            bytes: 7,
            extra: 8,
            most: 9,
        };
        let mut text = [0; RECORD_BYTES + 4];
        for (bytes, word) in text.chunks_exact_mut(8).zip(record.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        text[RECORD_BYTES..].copy_from_slice(b"name");
        assert_eq!(DeviceRecord::read(&text), Some((record, &b"name"[..])));
        assert_eq!(DeviceRecord::read(&text[..RECORD_BYTES - 1]), None);
    }

    #[test]
    fn every_kind_of_memory_has_a_code_of_its_own() {
        for memory in Memory::ALL {
            assert_eq!(Memory::from_code(memory as u8), Some(memory));
        }
        assert_eq!(Memory::from_code(0), None);
        assert_eq!(Memory::from_code(Memory::ALL.len() as u8 + 1), None);
    }
}
