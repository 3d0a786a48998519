//! What each kind of memory of a driver is called, where its addresses are unique, and what it
//! counts for.

use memtrace_trace::rows::Kind;
use memtrace_wire::device::{DeviceRecord, Memory};

/// Where live addresses are unique: a handle may have the value of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Addresses that kernels use.
    Device,
    /// Addresses of the host.
    Host,
    /// Arrays.
    Array,
    /// Physical memory, by its handle.
    Physical,
    /// Blocks of frameworks: they lie in other memory.
    Framework,
    /// Pools of the driver, by their handles: no memory themselves.
    Pool,
}

/// Names a live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What kind of name it is.
    pub class: Class,
    /// Address or handle.
    pub address: u64,
}

impl Key {
    /// What an event of this kind of memory is about.
    pub fn of(memory: Memory, address: u64, record: &DeviceRecord) -> Key {
        let (class, address) = match memory {
            Memory::Host | Memory::Registered => (Class::Host, address),
            Memory::Array | Memory::Mipmap => (Class::Array, address),
            Memory::Physical | Memory::ImportedPhysical => (Class::Physical, record.owner),
            Memory::TorchBlock | Memory::PoolBlock => (Class::Framework, address),
            Memory::Pool if address == 0 => (Class::Pool, record.owner),
            _ => (Class::Device, address),
        };
        Key { class, address }
    }
}

/// What bytes of a block count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Driver bytes, and used bytes.
    Driver,
    /// Used bytes; driver bytes are what its pool reserves.
    Pool,
    /// What a framework has suballocated: used bytes, in place of the memory it lies in.
    Framework,
    /// Managed memory.
    Managed,
    /// Host memory that the driver allocated: pinned, or for pools and mappings that are on no
    /// device.
    Host,
    /// Host memory that was registered with it.
    Registered,
    /// Memory of another process.
    Imported,
    /// Nothing: addresses of memory that is counted elsewhere.
    Nothing,
}

impl Counts {
    /// What this kind of memory counts for, on a device or on none.
    pub fn of(memory: Memory, device: Option<u32>) -> Counts {
        match memory {
            Memory::Physical | Memory::Pool if device.is_none() => Counts::Host,
            Memory::Linear | Memory::Pitch | Memory::Array | Memory::Mipmap | Memory::Physical => {
                Counts::Driver
            }
            Memory::Pool => Counts::Pool,
            Memory::TorchBlock | Memory::PoolBlock => Counts::Framework,
            Memory::Managed => Counts::Managed,
            Memory::Host => Counts::Host,
            Memory::Registered => Counts::Registered,
            Memory::ImportedPhysical | Memory::Ipc | Memory::ImportedPool => Counts::Imported,
            Memory::Graph | Memory::Mapped => Counts::Nothing,
        }
    }

    /// True for what is among used bytes, as long as no framework suballocates it.
    pub fn is_used(self) -> bool {
        matches!(self, Counts::Driver | Counts::Pool | Counts::Framework)
    }
}

/// True for memory that is there until each of those who acquired it has released it.
pub fn is_referred_to(memory: Memory) -> bool {
    matches!(memory, Memory::Physical | Memory::ImportedPhysical | Memory::Ipc)
}

/// What it is called in rows.
pub fn kind(memory: Memory) -> Kind {
    match memory {
        Memory::Linear => Kind::Cuda,
        Memory::Pitch => Kind::CudaPitch,
        Memory::Managed => Kind::CudaManaged,
        Memory::Host => Kind::CudaHost,
        Memory::Registered => Kind::CudaRegistered,
        Memory::Array => Kind::CudaArray,
        Memory::Mipmap => Kind::CudaMipmap,
        Memory::Pool => Kind::CudaPool,
        Memory::Physical => Kind::CudaPhysical,
        Memory::ImportedPhysical => Kind::CudaImportedPhysical,
        Memory::Ipc => Kind::CudaIpc,
        Memory::ImportedPool => Kind::CudaImportedPool,
        Memory::Graph => Kind::CudaGraph,
        Memory::Mapped => Kind::CudaMapped,
        Memory::TorchBlock => Kind::TorchBlock,
        Memory::PoolBlock => Kind::PoolBlock,
    }
}
