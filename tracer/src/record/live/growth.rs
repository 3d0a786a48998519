//! Which call stacks have the most live bytes, and which have grown most in the last seconds.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashSet;

use crate::live_protocol::{Site, Stack};
use crate::record::sites::Sites;

/// Sites that are named for each of the two reasons.
const NAMED: usize = 10;
/// Live bytes of sites are noted at this interval, in seconds, and this many notes are kept: sites
/// are compared with ten seconds ago.
const NOTED_EVERY: f64 = 2.0;
const NOTES: usize = 5;

/// Live bytes of sites before.
#[derive(Default)]
pub struct Growth {
    /// Time in seconds, and live bytes by number of the site; the oldest first.
    notes: VecDeque<(f64, Vec<u64>)>,
    /// Sites whose stacks were sent, by number.
    sent: FxHashSet<usize>,
}

impl Growth {
    /// The sites to name at a time, those that have grown most first, and the stacks of those that
    /// are new.
    pub fn sites(&mut self, sites: &Sites, now: f64) -> (Vec<Site>, Vec<Stack>) {
        let live: Vec<u64> = sites.live_bytes().collect();
        let (then, named) = self.compare(&live, now);
        let new = self.stacks(sites, named.iter().map(|(number, _)| *number));
        let named = named.iter().map(|(number, grew_bytes)| Site {
            site: sites.id_of(*number),
            live_bytes: live[*number],
            grew_bytes: *grew_bytes,
            over_seconds: now - then,
            ..Site::default()
        });
        (named.collect(), new)
    }

    /// The stacks of those that were not sent yet.
    pub fn stacks(&mut self, sites: &Sites, numbers: impl Iterator<Item = usize>) -> Vec<Stack> {
        numbers.filter(|number| self.sent.insert(*number)).map(|number| sites.stack(number)).collect()
    }

    /// Numbers of sites and by how much each has grown since the time that is given, most first.
    fn compare(&mut self, live: &[u64], now: f64) -> (f64, Vec<(usize, i64)>) {
        if self.notes.back().is_none_or(|(noted, _)| now - noted >= NOTED_EVERY) {
            self.notes.push_back((now, live.to_vec()));
            if self.notes.len() > NOTES + 1 {
                self.notes.pop_front();
            }
        }
        let (then, before) = self.notes.front().map_or((now, live), |(then, before)| (*then, before));
        let grew = |number: usize| live[number] as i64 - before.get(number).copied().unwrap_or(0) as i64;
        let mut live_sites: Vec<usize> = (0..live.len()).filter(|number| live[*number] > 0).collect();
        let mut chosen = BTreeSet::new();
        chosen.extend(most(&mut live_sites, |number| live[number] as i64));
        chosen.extend(most(&mut live_sites, grew).iter().filter(|number| grew(**number) > 0));
        let mut named: Vec<(usize, i64)> = chosen.into_iter().map(|number| (number, grew(number))).collect();
        named.sort_by_key(|(number, grew)| std::cmp::Reverse((*grew, live[*number])));
        (then, named)
    }
}

/// Those with the largest sizes.
fn most(numbers: &mut [usize], size: impl Fn(usize) -> i64) -> &[usize] {
    if numbers.len() > NAMED {
        numbers.select_nth_unstable_by_key(NAMED, |number| std::cmp::Reverse(size(*number)));
    }
    &numbers[..numbers.len().min(NAMED)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_compared_with_ten_seconds_ago() {
        let mut growth = Growth::default();
        let mut live = vec![1_000; 30];
        live[3] = 5_000;
        let (then, named) = growth.compare(&live, 1.0);
        assert_eq!((then, named.len(), named[0]), (1.0, NAMED, (3, 0)));
        for second in 2..20 {
            live[7] += 10;
            growth.compare(&live, f64::from(second));
        }
        live.push(50);
        let (then, named) = growth.compare(&live, 20.0);
        assert_eq!(then, 9.0, "a note every two seconds, from the first second on");
        assert_eq!(named[..2], [(7, 10 * 10), (30, 50)]);
        live[7] = 0;
        let (_, named) = growth.compare(&live, 20.5);
        assert!(named.iter().all(|(number, _)| *number != 7), "nothing of it is live any more");
    }
}
