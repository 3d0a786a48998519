//! Blocks that a plan places.

use memtrace_trace::rows::PlacementRow;
use memtrace_wire::event::Event;
use memtrace_wire::placement::Tier;

use super::Fold;
use crate::record::transport::placing::{Placing, tier_name};

/// What became of a plan.
#[derive(Default)]
pub struct Placements {
    /// The file whose blocks are placed, if only one's are.
    program: Option<String>,
    blocks: u64,
    refused: u64,
    /// Why the last one was refused.
    errno: i32,
    departed: bool,
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
        let Placements { program, blocks, refused, .. } = self;
        if self.departed {
            return Some(format!(
                "The program allocated other large blocks than the plan has: no more were placed after the first {blocks}. Make a plan for this command (memtrace place learn)."
            ));
        }
        if *refused > 0 {
            let why = std::io::Error::from_raw_os_error(self.errno);
            return Some(format!("{refused} of {blocks} blocks could not be placed: {why}."));
        }
        let program = program.as_ref().filter(|_| *blocks == 0)?;
        Some(format!(
            "No block was placed: {program} was not executed, its large blocks are not those of the plan, or it has an allocator of its own."
        ))
    }
}

impl Fold {
    /// What became of a plan.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// A block gets its memory, or no more do.
    pub(super) fn placed(&mut self, writer: u32, event: Event) {
        let departs = event.address == 0;
        let errno = (event.extra >> 8) as i32;
        let placements = &mut self.placements;
        placements.departed |= departs;
        placements.blocks += u64::from(!departs);
        if errno != 0 {
            placements.refused += 1;
            placements.errno = errno;
        }
        self.rows.placement(PlacementRow {
            process: self.process_of(writer),
            thread: writer,
            time_ns: self.clock.ns(event.stamp),
            action: if departs { "depart" } else { "place" }.into(),
            tier: Tier::from_code(event.extra as u8).filter(|_| !departs).map(tier_name),
            address: (!departs).then_some(event.address),
            bytes: (!departs).then_some(event.bytes),
            errno: (errno != 0).then_some(errno),
        });
    }
}
