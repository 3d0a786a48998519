//! Blocks that a plan has placed, by tier and call stack.

use std::collections::BTreeMap;

use crate::live_protocol::{LISTED_MAX, Placed};
use crate::record::fold::Fold;
use crate::record::transport::placing::tier_name;

/// Those that are live, the tiers and stacks with the most bytes first; and the numbers of the stacks.
pub fn placed(fold: &Fold) -> (Vec<Placed>, Vec<usize>) {
    let mut found: BTreeMap<_, Placed> = BTreeMap::new();
    for (block, site) in fold.placed_blocks() {
        let sum = found.entry((block.tier, site)).or_default();
        sum.blocks += 1;
        sum.live_bytes = sum.live_bytes.saturating_add(block.bytes);
        sum.out_bytes = sum.out_bytes.saturating_add(block.out);
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.live_bytes));
    found.truncate(LISTED_MAX);
    let number = |site: std::num::NonZeroU32| site.get() as usize - 1;
    let numbers = found.iter().filter_map(|((_, site), _)| site.map(number)).collect();
    let listed = found.into_iter().map(|((tier, site), sum)| Placed {
        tier: tier_name(tier),
        site: site.map(|site| fold.sites().id_of(number(site))),
        ..sum
    });
    (listed.collect(), numbers)
}
