//! A sampled access and the block that it met.

use memtrace_perf::{Memory, Operand, Operation, Record, Registers};
use memtrace_trace::rows::AccessRow;

use super::Fold;

/// What was sampled.
struct Access {
    /// One of the table's kinds.
    kind: &'static str,
    address: Option<u64>,
    /// What the processor says.
    memory: Option<Memory>,
}

/// The block that an access met.
struct Met {
    address: u64,
    bytes: u64,
    thread: u32,
    alloc: u64,
    site: Option<u64>,
    span: Option<u32>,
}

impl Fold {
    /// An access at a time up to which all is folded.
    pub(super) fn accessed(&mut self, process: u32, record: &Record, address: u64, memory: Option<Memory>) {
        // A unit that samples instructions samples those too that touch no memory.
        if address == 0 {
            return;
        }
        let kind = match memory.map(|memory| memory.operation) {
            None => "fault",
            Some(None) => "other",
            Some(Some(operation)) => name(operation),
        };
        self.write_access(process, record, Access { kind, address: Some(address), memory });
    }

    /// The program executed this far at a time up to which all is folded.
    pub(super) fn executed(&mut self, process: u32, record: &Record, registers: &Registers) {
        let (kind, address) = match self.sites.operand_before(process, registers.ip) {
            None => ("unknown", None),
            Some((Operand::NoMemory, _)) => ("none", None),
            Some((Operand::Memory { operation, place }, bias)) => {
                (name(operation), place.map(|place| place.address(registers, bias)))
            }
        };
        self.write_access(process, record, Access { kind, address, memory: None });
    }

    fn write_access(&mut self, process: u32, record: &Record, access: Access) {
        let Access { kind, address, memory } = access;
        let met = address.and_then(|address| self.met(process, address));
        let thread = self.samples.thread(process, record.tid);
        let row = AccessRow {
            process,
            thread,
            tid: record.tid,
            time_ns: self.clock.of_monotonic(record.ns),
            access: kind.into(),
            address,
            active_span: thread.and_then(|thread| self.spans.innermost(thread)),
            block_address: met.as_ref().map(|met| met.address),
            block_bytes: met.as_ref().map(|met| met.bytes),
            block_thread: met.as_ref().map(|met| met.thread),
            block_ns: met.as_ref().map(|met| self.clock.ns(met.alloc)),
            site: met.as_ref().and_then(|met| met.site),
            span: met.as_ref().and_then(|met| met.span),
            level: memory.and_then(|memory| memory.level).map(str::to_owned),
            latency_cycles: memory.map(|memory| memory.latency).filter(|cycles| *cycles > 0),
        };
        self.rows.access(row);
    }

    /// The block at an address: of the heap, or else a mapping.
    fn met(&self, process: u32, address: u64) -> Option<Met> {
        let process = &self.processes[process];
        let id = |site: Option<_>| site.map(|site| self.sites.id(site));
        if let Some((start, block)) = process.heap.blocks().around(address) {
            let (site, span) = (id(block.site), block.span);
            let (bytes, thread, alloc) = (block.bytes, block.thread, block.alloc);
            return Some(Met { address: start, bytes, thread, alloc, site, span });
        }
        let piece = process.mappings.find(address)?;
        Some(Met {
            address: piece.start,
            bytes: piece.bytes,
            thread: piece.thread,
            alloc: piece.alloc,
            site: id(piece.site),
            span: piece.span,
        })
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Load => "load",
        Operation::Store => "store",
    }
}
