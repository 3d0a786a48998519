//! What bounds the memory of recorded processes, and what is used of it: control groups, RLIMIT_AS,
//! the machine.

use std::path::Path;

use memtrace_wire::arch::page::bytes as page_bytes;

use super::cgroup::{self, Cgroups};
use crate::live_protocol::Limit;

/// The bound of the group, or of one it lies in, that has the least room left.
pub fn of_groups(groups: &Cgroups) -> Vec<Limit> {
    let mut limits: Vec<Limit> = groups.groups().filter_map(tightest).collect();
    limits.sort_by(|a, b| a.name.cmp(&b.name));
    limits.dedup_by(|a, b| a.name == b.name);
    limits
}

fn tightest(group: &Path) -> Option<Limit> {
    let with_usage = group.ancestors().map_while(|group| Some((group, used(group)?)));
    let bounded = with_usage.filter_map(|(group, used_bytes)| {
        let name = group.display().to_string();
        Some(Limit { kind: "cgroup".into(), name, limit_bytes: cgroup::limit(group)?, used_bytes })
    });
    bounded.min_by_key(Limit::room)
}

/// What is charged to a group, page cache included (cgroup-v1/memory, cgroup-v2).
fn used(group: &Path) -> Option<u64> {
    let texts =
        ["memory.usage_in_bytes", "memory.current"].map(|name| std::fs::read_to_string(group.join(name)));
    texts.into_iter().flatten().next()?.trim().parse().ok()
}

/// How much address space a process may take; `None` if that is not limited, or the process is
/// gone.
pub fn of_address_space(pid: u32) -> Option<Limit> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: nothing is set; the out-pointer is valid.
    let result =
        unsafe { libc::prlimit(pid as libc::pid_t, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    if result != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    // proc_pid_statm(5): the first number is the size in pages.
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
    Some(Limit {
        kind: "address_space".into(),
        name: format!("process {pid}"),
        limit_bytes: limit.rlim_cur,
        used_bytes: pages * page_bytes(),
    })
}

/// All memory of the machine, and what of it is not available.
pub fn of_machine() -> Option<Limit> {
    parse_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// The smallest bound of what a program started now may have.
pub fn nearest() -> Option<Limit> {
    let pid = std::process::id();
    let mut groups = Cgroups::default();
    groups.watch(cgroup::Cgroup::of(pid));
    let address_space = of_address_space(pid).map(|limit| Limit { name: "of address space".into(), ..limit });
    let all = of_groups(&groups).into_iter().chain(address_space).chain(of_machine());
    all.min_by_key(|limit| limit.limit_bytes)
}

/// Bytes that a program started now could still have: what the machine, this process's control
/// groups and its limit on address space leave. `None` if none of them is known.
pub fn free_memory() -> Option<u64> {
    let pid = std::process::id();
    let mut groups = Cgroups::default();
    groups.watch(cgroup::Cgroup::of(pid));
    let of_groups = groups.groups().filter_map(free_in).min();
    let others = of_address_space(pid).into_iter().chain(of_machine()).map(|limit| limit.room());
    others.chain(of_groups).min()
}

/// What a group and those it lies in leave; cached files that are not in use are released when
/// memory is needed (memory.stat: inactive_file).
fn free_in(group: &Path) -> Option<u64> {
    let cached = |group: &Path| {
        let text = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        field("total_inactive_file ").or_else(|| field("inactive_file ")).unwrap_or(0)
    };
    let with_usage = group.ancestors().map_while(|group| Some((group, used(group)?)));
    let free = with_usage.filter_map(|(group, used)| {
        Some(cgroup::limit(group)?.saturating_sub(used.saturating_sub(cached(group))))
    });
    free.min()
}

pub fn parse_meminfo(text: &str) -> Option<Limit> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    let limit_bytes = field("MemTotal:")?;
    let used_bytes = limit_bytes.saturating_sub(field("MemAvailable:")?);
    Some(Limit { kind: "machine".into(), name: "memory of this machine".into(), limit_bytes, used_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_group_above_counts_if_it_is_nearer() {
        let root = tempfile::tempdir().unwrap();
        let (job, step) = (root.path().join("job"), root.path().join("job/step"));
        std::fs::create_dir_all(&step).unwrap();
        let write = |group: &Path, max: &str, current: &str| {
            std::fs::write(group.join("memory.max"), max).unwrap();
            std::fs::write(group.join("memory.current"), current).unwrap();
        };
        write(&job, "1000\n", "900\n");
        write(&step, "800\n", "100\n");
        let found = tightest(&step).map(|limit| (limit.name, limit.limit_bytes, limit.used_bytes));
        assert_eq!(found, Some((job.display().to_string(), 1000, 900)));
        write(&job, "max\n", "900\n");
        assert_eq!(tightest(&step).map(|limit| limit.room()), Some(700));
        write(&step, "1000\n", "900\n");
        assert_eq!(free_in(&step), Some(100));
        std::fs::write(step.join("memory.stat"), "anon 300\ninactive_file 600\nactive_file 1\n").unwrap();
        assert_eq!(free_in(&step), Some(700));
        write(&step, "max\n", "100\n");
        assert_eq!(tightest(&step), None);
    }

    #[test]
    fn a_limit_on_address_space_is_that_of_the_process() {
        assert_eq!(of_address_space(u32::MAX), None);
        let text = "MemTotal:       4 kB\nMemFree:  1 kB\nMemAvailable:   3 kB\n";
        assert_eq!(
            parse_meminfo(text).map(|limit| (limit.limit_bytes, limit.used_bytes)),
            Some((4096, 1024))
        );
        assert_eq!(parse_meminfo("MemTotal: x"), None);
    }
}
