//! What lies at an address of a process.

/// Names a block for as long as it lives: address and stamp of its acquire.
pub type BlockKey = (u64, u64);

/// What lies where in a process.
pub trait Memory {
    /// Whether a block is still there.
    fn is_alive(&self, key: BlockKey) -> bool;
    /// The block or mapping that an address lies in.
    fn around(&self, address: u64) -> Option<Around>;
}

/// A block or mapping around an address.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// Names it.
    pub key: BlockKey,
    /// Its size.
    pub bytes: u64,
    /// An allocator's symbols gave it.
    pub is_heap: bool,
}
