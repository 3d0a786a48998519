//! Memory of devices in the terms of an allocator: segments that the driver reserved, and the blocks
//! in them that the program uses.

mod carving;

use std::collections::{BTreeMap, HashMap, HashSet};

use memtrace_trace::rows::AllocationRow;
use memtrace_trace::{AllocationFilter, Meta, Trace};

use super::{Frame, Tree, nameless, time};
use crate::error::Error;
use carving::{Moment, Part, Step};

/// What a trace has of devices.
#[derive(Debug)]
pub struct OnDevices {
    /// Frames; callers come before what they call.
    pub frames: Vec<Frame>,
    /// When the recording began, ns since 1970.
    pub start_unix_ns: i64,
    /// Each device of each process that allocated on it, by process.
    pub devices: Vec<Device>,
    /// Why blocks may be missing, if they may.
    pub missing: Option<&'static str>,
}

/// A device in one process.
#[derive(Debug)]
pub struct Device {
    /// Index of the process.
    pub process: u32,
    /// Its process id.
    pub pid: u32,
    /// The device, as its driver counts.
    pub number: u32,
    /// In order.
    pub events: Vec<Event>,
    /// What is there at the end, by address.
    pub segments: Vec<Segment>,
}

/// A step of an allocator.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// When.
    pub time_ns: u64,
    /// What is done.
    pub action: Action,
    /// With what.
    pub block: Block,
}

/// What an allocator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The driver reserves a segment.
    Reserve,
    /// The driver takes a segment back.
    Return,
    /// The driver maps memory to a part of an expandable segment.
    Map,
    /// The driver unmaps such a part.
    Unmap,
    /// A block is allocated.
    Allocate,
    /// A block is released.
    Release,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// Place of the innermost frame that allocated it.
    pub frame: usize,
}

impl Block {
    /// One past its last address.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// A segment with the blocks that are live in it.
#[derive(Debug)]
pub struct Segment {
    /// What the driver reserved.
    pub reserved: Block,
    /// It consists of parts that were mapped one after the other.
    pub expandable: bool,
    /// By address, none overlapping another.
    pub blocks: Vec<Block>,
}

/// Reads the allocations on devices. Their used bytes are those of the table `devices`, without what
/// graphs use: that has no rows.
///
/// # Errors
/// A table cannot be read.
pub fn on_devices(trace: &Trace) -> Result<OnDevices, Error> {
    let (meta, mut rows) = (trace.meta(), BTreeMap::<(u32, u32), Vec<AllocationRow>>::new());
    if !trace.devices()?.is_empty() {
        trace.allocations(AllocationFilter::default(), |row| {
            let device = row.device.filter(|_| row.kind.is_of_driver() && row.bytes > 0);
            device
                .into_iter()
                .for_each(|device| rows.entry((row.process, device)).or_default().push(row.clone()));
        })?;
    }
    let (frames, of_site) = frames(trace, rows.values().flatten())?;
    let pids: HashMap<u32, u32> = trace.processes()?.iter().map(|row| (row.process, row.pid)).collect();
    let device = |((process, number), rows): (&(u32, u32), &Vec<AllocationRow>)| {
        let history =
            History::of(rows, |row| row.site.and_then(|site| of_site.get(&site).copied()).unwrap_or(0));
        Device {
            process: *process,
            pid: pids.get(process).copied().unwrap_or(*process),
            number: *number,
            segments: history.segments(),
            events: history.events(),
        }
    };
    let devices = rows.iter().map(device).filter(|device| !device.events.is_empty()).collect();
    Ok(OnDevices { frames, start_unix_ns: meta.start_unix_ns, devices, missing: missing(meta) })
}

/// Blocks of devices have rows whatever their size.
fn missing(meta: &Meta) -> Option<&'static str> {
    let mut rows = meta.rows;
    rows.min_size_bytes = 0;
    rows.missing(0)
}

/// The frames of these blocks, and the innermost one of each site. The first one says that there is none.
fn frames<'a>(
    trace: &Trace,
    blocks: impl Iterator<Item = &'a AllocationRow>,
) -> Result<(Vec<Frame>, HashMap<u64, usize>), Error> {
    let sites: HashSet<u64> = blocks.filter_map(|row| row.site).collect();
    let leaves = trace.leaves(&sites)?;
    let rows = trace.frames_of(leaves.values().copied())?;
    let mut tree = Tree { rows: &rows, places: HashMap::new(), frames: Vec::new() };
    tree.push(nameless(trace.meta()));
    let of_site = leaves.iter().filter_map(|(site, leaf)| Some((*site, tree.place(*leaf)?))).collect();
    Ok((tree.frames, of_site))
}

/// The blocks of a device, what they are to an allocator, and when they come and go.
struct History {
    blocks: Vec<(Block, Part)>,
    steps: Vec<Step>,
    live: Vec<usize>,
}

impl History {
    fn of(rows: &[AllocationRow], frame: impl Fn(&AllocationRow) -> usize) -> History {
        let steps = carving::steps(rows);
        let (parts, steps) = carving::parts(rows, &steps);
        // Physical memory has no address: those that it is given here are no device's.
        let mut nowhere: u64 = 1 << 52;
        let blocks = rows.iter().zip(parts).map(|(row, part)| {
            let address = row.address.unwrap_or_else(|| {
                let from = nowhere;
                nowhere = nowhere.saturating_add(row.bytes);
                from
            });
            (Block { address, bytes: row.bytes, frame: frame(row) }, part)
        });
        let live = (0..rows.len()).filter(|place| rows[*place].free_ns.is_none()).collect();
        History { blocks: blocks.collect(), steps, live }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for step in &self.steps {
            let (block, part) = self.blocks[step.block];
            let actions: &[Action] = match (part, step.moment) {
                (Part::Segment, Moment::Begin) => &[Action::Reserve],
                (Part::Segment | Part::Late, Moment::End) => &[Action::Return],
                (Part::Mapped, Moment::Begin) => &[Action::Map],
                (Part::Mapped, Moment::End) => &[Action::Unmap],
                (Part::Inside, Moment::Begin) => &[Action::Allocate],
                (Part::Inside, Moment::End) | (Part::Late, Moment::Carved) => &[Action::Release],
                (Part::Whole | Part::Late | Part::Passing, Moment::Begin) => {
                    &[Action::Reserve, Action::Allocate]
                }
                (Part::Whole, Moment::End) | (Part::Passing, Moment::Carved) => {
                    &[Action::Release, Action::Return]
                }
                _ => &[],
            };
            let time_ns = time(step.time_ns);
            events.extend(actions.iter().map(|action| Event { time_ns, action: *action, block }));
        }
        events
    }

    fn segments(&self) -> Vec<Segment> {
        let mut live: Vec<(Block, Part)> = self.live.iter().map(|place| self.blocks[*place]).collect();
        // What is reserved comes before the block that it begins with.
        live.sort_by_key(|(block, part)| (block.address, *part == Part::Inside));
        let mut segments: Vec<Segment> = Vec::new();
        for (block, part) in &live {
            let own = if *part == Part::Whole { vec![*block] } else { Vec::new() };
            match (part, segments.last_mut()) {
                (Part::Mapped, Some(last)) if last.expandable && last.reserved.end() == block.address => {
                    last.reserved.bytes = last.reserved.bytes.saturating_add(block.bytes);
                }
                (Part::Segment | Part::Late | Part::Mapped | Part::Whole, _) => segments.push(Segment {
                    reserved: *block,
                    expandable: *part == Part::Mapped,
                    blocks: own,
                }),
                _ => {}
            }
        }
        let inside = live.iter().filter(|(_, part)| *part == Part::Inside).map(|(block, _)| *block);
        inside.for_each(|block| put(&mut segments, block));
        segments
    }
}

/// Blocks come in the order of their addresses. One that is in no segment is damaged, and left out.
fn put(segments: &mut [Segment], block: Block) {
    let after = segments.partition_point(|segment| segment.reserved.address <= block.address);
    let Some(segment) = after.checked_sub(1).map(|place| &mut segments[place]) else { return };
    let free = segment.blocks.last().map_or(segment.reserved.address, Block::end);
    if free <= block.address && block.end() <= segment.reserved.end() {
        segment.blocks.push(block);
    }
}
