//! What it costs a machine to move a page to swap and back.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PAGE, Pages};
use crate::placement::{Error, file};

/// Version of the file.
pub const MACHINE_VERSION: u32 = 1;
/// Larger files are refused.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// No page costs that much, microseconds.
const MOST_MICROS: f64 = 1e6;

/// CPU time that pages cost, as `place calibrate` has measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// [`MACHINE_VERSION`] of the writer.
    pub machine_version: u32,
    /// By what is in the pages: compressed memory takes longer for some than for others.
    pub contents: Vec<Content>,
    /// A new page: microseconds of CPU time for 4 KiB.
    pub fresh: f64,
}

/// Pages of one kind; microseconds of CPU time for 4 KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// What is in them.
    pub name: String,
    /// To swap, written (MADV_PAGEOUT).
    pub written: f64,
    /// To swap, where they have only been read since they came back.
    pub clean: f64,
    /// Back, read ahead (MADV_WILLNEED, MADV_POPULATE_READ, MADV_COLD).
    pub back: f64,
    /// Back by a page fault.
    pub fault: f64,
}

impl Machine {
    /// Reads what `place calibrate` has written.
    ///
    /// # Errors
    /// [`Error::Costs`] for anything else than such a file.
    pub fn load(path: &Path) -> Result<Machine, Error> {
        let malformed = |reason: String| Error::Costs { path: path.to_owned(), reason };
        let machine: Machine = file::load(path, MOST_FILE_BYTES).map_err(|error| match error {
            Error::Malformed { reason, .. } => malformed(reason),
            Error::Io { source, .. } => malformed(source.to_string()),
            other => other,
        })?;
        if machine.machine_version != MACHINE_VERSION || machine.contents.is_empty() {
            return Err(malformed("it is of another version, or has no costs".into()));
        }
        let costs = machine.contents.iter().flat_map(|of| [of.written, of.clean, of.back, of.fault]);
        if !costs.chain([machine.fresh]).all(|cost| (0.0..MOST_MICROS).contains(&cost)) {
            return Err(malformed("it has costs that no page has".into()));
        }
        Ok(machine)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// CPU seconds of moves that a plan makes, by the mean content.
    pub(super) fn planned_seconds(&self, pages: &Pages) -> f64 {
        let mean = |cost: fn(&Content) -> f64| self.mean(cost);
        let Pages { written, clean, back, fresh } = *pages;
        let micros = written as f64 * mean(|of| of.written)
            + clean as f64 * mean(|of| of.clean)
            + back as f64 * mean(|of| of.back)
            + fresh as f64 * self.fresh;
        micros / 1e6
    }

    /// CPU seconds of moves that the kernel makes.
    pub(super) fn kernel_seconds(&self, pages: &Pages) -> f64 {
        let out = (pages.written + pages.clean) as f64 * self.mean(|of| of.written);
        (out + pages.back as f64 * self.mean(|of| of.fault)) / 1e6
    }

    /// CPU seconds that the kernel takes to move a byte to swap and back, by the mean content.
    pub(crate) fn byte_seconds(&self) -> f64 {
        self.mean(|of| of.written + of.fault) / PAGE as f64 / 1e6
    }

    /// What the cost of moves is uncertain by, as a share of it: a quarter of the range that contents
    /// span.
    pub(crate) fn spread(&self) -> f64 {
        let costs = self.contents.iter().map(|of| of.written + of.fault);
        let (least, most) =
            costs.fold((f64::INFINITY, 0.0f64), |(least, most), cost| (least.min(cost), most.max(cost)));
        (most - least) / 4.0 / self.mean(|of| of.written + of.fault).max(f64::MIN_POSITIVE)
    }

    fn mean(&self, cost: fn(&Content) -> f64) -> f64 {
        self.contents.iter().map(cost).sum::<f64>() / self.contents.len() as f64
    }
}
