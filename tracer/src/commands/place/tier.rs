//! Tiers as the command line and plans name them.

use std::path::Path;

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
            if !Path::new(&format!("/sys/devices/system/node/node{node}")).is_dir() {
                bail!("this machine has no NUMA node {node}; numactl -H lists those it has");
            }
        }
    }
    Ok(())
}
