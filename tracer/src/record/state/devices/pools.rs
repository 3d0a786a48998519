//! What pools of the driver have reserved. The driver is queried after each call on a pool; in
//! between it has its blocks at least.

/// Names a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolKey {
    /// By its handle.
    Handle(u64),
    /// What a device reserves for graphs.
    Graphs(Option<u32>),
}

/// One of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pool {
    /// The device it is on.
    pub device: Option<u32>,
    /// What it had reserved when the driver was last queried.
    reserved: u64,
    /// The most that was ever reported.
    most: u64,
    /// Sum of its blocks.
    blocks: u64,
    /// It was destroyed: what it has goes with its last block.
    destroyed: bool,
    /// It is another process's, and counts there.
    imported: bool,
}

impl Pool {
    /// One that nothing is known of.
    pub fn on(device: Option<u32>) -> Pool {
        Pool { device, ..Pool::default() }
    }

    /// Its share of driver bytes; a pool may also be on the host.
    pub fn driver(&self) -> u64 {
        let counts = self.device.is_some() && !self.imported && !self.is_gone();
        if counts { self.reserved.max(self.blocks) } else { 0 }
    }

    /// A block of it was allocated, or released. One that is destroyed allocates nothing: it is
    /// another one then.
    pub fn change(&mut self, bytes: i64) {
        self.destroyed &= bytes <= 0;
        self.blocks = self.blocks.saturating_add_signed(bytes);
    }

    /// The driver reports what it has reserved.
    pub fn reserve(&mut self, bytes: u64) {
        self.most = self.most.max(bytes);
        self.reserved = bytes;
    }

    /// True if this is more than was ever reported.
    pub fn is_new_peak(&self, bytes: u64) -> bool {
        bytes > self.most
    }

    /// The program destroys it.
    pub fn destroy(&mut self) {
        self.destroyed = true;
    }

    /// A block of it was imported.
    pub fn import(&mut self) {
        self.imported = true;
    }

    /// True if nothing is left of it.
    pub fn is_gone(&self) -> bool {
        self.destroyed && self.blocks == 0
    }
}
