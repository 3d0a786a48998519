//! What pools of the driver have reserved. The driver is asked after each call on a pool; in between its blocks are there at
//! least.

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
    /// What it had reserved when the driver was last asked.
    reserved: u64,
    /// The most that it ever said.
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

    /// A block of it was handed out, or taken back. One that is destroyed hands out nothing: it is another one then.
    pub fn change(&mut self, bytes: i64) {
        self.destroyed &= bytes <= 0;
        self.blocks = self.blocks.saturating_add_signed(bytes);
    }

    /// The driver says what it has reserved.
    pub fn reserve(&mut self, bytes: u64) {
        self.most = self.most.max(bytes);
        self.reserved = bytes;
    }

    /// True if so much is more than it has ever said to have reserved.
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
