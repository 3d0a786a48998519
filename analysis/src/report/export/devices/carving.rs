//! Which memory of the driver a framework has blocks in: those count then, instead of it.

use std::collections::BTreeMap;

use memtrace_trace::rows::{AllocationRow, Kind};

/// What a row is to an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Memory of the driver that a framework has blocks in.
    Segment,
    /// The same, where the driver mapped it to addresses that it had reserved before.
    Mapped,
    /// A block in such memory.
    Inside,
    /// Memory that is used as a whole.
    Whole,
    /// Counted elsewhere, or not the device's.
    Nothing,
}

/// A row's begin or end.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub time_ns: i64,
    /// Place of the row.
    pub block: usize,
    pub begins: bool,
}

/// Begins and ends in order. Of those in one nanosecond ends come first, of a framework's blocks
/// before those of the memory around them; begins the other way round.
pub fn steps(rows: &[AllocationRow]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(2 * rows.len());
    for (block, row) in rows.iter().enumerate() {
        steps.push(Step { time_ns: row.alloc_ns, block, begins: true });
        let end = row.free_ns.map(|free| free.max(row.alloc_ns.saturating_add(1)));
        steps.extend(end.map(|time_ns| Step { time_ns, block, begins: false }));
    }
    steps.sort_by_key(|step| {
        let outer = match rows[step.block].kind {
            kind if kind.is_of_framework() => 0,
            Kind::CudaMapped => 1,
            _ => 2,
        };
        (step.time_ns, step.begins, if step.begins { -outer } else { outer }, step.block)
    });
    steps
}

/// What each row is.
pub fn parts(rows: &[AllocationRow], steps: &[Step]) -> Vec<Part> {
    let mut carving = Carving {
        rows,
        parts: rows.iter().map(untouched).collect(),
        live: BTreeMap::new(),
        unmapped: Vec::new(),
        behind: vec![None; rows.len()],
    };
    for step in steps {
        if step.begins { carving.begin(step.block) } else { carving.end(step.block) }
    }
    carving.parts
}

/// What a row is as long as no framework has blocks in it.
fn untouched(row: &AllocationRow) -> Part {
    if row.kind.is_on_device() { Part::Whole } else { Part::Nothing }
}

struct Carving<'a> {
    rows: &'a [AllocationRow],
    parts: Vec<Part>,
    /// Live memory of the driver, by address.
    live: BTreeMap<u64, usize>,
    /// Live physical memory that was not mapped yet.
    unmapped: Vec<usize>,
    /// The physical memory behind what is mapped.
    behind: Vec<Option<usize>>,
}

impl Carving<'_> {
    fn begin(&mut self, block: usize) {
        let row = &self.rows[block];
        match (row.kind, row.address) {
            (Kind::CudaPhysical | Kind::CudaImportedPhysical, _) => self.unmapped.push(block),
            (kind, Some(address)) if kind.is_of_framework() => self.carve(block, address),
            (kind, Some(address)) => {
                if kind == Kind::CudaMapped {
                    self.behind[block] = self.take_unmapped(row.bytes);
                }
                self.live.insert(address, block);
            }
            (_, None) => {}
        }
    }

    fn end(&mut self, block: usize) {
        let row = &self.rows[block];
        self.unmapped.retain(|physical| *physical != block);
        if let Some(address) = row.address.filter(|address| self.live.get(address) == Some(&block)) {
            self.live.remove(&address);
        }
    }

    /// Rows do not say which physical memory is mapped: what was allocated last of that size is.
    fn take_unmapped(&mut self, bytes: u64) -> Option<usize> {
        let place = self.unmapped.iter().rposition(|physical| self.rows[*physical].bytes == bytes)?;
        Some(self.unmapped.remove(place))
    }

    /// A framework allocates a block in memory of the driver.
    fn carve(&mut self, block: usize, start: u64) {
        let end = start.saturating_add(self.rows[block].bytes);
        let reaches = |place: usize| {
            let row = &self.rows[place];
            row.address.unwrap_or(0).saturating_add(row.bytes) > start
        };
        let before = self.live.range(..end).rev().map(|(_, place)| *place);
        let around: Vec<usize> = before.take_while(|place| reaches(*place)).collect();
        let counted = |place: usize| self.behind[place].unwrap_or(place);
        let is_own = |place: usize| {
            let kind = self.rows[counted(place)].kind;
            kind.is_on_device() || kind == Kind::CudaMapped
        };
        self.parts[block] = match around.as_slice() {
            [] => Part::Whole,
            all if all.iter().all(|place| is_own(*place)) => Part::Inside,
            _ => Part::Nothing,
        };
        for place in around {
            let is_mapped = self.rows[place].kind == Kind::CudaMapped;
            self.parts[place] = if is_mapped { Part::Mapped } else { Part::Segment };
            self.behind[place].into_iter().for_each(|physical| self.parts[physical] = Part::Nothing);
        }
    }
}
