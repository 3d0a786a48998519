//! What is mapped into one process image.

/// A file that is mapped.
#[derive(Clone)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Added to addresses in the file.
    pub bias: u64,
    /// The file's number among all files of the trace.
    pub number: u32,
}

/// The modules of one process image.
#[derive(Clone, Default)]
pub struct Image {
    mapped: Vec<Mapped>,
}

impl Image {
    /// Adds a module; what was mapped there before is gone. True if this was news.
    pub fn add(&mut self, module: Mapped) -> bool {
        let overlaps = |old: &Mapped| old.start < module.end && module.start < old.end;
        if self.mapped.iter().any(|old| old.start == module.start && old.number == module.number) {
            return false;
        }
        self.mapped.retain(|old| !overlaps(old));
        let at = self.mapped.partition_point(|old| old.start < module.start);
        self.mapped.insert(at, module);
        true
    }

    /// The module that an address lies in.
    pub fn find(&self, address: u64) -> Option<&Mapped> {
        let after = self.mapped.partition_point(|module| module.start <= address);
        self.mapped.get(after.checked_sub(1)?).filter(|module| address < module.end)
    }
}
