//! All stacks as one prefix tree, the outermost frame nearest the root: a stack is the node of its
//! leaf.
//!
//! A node's hash depends only on what its frames are in the program's files, so it is the same in
//! every run.

use rustc_hash::FxHashMap;

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A return address in a file.
    Native {
        /// Number of the file.
        binary: u32,
        /// The address, as stated in the file.
        offset: u64,
    },
    /// A line of a Python function.
    Python {
        /// Number of the function.
        function: u32,
        /// The line; 0 where the instruction has none.
        line: u32,
    },
    /// A return address in code that a program has generated.
    Generated {
        /// The process.
        process: u32,
        /// The address.
        address: u64,
    },
    /// At the root: what lies farther out is not known. Elsewhere: a Python function that is not
    /// known.
    Unknown,
}

/// A frame and the one that called it.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The caller's node; `None` for outermost ones.
    pub parent: Option<u32>,
    /// The frame.
    pub frame: Frame,
    /// Names the stack up to here, in every run.
    pub hash: u64,
}

/// The tree.
#[derive(Default)]
pub struct Tree {
    /// By number; parents before children.
    pub nodes: Vec<Node>,
    numbers: FxHashMap<(Option<u32>, Frame), u32>,
}

impl Tree {
    /// The node of `frame` under `parent`. `identity` names the frame's file or function in every
    /// run.
    pub fn child(&mut self, parent: Option<u32>, frame: Frame, identity: &[&str]) -> u32 {
        *self.numbers.entry((parent, frame)).or_insert_with(|| {
            let above = parent.map_or(FNV_OFFSET, |parent| self.nodes[parent as usize].hash);
            self.nodes.push(Node { parent, frame, hash: hash(above, frame, identity) });
            self.nodes.len() as u32 - 1
        })
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a over what does not change from run to run.
fn hash(above: u64, frame: Frame, identity: &[&str]) -> u64 {
    let place = match frame {
        Frame::Native { offset, .. } => offset,
        Frame::Python { line, .. } => u64::from(line),
        // Address spaces are random to the page; within it, what a program generates lies where it
        // lay before.
        Frame::Generated { address, .. } => address % 4096,
        Frame::Unknown => 0,
    };
    let texts = identity.iter().flat_map(|text| text.bytes().chain([0]));
    above
        .to_le_bytes()
        .into_iter()
        .chain(place.to_le_bytes())
        .chain(texts)
        .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one_node_and_hashes_do_not_depend_on_numbers() {
        let mut one = Tree::default();
        let main = one.child(None, Frame::Native { binary: 0, offset: 16 }, &["a"]);
        let leaf = one.child(Some(main), Frame::Python { function: 0, line: 3 }, &["f.py", "f"]);
        assert_eq!(one.child(Some(main), Frame::Python { function: 0, line: 3 }, &["f.py", "f"]), leaf);
        let mut other = Tree::default();
        other.child(None, Frame::Unknown, &[]);
        let main = other.child(None, Frame::Native { binary: 7, offset: 16 }, &["a"]);
        let same = other.child(Some(main), Frame::Python { function: 9, line: 3 }, &["f.py", "f"]);
        assert_eq!(one.nodes[leaf as usize].hash, other.nodes[same as usize].hash);
        let next = other.child(Some(main), Frame::Python { function: 9, line: 4 }, &["f.py", "f"]);
        assert_ne!(other.nodes[same as usize].hash, other.nodes[next as usize].hash);
    }
}
