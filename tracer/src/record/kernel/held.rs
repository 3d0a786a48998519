//! What a process held when its resident memory was highest.

use crate::record::fold::Fold;
use crate::record::process::Process;

/// What a process held at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Live.
    pub live: u64,
    /// Of them, those of large heap blocks that nobody had touched.
    pub untouched: u64,
    /// Mapped by the program itself.
    pub mapped: u64,
}

impl Held {
    /// What it holds now.
    pub fn by(process: &Process) -> Held {
        Held {
            live: process.live(),
            untouched: process.large.untouched_bytes(),
            mapped: process.mappings.mapped_bytes(),
        }
    }

    /// The one in which more was live; of two with as much, the one in which more was touched.
    fn more(self, other: Held) -> Held {
        let size = |held: &Held| (held.live, std::cmp::Reverse(held.untouched));
        std::cmp::max_by_key(self, other, size)
    }
}

impl Fold {
    /// Notes what a process holds before it gives some of it back. That memory has fallen is told afterwards, when it is too
    /// late to see what was held where it was highest.
    pub fn note_held(&mut self, index: u32) {
        let held = Held::by(&self.processes[index as usize]);
        self.note_held_then(index, held);
    }

    /// The same, of a moment ago.
    pub(super) fn note_held_then(&mut self, index: u32, held: Held) {
        let image = self.kernel.as_mut().and_then(|kernel| kernel.images.of_mut(index));
        if let Some(image) = image {
            image.held_since = Some(image.held_since.map_or(held, |before| before.more(held)));
        }
    }
}
