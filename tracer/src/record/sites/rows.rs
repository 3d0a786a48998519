//! The tables of sites and frames. Native frames are addresses in files, to be named once nothing runs any more.

use memtrace_trace::rows::{FrameRow, SiteRow};

use super::Sites;
use super::account::Bytes;
use super::tree::{Frame, Node};
use crate::symbols;

impl Sites {
    /// One row per site. Used bytes of devices may be at their peak just now.
    pub fn rows(&self, devices_peak: bool) -> Vec<SiteRow> {
        let at_peak =
            |bytes: &Bytes| if devices_peak { bytes.now() } else { bytes.at_peak(self.device_peaks) };
        let untouched = |number: u32| match self.sees_touches {
            true => Some(self.untouched.get(&number).copied().unwrap_or_default()),
            false => None,
        };
        let row = |(number, (leaf, account)): (u32, &(u32, super::Account))| SiteRow {
            site: self.tree.nodes[*leaf as usize].hash,
            frame: *leaf,
            blocks: account.blocks,
            requested_bytes: account.requested,
            peak_live_bytes: account.peak,
            live_bytes_at_peak: account.live.at_peak(self.peaks),
            untouched: untouched(number),
            device_bytes_at_peak: self.devices.get(&number).map(at_peak),
        };
        let used =
            |number: u32, account: &super::Account| account.blocks > 0 || self.devices.contains_key(&number);
        (1..).zip(&self.sites).filter(|(number, (_, account))| used(*number, account)).map(row).collect()
    }

    /// One row per frame of the tree, native ones without names but for generated code.
    pub fn frames(&self) -> Vec<FrameRow> {
        self.tree.nodes.iter().zip(0..).map(|(node, number)| self.frame(node, number)).collect()
    }

    /// All of it, with the names of native frames; everything has ended.
    pub fn named(&self) -> (Vec<SiteRow>, Vec<FrameRow>) {
        let mut sites = self.rows(false);
        let frames = symbols::name(self.frames(), &mut sites, |row| self.build_id(row.frame));
        (sites, frames)
    }

    /// The build of the file that a frame is in.
    pub(super) fn build_id(&self, frame: u32) -> Option<&str> {
        match self.tree.nodes[frame as usize].frame {
            Frame::Native { binary, .. } => Some(&self.binaries[binary as usize].build_id),
            _ => None,
        }
    }

    pub(super) fn frame(&self, node: &Node, frame: u32) -> FrameRow {
        let row = FrameRow { frame, parent: node.parent, kind: "native".into(), ..FrameRow::default() };
        match node.frame {
            Frame::Native { binary, offset } => FrameRow {
                module: Some(self.binaries[binary as usize].path.clone()),
                offset: Some(offset),
                ..row
            },
            Frame::Python { function, line } => {
                let function = &self.codes.functions[function as usize];
                FrameRow {
                    kind: "python".into(),
                    function: Some(function.name.clone()),
                    file: Some(function.file.clone()),
                    line: (line > 0).then_some(line),
                    ..row
                }
            }
            Frame::Generated { process, address } => {
                let names = self.generated.get(&process);
                FrameRow { function: names.and_then(|names| names.get(&address)?.clone()), ..row }
            }
            Frame::Unknown => row,
        }
    }
}
