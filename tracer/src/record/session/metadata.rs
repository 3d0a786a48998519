//! `meta.json`: what is known when a recording begins, and the sums over its processes.

use std::time::{SystemTime, UNIX_EPOCH};

use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Lost, MemoryLimit, Meta, Peak, Rows, Totals, weights};
use memtrace_wire::sampling::Sampling;

use super::options::{Options, Stacks};
use super::recording::Session;
use crate::record::procfs::limits;
use crate::record::procfs::whereabouts::host;
use crate::record::state::garbage::Collecting;
use crate::record::state::sums::Sums;
use crate::record::transport::clock::Clock;

/// What is known at the beginning.
pub fn first(options: &Options, clock: &Clock) -> Meta {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let gc = options.gc.map_or("off", Collecting::name);
    let mut recorded = vec![
        ("stacks", options.stacks.name().to_string()),
        ("kernel", "proc".into()),
        ("gc", gc.into()),
        ("children", "yes".into()),
    ];
    if let Some(threads) = requested_threads() {
        recorded.push(("threads", threads.to_string()));
    }
    if options.stacks == Stacks::Auto {
        recorded.push((weights::EXACT_FROM, Sampling::AUTO.exact_from.to_string()));
        recorded.push((weights::SAMPLED_MEAN, Sampling::AUTO.mean_bytes.to_string()));
    }
    Meta {
        memtrace: env!("CARGO_PKG_VERSION").into(),
        command: options.command.iter().map(|argument| argument.display().to_string()).collect(),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        host: host().into(),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        memory_bytes: limits::of_machine().map(|limit| limit.limit_bytes),
        start_unix_ns: now.as_nanos() as i64 - clock.now_ns(),
        clock: clock.name().into(),
        rows: Rows {
            aggregate: options.keep.none,
            min_size_bytes: options.keep.min_bytes,
            ..Rows::default()
        },
        limit: limits::nearest().map(|limit| MemoryLimit {
            kind: limit.kind,
            name: limit.name,
            bytes: limit.limit_bytes,
        }),
        recorded: recorded.into_iter().map(|(what, how)| (what.to_string(), how)).collect(),
        ..Default::default()
    }
}

/// How many threads the environment requests of numerical libraries: OpenMP's variable, which
/// OpenBLAS and MKL read too, or their own.
fn requested_threads() -> Option<u32> {
    let names = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"];
    names.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

impl Session {
    /// Sums up the processes.
    pub(super) fn sum_up(&mut self, processes: &[ProcessRow]) {
        let sums = self.fold.retired().sums().with(processes);
        let without_slot = self.drain.lost_without_slot();
        self.meta.duration_ns = self.fold.clock().now_ns();
        self.meta.lost = Lost {
            events: sums.lost_events.saturating_add(without_slot),
            late_events: self.drain.late(),
            unseen_releases: sums.unseen_releases,
            kernel_events: self.fold.lost_by_kernel(),
            samples: self.fold.samples().missing().lost,
        };
        self.meta.peak = self.peak(&sums);
        self.meta.rows.folded = self.fold.summed_blocks();
        self.meta.totals = Totals { allocations: sums.allocations, requested_bytes: sums.requested_bytes };
    }

    fn peak(&self, sums: &Sums) -> Peak {
        let totals = self.fold.totals();
        let (devices, garbage) = (totals.devices(), self.fold.garbage().map(|garbage| garbage.total()));
        Peak {
            mapped_bytes: sums.peak_mapped_bytes,
            // Sums are sampled; a single process may have been larger in between.
            resident_sum_bytes: self.meta.peak.resident_sum_bytes.max(sums.peak_resident_bytes),
            live_bytes: totals.peak_live(),
            heap_bytes: totals.peak_heap(),
            heap_bytes_at_peak: totals.heap_at_peak(),
            resident_bytes: sums.peak_resident_bytes,
            peak_ns: totals.peak_stamp().map_or(0, |stamp| self.fold.clock().ns(stamp)),
            gc_independent_bytes: garbage.map(|total| total.lower()),
            gc_independent_upper_bytes: garbage.map(|_| totals.peak_live()),
            garbage_at_peak_bytes: garbage.map(|total| total.garbage_at_peak()),
            device_driver_bytes: devices.map(|devices| devices.driver().peak),
            device_used_bytes: devices.map(|devices| devices.used().peak()),
        }
    }
}
