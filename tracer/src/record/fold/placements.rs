//! Blocks that a plan places.

use memtrace_trace::rows::PlacementRow;
use memtrace_wire::event::Event;
use memtrace_wire::placement::Done;
use memtrace_wire::placement::moves::Action;

use super::Fold;
use crate::record::state::blocks::Site;
use crate::record::state::placed::{PlacedBlock, PlacedBlocks};
use crate::record::transport::placing::{Placing, tier_name};

/// What became of a plan.
#[derive(Default)]
pub struct Placements {
    /// The file whose blocks are placed, if only one's are.
    program: Option<String>,
    blocks: u64,
    moves: u64,
    refused: u64,
    /// Why the last one was refused.
    errno: i32,
    departed: bool,
    placed: PlacedBlocks,
}

impl Placements {
    /// Nothing yet.
    pub fn of(placing: Option<&Placing>) -> Placements {
        let program = match placing {
            Some(Placing::Table { program, .. }) => Some(program.path.display().to_string()),
            _ => None,
        };
        Placements { program, ..Placements::default() }
    }

    /// What did not go as planned.
    pub fn note(&self) -> Option<String> {
        let Placements { program, blocks, moves, refused, .. } = self;
        if self.departed {
            return Some(format!(
                "The program allocated other large blocks than the plan has: no more were placed after the first {blocks}. Make a plan for this command (memtrace place learn)."
            ));
        }
        if *refused > 0 {
            let why = std::io::Error::from_raw_os_error(self.errno);
            return Some(format!("{refused} of {blocks} blocks and {moves} moves were refused: {why}."));
        }
        let program = program.as_ref().filter(|_| *blocks == 0)?;
        Some(format!(
            "No block was placed: {program} was not executed, its large blocks are not those of the plan, or it has an allocator of its own."
        ))
    }

    /// What went as planned.
    pub fn remark(&self) -> Option<String> {
        let Placements { blocks, moves, .. } = self;
        let went_well = self.program.is_some() && !self.departed && self.refused == 0 && *blocks > 0;
        went_well.then(|| format!("Blocks placed as planned: {blocks}; moves of their pages: {moves}."))
    }
}

impl Placements {
    fn count(&mut self, action: &str, errno: i32) {
        match action {
            "depart" => self.departed = true,
            "place" => self.blocks += 1,
            _ => self.moves += 1,
        }
        if errno != 0 {
            self.refused += 1;
            self.errno = errno;
        }
    }
}

impl Fold {
    /// What became of a plan.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// A block gets its memory, its pages are moved, or no more is done.
    pub(super) fn placed(&mut self, writer: u32, event: Event) {
        let done = Done::decode(event.extra);
        let action = match done.action {
            _ if event.address == 0 => "depart",
            None => "place",
            Some(Action::In) => "in",
            Some(_) => "out",
        };
        self.placements.count(action, done.errno);
        self.keep_placed(writer, event, &done);
        let is_block = action != "depart";
        self.rows.placement(PlacementRow {
            tier: done.tier.filter(|_| is_block).map(tier_name),
            errno: (done.errno != 0).then_some(done.errno),
            micros: done.action.map(|_| done.micros),
            ..self.placement_row(writer, event, action, is_block)
        });
    }

    /// Keeps what the live view shows of blocks and moves.
    fn keep_placed(&mut self, writer: u32, event: Event, done: &Done) {
        let (at, processes) = ((self.process_of(writer), event.address), &self.processes);
        let placed = &mut self.placements.placed;
        match (done.action, done.tier) {
            _ if event.address == 0 || done.errno != 0 => {}
            (None, Some(tier)) => placed.place(at, event.bytes, tier, |process, address| {
                processes.get(process).is_some_and(|process| process.heap.blocks().get(address).is_some())
            }),
            (None, None) => {}
            (Some(action), _) => placed.shift(at, event.bytes, action != Action::In),
        }
    }

    /// Live blocks that were placed, with their call stacks.
    pub fn placed_blocks(&self) -> impl Iterator<Item = (PlacedBlock, Option<Site>)> {
        self.placements.placed.iter().filter_map(|(process, address, placed)| {
            let block = self.processes.get(process)?.heap.blocks().get(address)?;
            (block.bytes == placed.bytes).then_some((placed, block.site))
        })
    }

    /// A block was used, or all that were have been named.
    pub(super) fn used(&mut self, writer: u32, event: Event) {
        let is_block = event.address != 0;
        let action = if is_block { "use" } else { "look" };
        self.rows.placement(self.placement_row(writer, event, action, is_block));
        if event.extra > 0 {
            let written = Event { bytes: event.extra, ..event };
            self.rows.placement(self.placement_row(writer, written, "write", is_block));
        }
    }

    fn placement_row(&self, writer: u32, event: Event, action: &str, is_block: bool) -> PlacementRow {
        PlacementRow {
            process: self.process_of(writer),
            thread: writer,
            time_ns: self.clock.ns(event.stamp),
            action: action.into(),
            address: is_block.then_some(event.address),
            bytes: is_block.then_some(event.bytes),
            ..PlacementRow::default()
        }
    }
}
