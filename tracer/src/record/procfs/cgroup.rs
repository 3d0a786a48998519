//! Kills for lack of memory. The kernel counts them per control group (cgroup-v1/memory:
//! `memory.oom_control`; cgroup-v2: `memory.events`), so a process that vanished while its group's
//! count rose was killed for that.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

/// The memory control group of a process.
pub struct Cgroup {
    path: PathBuf,
    /// Kills counted in it so far.
    kills: u64,
}

impl Cgroup {
    /// The group of a process that is alive now.
    pub fn of(pid: u32) -> Option<Cgroup> {
        let path = group_of(pid)?;
        Some(Cgroup { kills: kills(&path).unwrap_or(0), path })
    }
}

/// The memory control groups that recorded processes live in, and their counts when that was first
/// seen.
#[derive(Default)]
pub struct Cgroups {
    before: FxHashMap<PathBuf, u64>,
}

/// Kills that were counted in a group since.
#[derive(Debug, PartialEq, Eq)]
pub struct Kills {
    /// How many.
    pub count: u64,
    /// The group's limit in bytes, if it has one.
    pub limit: Option<u64>,
}

impl Cgroups {
    /// Watches the group of a process.
    pub fn watch(&mut self, group: Option<Cgroup>) {
        if let Some(Cgroup { path, kills }) = group {
            self.before.entry(path).or_insert(kills);
        }
    }

    /// The watched groups' directories.
    pub fn groups(&self) -> impl Iterator<Item = &Path> {
        self.before.keys().map(PathBuf::as_path)
    }

    /// Kills in all watched groups since they were first seen.
    pub fn kills(&self) -> Option<Kills> {
        let risen = |(group, before): (&PathBuf, &u64)| {
            let count = kills(group)?.checked_sub(*before).filter(|count| *count > 0)?;
            Some(Kills { count, limit: limit(group) })
        };
        self.before.iter().filter_map(risen).max_by_key(|kills| kills.count)
    }
}

/// The directory of the memory control group of a process (cgroups(7)): version 1 where the memory
/// controller is mounted as one, else version 2.
fn group_of(pid: u32) -> Option<PathBuf> {
    let membership = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    locate(&membership, &mounts)
}

pub fn locate(membership: &str, mounts: &str) -> Option<PathBuf> {
    let mount = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let (place, found, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
            (found == kind && (option.is_empty() || options.split(',').any(|one| one == option)))
                .then(|| PathBuf::from(place))
        })
    };
    let group = |controllers: &str| {
        membership.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (listed, path) = (fields.next()?, fields.next()?);
            listed.split(',').any(|one| one == controllers).then(|| path.trim_start_matches('/').to_string())
        })
    };
    if let (Some(mount), Some(path)) = (mount("cgroup", "memory"), group("memory")) {
        return Some(mount.join(path));
    }
    Some(mount("cgroup2", "")?.join(group("")?))
}

fn kills(group: &Path) -> Option<u64> {
    let texts = ["memory.oom_control", "memory.events"].map(|name| std::fs::read_to_string(group.join(name)));
    let text = texts.into_iter().flatten().next()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// The limit of a group itself, in bytes; `None` if it has none.
pub fn limit(group: &Path) -> Option<u64> {
    /// Version 1 says "none" by the largest multiple of a page.
    const NONE: u64 = 1 << 62;
    let texts = ["memory.limit_in_bytes", "memory.max"].map(|name| std::fs::read_to_string(group.join(name)));
    let text = texts.into_iter().flatten().next()?;
    text.trim().parse().ok().filter(|limit| *limit < NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found() {
        let first = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let found = locate("5:cpu,cpuacct:/a\n4:memory:/b/c\n0::/d\n", first);
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/memory/b/c")));
        assert_eq!(locate("0::/user.slice/x\n", second), Some(PathBuf::from("/sys/fs/cgroup/user.slice/x")));
        assert_eq!(locate("0::/\n", "proc /proc proc rw 0 0\n"), None);
    }
}
