//! The machines that traces were recorded on, each against its memory.

use std::collections::BTreeMap;

use memtrace_trace::Meta;

use crate::report::document::Node;

/// By name.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, OnNode>);

#[derive(Debug, Default)]
struct OnNode {
    memory_bytes: Option<u64>,
    /// Of each trace.
    used: Vec<Used>,
}

/// What a trace's processes had at most, and from when to when.
#[derive(Debug, Clone, Copy)]
struct Used {
    start_ns: i64,
    end_ns: i64,
    resident_bytes: u64,
}

impl Nodes {
    /// One more trace.
    pub(super) fn add(&mut self, meta: &Meta) {
        let node = self.0.entry(meta.host.clone()).or_default();
        node.memory_bytes = node.memory_bytes.max(meta.memory_bytes);
        node.used.push(Used {
            start_ns: meta.start_unix_ns,
            end_ns: meta.start_unix_ns.saturating_add(meta.duration_ns),
            resident_bytes: meta.peak.resident_sum_bytes.max(meta.peak.resident_bytes),
        });
    }

    /// Nanoseconds from the first start to the last end.
    pub(super) fn duration_ns(&self) -> i64 {
        let used = || self.0.values().flat_map(|node| &node.used);
        let start = used().map(|used| used.start_ns).min().unwrap_or(0);
        used().map(|used| used.end_ns).max().unwrap_or(0).saturating_sub(start)
    }

    pub(super) fn finish(self) -> Vec<Node> {
        let node = |(host, node): (String, OnNode)| Node {
            host,
            memory_bytes: node.memory_bytes,
            traces: node.used.len() as u64,
            resident_at_most_bytes: at_one_time(&node.used),
        };
        self.0.into_iter().map(node).collect()
    }
}

/// The largest sum of those that overlap.
fn at_one_time(used: &[Used]) -> u64 {
    let ends = used.iter().map(|used| (used.end_ns, -i128::from(used.resident_bytes)));
    let starts = used.iter().map(|used| (used.start_ns, i128::from(used.resident_bytes)));
    let mut changes: Vec<(i64, i128)> = ends.chain(starts).collect();
    // What ends when another begins has made room for it.
    changes.sort_unstable();
    let (mut sum, mut most) = (0i128, 0i128);
    for (_, change) in changes {
        sum += change;
        most = most.max(sum);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use memtrace_trace::Peak;

    use super::*;

    #[test]
    fn only_traces_of_one_time_are_added_up() {
        let mut nodes = Nodes::default();
        let mut add = |host: &str, start_unix_ns, duration_ns, resident_sum_bytes| {
            let peak = Peak { resident_sum_bytes, ..Peak::default() };
            let memory_bytes = Some(100);
            let meta =
                Meta { host: host.into(), start_unix_ns, duration_ns, peak, memory_bytes, ..Meta::default() };
            nodes.add(&meta);
        };
        add("a", 0, 10, 5);
        add("a", 10, 10, 7);
        add("a", 12, 3, 2);
        add("b", 5, 100, u64::MAX);
        add("b", 6, 1, 1);
        assert_eq!(nodes.duration_ns(), 105);
        let found = nodes.finish();
        let peaks: Vec<u64> = found.iter().map(|node| node.resident_at_most_bytes).collect();
        assert_eq!(peaks, [9, u64::MAX]);
        assert_eq!((found[0].traces, found[0].memory_bytes), (3, Some(100)));
    }
}
