//! What clients of the live view see of sites.

use memtrace_trace::rows::FrameRow;

use super::Sites;
use crate::live_protocol::Stack;

/// Innermost frames that are sent: enough to name the user's own code.
const FRAMES_MAX: usize = 64;

impl Sites {
    /// Live bytes of each site, by number.
    pub fn live_bytes(&self) -> impl Iterator<Item = u64> {
        self.accounts.live_bytes()
    }

    /// Id of the site with this number.
    pub fn id_of(&self, number: usize) -> u64 {
        self.tree.nodes[self.leaves[number] as usize].hash
    }

    /// Id and call stack of the site with this number; of a deep one the innermost frames.
    pub fn stack(&self, number: usize) -> Stack {
        let leaf = self.leaves[number];
        let mut nodes = Vec::new();
        let mut next = Some(leaf);
        while let Some(node) = next.filter(|_| nodes.len() < FRAMES_MAX) {
            nodes.push(node);
            next = self.tree.nodes[node as usize].parent;
        }
        nodes.reverse();
        let rows = nodes.iter().zip(0u32..).map(|(node, place)| FrameRow {
            parent: place.checked_sub(1),
            ..self.frame(&self.tree.nodes[*node as usize], place)
        });
        let builds = nodes.iter().map(|node| self.build_id(*node).unwrap_or_default().to_string());
        Stack { site: self.id_of(number), frames: rows.collect(), builds: builds.collect() }
    }
}
