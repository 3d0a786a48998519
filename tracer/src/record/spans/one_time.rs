//! One-time bytes: what the first call of an operator in a process leaves behind, and no later call leaves
//! again.

use memtrace_trace::rows::Kind;
use rustc_hash::FxHashMap;

use super::span::Leftover;

/// What later calls of an operator in a process have left behind.
#[derive(Default)]
pub(super) struct LeftAgain {
    /// How many blocks that are alike one of them has left at most.
    most: FxHashMap<(Kind, u64), usize>,
    /// The first call has ended: only blocks like its own matter.
    is_settled: bool,
}

impl LeftAgain {
    /// The first call has ended, and left these.
    pub fn first(&mut self, left: &[Leftover]) {
        let alike = |left: &Leftover| ((left.kind, left.bytes), 0);
        let before = std::mem::replace(&mut self.most, left.iter().map(alike).collect());
        for (what, most) in &mut self.most {
            *most = before.get(what).copied().unwrap_or(0);
        }
        self.is_settled = true;
    }

    /// A later call has left these.
    pub fn later(&mut self, left: &[Leftover]) {
        let mut own: FxHashMap<(Kind, u64), usize> = FxHashMap::default();
        for left in left {
            let what = (left.kind, left.bytes);
            if !self.is_settled || self.most.contains_key(&what) {
                *own.entry(what).or_default() += 1;
            }
        }
        for (what, count) in own {
            let most = self.most.entry(what).or_default();
            *most = count.max(*most);
        }
    }

    /// Which of the blocks of the first call no later one has left again.
    pub fn once(mut self, first: Vec<Leftover>) -> Vec<Leftover> {
        let mut first = first;
        // Reserved addresses are no memory: a driver of devices takes hundreds of gigabytes of them.
        first.retain(|left| !left.output && left.kind != Kind::MapReserved);
        first.retain(|left| match self.most.get_mut(&(left.kind, left.bytes)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(bytes: &[u64]) -> Vec<Leftover> {
        bytes.iter().map(|bytes| Leftover::of_test(*bytes)).collect()
    }

    #[test]
    fn what_each_call_leaves_is_no_one_time_block_whichever_ends_first() {
        for first_ends_last in [false, true] {
            let mut again = LeftAgain::default();
            let first = left(&[5000, 5000, 5000, 6000, 7000]);
            if !first_ends_last {
                again.first(&first);
            }
            again.later(&left(&[5000, 8000]));
            again.later(&left(&[5000, 5000, 7000]));
            again.later(&[]);
            if first_ends_last {
                again.first(&first);
            }
            assert_eq!(again.most.len(), 3, "blocks unlike those of the first call are not kept");
            let once: Vec<u64> = again.once(first).iter().map(|left| left.bytes).collect();
            assert_eq!(once, [5000, 6000]);
        }
    }
}
