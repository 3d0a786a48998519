//! The tables of sites and frames, with names.

use memtrace_trace::rows::{FrameRow, SiteRow};

use super::Sites;
use super::binary::demangle;
use super::tree::{Frame, Node};

impl Sites {
    /// One row per site.
    pub fn rows(&self) -> Vec<SiteRow> {
        let row = |(leaf, account): &(u32, super::Account)| SiteRow {
            site: self.tree.nodes[*leaf as usize].hash,
            frame: *leaf,
            blocks: account.blocks,
            requested_bytes: account.requested,
            peak_live_bytes: account.peak,
            live_bytes_at_peak: account.at_peak(self.peaks),
        };
        self.sites.iter().filter(|(_, account)| account.blocks > 0).map(row).collect()
    }

    /// One row per frame of the tree.
    pub fn frames(&self) -> Vec<FrameRow> {
        self.tree.nodes.iter().zip(0..).map(|(node, number)| self.frame(node, number)).collect()
    }

    fn frame(&self, node: &Node, frame: u32) -> FrameRow {
        let row = FrameRow { frame, parent: node.parent, kind: "native".into(), ..FrameRow::default() };
        match node.frame {
            Frame::Native { binary, offset } => FrameRow {
                function: self.name(node.frame).map(demangle),
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
            Frame::Unknown => row,
        }
    }
}
