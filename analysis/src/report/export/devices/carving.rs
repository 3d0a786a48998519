//! Which memory of the driver a framework has blocks in: those count then, instead of it.

use std::collections::BTreeMap;

use memtrace_trace::rows::{AllocationRow, Kind};

/// What a row is to an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Memory of the driver that a framework has blocks in.
    Segment,
    /// The same, used as a whole until the first of them: something was released meanwhile, when that
    /// was not known.
    Late,
    /// Physical memory that is used as a whole until there is a block in what it is mapped to.
    Passing,
    /// The same, where the driver mapped it to addresses that it had reserved before.
    Mapped,
    /// A block in such memory.
    Inside,
    /// Memory that is used as a whole.
    Whole,
    /// Counted elsewhere, or not the device's.
    Nothing,
}

/// What happens to a row's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    End,
    /// A framework allocates the first block in it.
    Carved,
    Begin,
}

/// One of these.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub time_ns: i64,
    /// Place of the row.
    pub block: usize,
    pub moment: Moment,
}

/// Begins and ends in order. Of those at one time ends come first, of a framework's blocks
/// before those of the memory around them; begins the other way round.
pub fn steps(rows: &[AllocationRow]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(2 * rows.len());
    for (block, row) in rows.iter().enumerate() {
        steps.push(Step { time_ns: row.alloc_ns, block, moment: Moment::Begin });
        let end = row.free_ns.map(|free| free.max(row.alloc_ns.saturating_add(1)));
        steps.extend(end.map(|time_ns| Step { time_ns, block, moment: Moment::End }));
    }
    steps.sort_by_key(|step| {
        let outer = match rows[step.block].kind {
            kind if kind.is_of_framework() => 0,
            Kind::CudaMapped => 1,
            _ => 2,
        };
        let outer = if step.moment == Moment::Begin { -outer } else { outer };
        (step.time_ns, step.moment, outer, step.block)
    });
    steps
}

/// What each row is; and the steps, with those that carve.
pub fn parts(rows: &[AllocationRow], steps: &[Step]) -> (Vec<Part>, Vec<Step>) {
    let mut carving = Carving {
        rows,
        parts: rows.iter().map(untouched).collect(),
        live: BTreeMap::new(),
        unmapped: Vec::new(),
        behind: vec![None; rows.len()],
        releases: 0,
        releases_before: vec![0; rows.len()],
        steps: Vec::with_capacity(steps.len()),
    };
    for step in steps {
        match step.moment {
            Moment::End => carving.end(step.block),
            _ => carving.begin(*step),
        }
        carving.steps.push(*step);
    }
    (carving.parts, carving.steps)
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
    /// How often used memory was released so far, and before each row.
    releases: usize,
    releases_before: Vec<usize>,
    steps: Vec<Step>,
}

impl Carving<'_> {
    fn begin(&mut self, step: Step) {
        let (block, row) = (step.block, &self.rows[step.block]);
        self.releases_before[block] = self.releases;
        match (row.kind, row.address) {
            (Kind::CudaPhysical | Kind::CudaImportedPhysical, _) => self.unmapped.push(block),
            (kind, Some(address)) if kind.is_of_framework() => self.carve(step, address),
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
        self.releases += usize::from(matches!(self.parts[block], Part::Whole | Part::Inside));
        if matches!(row.kind, Kind::CudaPhysical | Kind::CudaImportedPhysical) {
            self.unmapped.retain(|physical| *physical != block);
        }
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
    fn carve(&mut self, step: Step, start: u64) {
        // Memory that overlaps other memory is damaged: it is not followed further.
        let mut next = u64::MAX;
        let mut reaches = |from: u64, place: usize| {
            let end = from.saturating_add(self.rows[place].bytes);
            start < end && end <= std::mem::replace(&mut next, from)
        };
        let end = start.saturating_add(self.rows[step.block].bytes);
        let before = self.live.range(..end).rev().map(|(from, place)| (*from, *place));
        let around = before.take_while(|(from, place)| reaches(*from, *place));
        let around: Vec<usize> = around.map(|(_, place)| place).collect();
        let counted = |place: usize| self.behind[place].unwrap_or(place);
        let is_own = |place: usize| {
            let kind = self.rows[counted(place)].kind;
            kind.is_on_device() || kind == Kind::CudaMapped
        };
        self.parts[step.block] = match around.as_slice() {
            [] => Part::Whole,
            all if all.iter().all(|place| is_own(*place)) => Part::Inside,
            _ => Part::Nothing,
        };
        for place in around {
            match self.rows[place].kind {
                Kind::CudaMapped => {
                    self.parts[place] = Part::Mapped;
                    let physical = self.behind[place];
                    physical.into_iter().for_each(|it| self.give_way(it, step, Part::Nothing, Part::Passing));
                }
                _ => self.give_way(place, step, Part::Segment, Part::Late),
            }
        }
    }

    /// What a block lies in counts no longer; `late` is what it is if it did until now.
    fn give_way(&mut self, place: usize, step: Step, part: Part, late: Part) {
        let is_late = self.parts[place] == Part::Whole && self.releases > self.releases_before[place];
        if is_late {
            self.parts[place] = late;
            self.steps.push(Step { block: place, moment: Moment::Carved, ..step });
        } else if self.parts[place] != late {
            self.parts[place] = part;
        }
    }
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::Role;

    use super::*;

    fn row(
        kind: Kind,
        address: Option<u64>,
        bytes: u64,
        alloc_ns: i64,
        free_ns: Option<i64>,
    ) -> AllocationRow {
        let (process, thread, ordinal, site, span) = (0, 0, 0, None, None);
        let (role, device) = (Role::None, Some(0));
        AllocationRow {
            process,
            thread,
            kind,
            address,
            bytes,
            alloc_ns,
            free_ns,
            site,
            ordinal,
            span,
            role,
            device,
        }
    }

    fn parts_of(rows: &[AllocationRow]) -> Vec<Part> {
        parts(rows, &steps(rows)).0
    }

    #[test]
    fn physical_memory_gives_way_to_what_it_is_mapped_to() {
        let rows = [
            row(Kind::CudaPhysical, None, 20, 1, None),
            row(Kind::CudaMapped, Some(100), 20, 2, None),
            row(Kind::CudaPhysical, None, 20, 3, None),
            row(Kind::CudaMapped, Some(120), 20, 4, None),
            row(Kind::CudaPhysical, None, 20, 5, None),
            // It reaches from the first part into the second one.
            row(Kind::TorchBlock, Some(110), 20, 6, None),
        ];
        let physical = Part::Nothing;
        let expected = [physical, Part::Mapped, physical, Part::Mapped, Part::Whole, Part::Inside];
        assert_eq!(parts_of(&rows), expected);
    }

    #[test]
    fn an_address_that_is_used_again_is_other_memory() {
        let rows = [
            row(Kind::Cuda, Some(100), 20, 1, Some(2)),
            row(Kind::Cuda, Some(100), 20, 3, None),
            row(Kind::PoolBlock, Some(104), 4, 4, Some(5)),
            row(Kind::PoolBlock, Some(500), 4, 4, None),
            row(Kind::CudaIpc, Some(600), 20, 1, None),
            row(Kind::PoolBlock, Some(600), 4, 4, None),
        ];
        let others = [Part::Segment, Part::Nothing];
        let expected = [Part::Whole, Part::Segment, Part::Inside, Part::Whole, others[0], others[1]];
        assert_eq!(parts_of(&rows), expected);
    }

    #[test]
    fn memory_counts_as_a_whole_until_a_block_is_in_it_if_something_was_released() {
        let rows = [
            row(Kind::Cuda, Some(100), 20, 1, None),
            row(Kind::Cuda, Some(200), 20, 2, Some(3)),
            row(Kind::PoolBlock, Some(100), 4, 4, None),
        ];
        let (parts, steps) = parts(&rows, &steps(&rows));
        assert_eq!(parts, [Part::Late, Part::Whole, Part::Inside]);
        let carved: Vec<i64> =
            steps.iter().filter(|step| step.moment == Moment::Carved).map(|step| step.time_ns).collect();
        assert_eq!(carved, [4]);
    }

    #[test]
    fn in_one_nanosecond_ends_come_first_and_blocks_before_what_is_around_them() {
        let rows = [
            row(Kind::Cuda, Some(100), 20, 1, Some(5)),
            row(Kind::PoolBlock, Some(100), 4, 1, Some(5)),
            row(Kind::Cuda, Some(100), 20, 5, Some(5)),
        ];
        let order: Vec<(usize, bool)> =
            steps(&rows).iter().map(|step| (step.block, step.moment == Moment::Begin)).collect();
        assert_eq!(order, [(0, true), (1, true), (1, false), (0, false), (2, true), (2, false)]);
    }
}
