//! `memtrace doctor`: what this machine can record, and what to do about what it cannot.

use std::fmt::Write;
use std::path::Path;

use memtrace_ebpf::{Attached, Error, Kernel, Parts};

use crate::record;

/// One line for each thing that may or may not be there.
pub fn text() -> String {
    let mut out = String::new();
    let kernel = kernel();
    let faults = faults(kernel.is_ok());
    let checks = [
        ("probe", probe()),
        ("clock", clock()),
        ("kernel side", kernel),
        ("system calls", calls()),
        ("page faults", faults),
        ("memory accesses", accesses()),
        ("CUDA", cuda()),
        ("control groups", control_groups()),
    ];
    for (what, found) in checks {
        let (mark, words) = match found {
            Ok(words) => ("yes", words),
            Err(words) => ("no ", words),
        };
        let _ = writeln!(out, "  {mark}  {what:<16} {words}");
    }
    out
}

type Found = Result<String, String>;

fn probe() -> Found {
    record::find_probe().map(|path| path.display().to_string()).map_err(|error| format!("{error:#}"))
}

fn clock() -> Found {
    match record::tsc_is_invariant() {
        true => Ok("invariant TSC".into()),
        false => Err("no invariant TSC: every event costs a call of clock_gettime".into()),
    }
}

/// Loads all there is to load, and detaches it again.
fn kernel() -> Found {
    let (kernel, mut rest) =
        Kernel::load(Parts { calls: true, running: true }).map_err(|error| advice(&error))?;
    let mut attached = Attached::default();
    attached.pressure(&mut rest).map_err(|error| advice(&error))?;
    let missing = match kernel.missing.as_slice() {
        [] => String::new(),
        missing => format!(", but without {}", missing.join(", ")),
    };
    Ok(format!("resident memory to the page, faults, kills, attach (BPF){missing}"))
}

/// What is wrong, what is done instead, and what would help.
fn advice(error: &Error) -> String {
    let help = match error {
        Error::NotBuilt => "; install clang and build again",
        Error::NotAllowed => {
            "; run memtrace as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep memtrace"
        }
        _ => "",
    };
    format!("{error}{help}. Resident sizes come from /proc: sampled, and VmHWM.")
}

fn calls() -> Found {
    let tracepoints = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let kprobes = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let uprobes = Path::new("/sys/bus/event_source/devices/uprobe").exists();
    let yes = |there: bool| if there { "yes" } else { "no" };
    let mounted = tracepoints.iter().any(|place| Path::new(place).exists());
    Ok(format!(
        "only for attach and static programs; uprobes {}, kprobes {} (not needed), tracefs {} (not needed)",
        yes(uprobes),
        yes(kprobes),
        yes(mounted)
    ))
}

/// Who counts page faults: BPF programs if they may be loaded, else perf events.
fn faults(by_kernel_side: bool) -> Found {
    if by_kernel_side {
        return Ok("counted by BPF programs".into());
    }
    match record::can_count_faults() {
        Ok(which) => Ok(format!("counted and sampled by perf events: {which}")),
        Err(error) => Err(format!("not counted: {error}")),
    }
}

/// Sampling loads and stores takes a unit that knows their addresses: PEBS (`mem-loads`) or IBS.
fn accesses() -> Found {
    match record::can_sample_accesses() {
        Ok(events) => Ok(format!("{events}: sampled with --accesses hardware")),
        Err(error) => Err(format!("{error}; --accesses faults tells first touches")),
    }
}

/// Memory on GPUs: needs a driver, and our library in front of it.
fn cuda() -> Found {
    let Some(driver) = record::find_driver() else {
        return Err(
            "no driver (libcuda.so.1) here; where one is loaded from a folder of its own, name that in \
             LD_LIBRARY_PATH"
                .into(),
        );
    };
    record::find_cuda_probe()
        .map(|_| format!("calls of {} are recorded", driver.display()))
        .map_err(|error| format!("{error:#}"))
}

fn control_groups() -> Found {
    let of = |group: &str, version| Path::new(group).exists().then(|| format!("version {version}"));
    of("/sys/fs/cgroup/memory/memory.oom_control", 1)
        .or_else(|| of("/sys/fs/cgroup/memory/cgroup.procs", 1))
        .or_else(|| of("/sys/fs/cgroup/cgroup.controllers", 2))
        .map(|version| format!("kills for lack of memory are told by the memory controller, {version}"))
        .ok_or_else(|| "no memory control group: kills for lack of memory are not told".into())
}
