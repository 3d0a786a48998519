//! PyTorch's snapshot of its allocator (`torch.cuda.memory._snapshot`), which pytorch.org/memory_viz
//! and `torch/cuda/_memory_viz.py` read: a pickle.

use std::collections::HashMap;

use memtrace_analysis::report::export::Frame;
use memtrace_analysis::report::export::devices::{Action, Block, Device, Event, OnDevices, Segment};

use super::pickle::{Pickle, Reference};

/// A list of events for each device of each process.
pub fn pickle(on_devices: &OnDevices) -> Vec<u8> {
    let lists = lists(&on_devices.devices);
    let mut traces: Vec<Option<&Device>> = vec![None; lists.iter().max().map_or(0, |last| last + 1)];
    lists.iter().zip(&on_devices.devices).for_each(|(list, device)| traces[*list] = Some(device));
    let segments: Vec<(usize, &Segment)> = lists
        .iter()
        .zip(&on_devices.devices)
        .flat_map(|(list, device)| device.segments.iter().map(|segment| (*list, segment)))
        .collect();
    let mut snapshot = Snapshot {
        frames: &on_devices.frames,
        start_us: on_devices.start_unix_ns.max(0) as u64 / 1000,
        stacks: HashMap::new(),
        written: HashMap::new(),
    };
    let mut out = Pickle::new();
    out.dict(|out| {
        out.text("segments");
        out.list(&segments, |out, (list, segment)| snapshot.segment(out, *list, segment));
        out.text("device_traces");
        out.list(&traces, |out, device| {
            let events = device.map_or(&[][..], |device| &device.events);
            let actions: Vec<(&Event, &str)> = events.iter().flat_map(actions).collect();
            out.list(&actions, |out, (event, action)| snapshot.event(out, event, action));
        });
    });
    out.finish()
}

/// No machine has as many.
const DEVICES_MAX: u32 = 1 << 12;

/// Which list each device has: those of one process have that of their number, those of several one
/// after the other.
pub fn lists(devices: &[Device]) -> Vec<usize> {
    let of_one = devices.iter().all(|each| each.process == devices[0].process && each.number < DEVICES_MAX);
    let list = |(place, device): (usize, &Device)| if of_one { device.number as usize } else { place };
    devices.iter().enumerate().map(list).collect()
}

/// PyTorch's allocator releases a block in two steps, since other streams may still use it.
fn actions(event: &Event) -> impl Iterator<Item = (&Event, &'static str)> {
    let names: &[&str] = match event.action {
        Action::Reserve => &["segment_alloc"],
        Action::Return => &["segment_free"],
        Action::Map => &["segment_map"],
        Action::Unmap => &["segment_unmap"],
        Action::Allocate => &["alloc"],
        Action::Release => &["free_requested", "free_completed"],
    };
    names.iter().map(move |name| (event, *name))
}

struct Snapshot<'a> {
    frames: &'a [Frame],
    start_us: u64,
    /// Call stacks that were written, by their innermost frame.
    stacks: HashMap<usize, Reference>,
    /// Frames that were.
    written: HashMap<usize, Reference>,
}

impl Snapshot<'_> {
    fn event(&mut self, out: &mut Pickle, event: &Event, action: &str) {
        out.dict(|out| {
            out.word("action", action);
            out.number("addr", event.block.address);
            out.number("size", event.block.bytes);
            out.number("stream", 0);
            out.number("time_us", self.start_us + event.time_ns / 1000);
            self.stack(out, event.block.frame);
        });
    }

    fn segment(&mut self, out: &mut Pickle, list: usize, segment: &Segment) {
        let reserved = &segment.reserved;
        let live: u64 = segment.blocks.iter().map(|block| block.bytes).sum();
        out.dict(|out| {
            out.number("device", list as u64);
            out.number("address", reserved.address);
            out.number("total_size", reserved.bytes);
            for size in ["allocated_size", "active_size", "requested_size"] {
                out.number(size, live);
            }
            out.number("stream", 0);
            out.word("segment_type", "large");
            out.text("is_expandable");
            out.bool(segment.expandable);
            self.stack(out, reserved.frame);
            out.text("blocks");
            out.list(&tiles(segment), |out, (block, is_live)| self.block(out, block, *is_live));
        });
    }

    fn block(&mut self, out: &mut Pickle, block: &Block, is_live: bool) {
        out.dict(|out| {
            out.number("address", block.address);
            out.number("size", block.bytes);
            out.number("requested_size", block.bytes);
            out.word("state", if is_live { "active_allocated" } else { "inactive" });
            if is_live {
                self.stack(out, block.frame);
            }
        });
    }

    /// Innermost first. Each call stack is written once, and each frame.
    fn stack(&mut self, out: &mut Pickle, leaf: usize) {
        out.text("frames");
        if let Some(known) = self.stacks.get(&leaf) {
            return out.again(*known);
        }
        let frames: Vec<usize> =
            std::iter::successors(Some(leaf), |frame| self.frames[*frame].parent).collect();
        out.list(&frames, |out, frame| self.frame(out, *frame));
        self.stacks.insert(leaf, out.keep());
    }

    fn frame(&mut self, out: &mut Pickle, place: usize) {
        if let Some(known) = self.written.get(&place) {
            return out.again(*known);
        }
        let frame = &self.frames[place];
        out.dict(|out| {
            out.word("name", &frame.function);
            out.word("filename", if frame.file.is_empty() { &frame.library } else { &frame.file });
            out.number("line", frame.line.into());
        });
        self.written.insert(place, out.keep());
    }
}

/// The blocks of a segment and the gaps between them, which are not live.
fn tiles(segment: &Segment) -> Vec<(Block, bool)> {
    let (mut tiles, mut free) = (Vec::new(), segment.reserved.address);
    let end = Block { address: segment.reserved.end(), bytes: 0, ..segment.reserved };
    for block in segment.blocks.iter().chain([&end]) {
        if block.address > free {
            tiles.push((Block { address: free, bytes: block.address - free, ..*block }, false));
        }
        if block.bytes > 0 {
            tiles.push((*block, true));
        }
        free = block.end();
    }
    tiles
}
