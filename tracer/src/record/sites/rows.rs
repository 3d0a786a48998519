//! The tables of sites and frames. Native frames are addresses in files, to be named once nothing
//! runs any more.

use memtrace_trace::rows::{FrameRow, SiteRow};

use super::Sites;
use super::tree::{Frame, Node};
use crate::record::state::blocks::Site;
use crate::symbols;

impl Sites {
    /// One row per site. Used bytes of devices may be at their peak just now.
    pub fn rows(&self, devices_peak: bool) -> Vec<SiteRow> {
        let leaves = (1..).zip(&self.leaves);
        let rows = leaves.filter_map(|(number, leaf)| {
            let figures = self.accounts.row(Site::new(number)?, devices_peak)?;
            Some(SiteRow { site: self.tree.nodes[*leaf as usize].hash, frame: *leaf, ..figures })
        });
        rows.collect()
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
            Frame::Native { binary, .. } => Some(&self.loaded.binary(binary).build_id),
            _ => None,
        }
    }

    pub(super) fn frame(&self, node: &Node, frame: u32) -> FrameRow {
        let row = FrameRow { frame, parent: node.parent, kind: "native".into(), ..FrameRow::default() };
        match node.frame {
            Frame::Native { binary, offset } => FrameRow {
                module: Some(self.loaded.binary(binary).path.clone()),
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
