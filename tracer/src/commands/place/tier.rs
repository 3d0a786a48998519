//! Tiers as the command line and plans name them.

use anyhow::{Result, bail};
use memtrace_wire::placement::Tier;

/// The slow tier of plans that move pages while the program runs.
pub const SWAP: &str = "swap";
/// Its fast tier.
pub const DRAM: &str = "dram";

/// Reads `small-pages`, `huge-pages` or `node:N`.
pub fn parse(text: &str) -> Result<Tier, String> {
    let node = |number: &str| number.parse().ok().filter(|node| *node < Tier::NODES).map(Tier::Node);
    match text.split_once(':') {
        None if text == "small-pages" => Ok(Tier::SmallPages),
        None if text == "huge-pages" => Ok(Tier::HugePages),
        Some(("node", number)) if node(number).is_some() => Ok(Tier::Node(number.parse().unwrap_or(0))),
        _ => Err(format!("{text:?} is no tier; write small-pages, huge-pages or node:N")),
    }
}

/// True if none of the tiers is another one, too.
pub fn are_different<T: PartialEq>(slow: &T, middle: Option<&T>, fast: &T) -> bool {
    slow != fast && middle.is_none_or(|middle| middle != slow && middle != fast)
}

/// Refuses to plan with swap where there is none.
pub fn check_swap() -> Result<()> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() < 2 {
        bail!("there is no swap; set one up, e.g. zram (zramctl -f -s 4G, mkswap, swapon)");
    }
    Ok(())
}

/// Refuses a tier that this machine does not have.
pub fn check(tier: Tier) -> Result<()> {
    match tier {
        Tier::SmallPages | Tier::Dram => {}
        Tier::HugePages => {
            let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            if !enabled.is_ok_and(|enabled| !enabled.contains("[never]")) {
                bail!(
                    "there are no huge pages; write madvise to /sys/kernel/mm/transparent_hugepage/enabled"
                );
            }
        }
        Tier::Node(node) => {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let nodes = allowed_nodes(&status);
            if !is_listed(node, nodes) {
                bail!("no NUMA node {node} has memory for this process; write one of the nodes {nodes}");
            }
        }
    }
    Ok(())
}

/// The nodes of which this process may have memory, as a list of ranges (proc_pid_status(5)).
fn allowed_nodes(status: &str) -> &str {
    status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).unwrap_or("0").trim()
}

/// Whether a list has a number in it: `0-1,4`.
fn is_listed(number: u8, list: &str) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first: u32| first <= number.into())
            && last.parse().is_ok_and(|last: u32| last >= number.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_from_a_list() {
        let nodes = allowed_nodes("Name:\tx\nMems_allowed:\t17\nMems_allowed_list:\t0-2,4\nThreads:\t1\n");
        assert_eq!(nodes, "0-2,4");
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|node| is_listed(node, nodes)),
            [true, true, true, false, true, false]
        );
        assert!(!is_listed(0, "") && !is_listed(1, "1-"));
        assert_eq!(allowed_nodes(""), "0");
    }
}
