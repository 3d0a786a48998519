//! What of a trace is memory of devices: what was used of it when, and what pools reserved in
//! addition.

use std::collections::{BTreeMap, HashMap, HashSet};

use memtrace_trace::rows::{AllocationRow, Kind, SpanRow};
use memtrace_trace::{AllocationFilter, Result, Trace};

/// Names a row: process, address, and when it was allocated.
type Name = (u32, Option<u64>, i64);

/// Used bytes of devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Driver's memory that a framework allocates from: its blocks count, not this. And blocks of
    /// frameworks that lie in memory which is on no device or on any, as managed memory is.
    uncounted: HashSet<Name>,
    /// By process: used bytes from each time on.
    used: HashMap<u32, Vec<(i64, i64)>>,
}

impl Devices {
    /// Reads the rows of blocks on devices, of any size and in no span, too.
    pub(super) fn read(trace: &Trace) -> Result<Devices> {
        if trace.devices()?.is_empty() {
            return Ok(Devices::default());
        }
        let mut rows = Vec::new();
        trace.allocations(AllocationFilter::default(), |row| {
            if row.kind.is_of_driver() {
                rows.push(row);
            }
        })?;
        Ok(Devices::of(&rows))
    }

    fn of(rows: &[AllocationRow]) -> Devices {
        // An address is one device's, or the host's (CUDA C++ Programming Guide, Unified Virtual
        // Address Space).
        let mut blocks: BTreeMap<(u32, u64), Vec<&AllocationRow>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.kind.is_of_framework()) {
            blocks.entry((row.process, row.address.unwrap_or(0))).or_default().push(row);
        }
        let inside = |row: &AllocationRow| {
            let from = row.address.unwrap_or(0);
            // Physical memory has no address of its own: PyTorch maps its expandable segments to
            // it.
            let to = row.address.map_or(u64::MAX, |from| from.saturating_add(row.bytes));
            let inside = blocks.range((row.process, from)..(row.process, to)).flat_map(|(_, blocks)| blocks);
            let there = inside.filter(|block| row.address.is_some() || block.device == row.device);
            there.filter(|block| lives_while(block, row)).map(|block| name(block)).collect::<Vec<_>>()
        };
        let mut uncounted = HashSet::new();
        for row in rows.iter().filter(|row| !row.kind.is_of_framework()) {
            match place(row) {
                Place::Device if !inside(row).is_empty() => drop(uncounted.insert(name(row))),
                Place::Elsewhere => uncounted.extend(inside(row)),
                _ => {}
            }
        }
        let devices = Devices { uncounted, used: HashMap::new() };
        let mut used: HashMap<u32, Vec<(i64, i64)>> = HashMap::new();
        for row in rows.iter().filter(|row| devices.is_used(row)) {
            let changes = used.entry(row.process).or_default();
            changes.push((row.alloc_ns, row.bytes as i64));
            changes.extend(row.free_ns.map(|free_ns| (free_ns, -(row.bytes as i64))));
        }
        for changes in used.values_mut() {
            changes.sort_unstable();
            let mut sum = 0;
            for (_, bytes) in changes {
                sum += *bytes;
                *bytes = sum;
            }
        }
        Devices { used, ..devices }
    }

    /// True if a block counts.
    pub(super) fn is_used(&self, row: &AllocationRow) -> bool {
        row.kind.is_on_device() && row.device.is_some() && !self.uncounted.contains(&name(row))
    }

    /// What the process of a span used on devices when it began, its inputs left out.
    pub(super) fn before(&self, span: &SpanRow) -> u64 {
        let Some(used) = self.used.get(&span.process) else { return 0 };
        let earlier = used.partition_point(|(time, _)| *time < span.start_ns);
        let before = earlier.checked_sub(1).map_or(0, |last| used[last].1.max(0) as u64);
        let inputs = span.inputs.iter().filter(|input| !input.device.is_empty());
        before.saturating_sub(inputs.fold(0, |sum, input| sum.saturating_add(input.bytes)))
    }
}

/// Where a driver's memory is.
enum Place {
    /// On a device, for this process.
    Device,
    /// On the host, on whichever device uses it, or another process's.
    Elsewhere,
    /// Addresses of memory that has a row of its own.
    Nowhere,
}

fn place(row: &AllocationRow) -> Place {
    match row.kind {
        Kind::CudaGraph | Kind::CudaMapped => Place::Nowhere,
        kind if kind.is_on_device() && row.device.is_some() => Place::Device,
        // What lies in it is not known.
        kind if kind.is_on_device() || row.address.is_none() => Place::Nowhere,
        _ => Place::Elsewhere,
    }
}

fn name(row: &AllocationRow) -> Name {
    (row.process, row.address, row.alloc_ns)
}

fn lives_while(block: &AllocationRow, memory: &AllocationRow) -> bool {
    let before = |free: Option<i64>, start: i64| free.is_none_or(|free| start < free);
    before(memory.free_ns, block.alloc_ns) && before(block.free_ns, memory.alloc_ns)
}

/// Driver bytes at their peak, or what a framework said that it had reserved where the driver was
/// not seen (that may be managed memory too), and what of them was used then, by process: of the
/// device where that was most.
pub(super) fn reserved(trace: &Trace) -> Result<HashMap<u32, (u64, u64)>> {
    let mut most: HashMap<u32, (u64, u64)> = HashMap::new();
    for row in trace.devices()?.iter().filter(|row| row.used_at_peak_bytes > 0) {
        let announced = row.peak_framework_reserved_bytes.unwrap_or(0);
        let reserved = if row.peak_driver_bytes > 0 { row.peak_driver_bytes } else { announced };
        let known = most.entry(row.process).or_default();
        *known = (*known).max((reserved, row.used_at_peak_bytes));
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::{ArrayInfo, Role};

    use super::*;

    fn row(kind: Kind, address: u64, bytes: u64, alloc_ns: i64, free_ns: Option<i64>) -> AllocationRow {
        AllocationRow {
            process: 0,
            thread: 0,
            kind,
            address: (kind != Kind::CudaPhysical).then_some(address),
            bytes,
            alloc_ns,
            free_ns,
            site: None,
            ordinal: 0,
            span: None,
            role: Role::None,
            device: Some(0),
        }
    }

    #[test]
    fn blocks_count_and_not_what_they_lie_in() {
        let segment = row(Kind::Cuda, 1000, 2000, 0, Some(50));
        let block = row(Kind::TorchBlock, 1512, 512, 10, Some(20));
        let later = row(Kind::Cuda, 1000, 2000, 60, None); // where a segment was
        let apart = row(Kind::Cuda, 9000, 300, 5, None);
        let rows = [segment.clone(), block.clone(), later.clone(), apart.clone()];
        let devices = Devices::of(&rows);
        assert!(!devices.is_used(&segment) && devices.is_used(&block));
        assert!(devices.is_used(&later) && devices.is_used(&apart));
        let physical = row(Kind::CudaPhysical, 0, 4000, 0, None);
        assert!(!Devices::of(&[physical.clone(), block]).is_used(&physical));
        assert!(Devices::of(&[physical.clone(), apart]).is_used(&physical));
    }

    #[test]
    fn blocks_in_memory_that_is_on_no_device_do_not_count() {
        let managed = row(Kind::CudaManaged, 1000, 2000, 0, None);
        let block = row(Kind::PoolBlock, 1512, 512, 10, Some(20));
        let own = row(Kind::PoolBlock, 5000, 300, 10, None);
        let pinned = AllocationRow { device: None, ..row(Kind::CudaPool, 9000, 700, 1, None) };
        let devices = Devices::of(&[managed.clone(), block.clone(), own.clone(), pinned.clone()]);
        assert_eq!(
            [&managed, &block, &own, &pinned].map(|row| devices.is_used(row)),
            [false, false, true, false]
        );
        assert_eq!(devices.used[&0], [(10, 300)]);
    }

    #[test]
    fn what_a_process_used_before_a_span_leaves_out_its_inputs() {
        let rows = [row(Kind::PoolBlock, 0, 700, 0, None), row(Kind::PoolBlock, 800, 50, 1, Some(9))];
        let devices = Devices::of(&rows);
        let input = ArrayInfo { bytes: 300, device: "cuda".to_owned(), ..ArrayInfo::default() };
        let span = |start_ns| SpanRow { start_ns, inputs: [input.clone()].into(), ..SpanRow::default() };
        assert_eq!([0, 1, 5, 10].map(|start| devices.before(&span(start))), [0, 400, 450, 400]);
        assert_eq!(devices.before(&SpanRow { process: 3, ..span(5) }), 0);
    }
}
