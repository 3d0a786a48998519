//! `memtrace doctor`: what this machine can record, and what to do about what it cannot.

mod package;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use memtrace_ebpf::{Attached, Error, Kernel, Parts};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::json;
use crate::record;
use crate::terminal::print;

/// Arguments of `doctor`.
#[derive(Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Something that may or may not be there.
#[derive(Serialize, JsonSchema)]
pub struct Check {
    /// What it is.
    name: &'static str,
    /// True if memtrace can use it.
    works: bool,
    /// How, or what to do.
    words: String,
}

/// `memtrace doctor`
pub fn run(arguments: &Doctor) -> Result<ExitCode> {
    let checks = checks();
    if arguments.json {
        json::print(&checks)?;
    } else {
        print(&text(&checks))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn checks() -> Vec<Check> {
    let kernel = kernel();
    let faults = faults(kernel.as_ref().is_ok_and(|kernel| kernel.faults_missing.is_none()));
    let found = [
        ("package", package()),
        ("probe", probe()),
        ("clock", clock()),
        ("kernel side", kernel.map(|kernel| seen(&kernel))),
        ("system calls", calls()),
        ("page faults", faults),
        ("memory accesses", accesses()),
        ("CUDA", cuda()),
        ("control groups", control_groups()),
    ];
    let check = |(name, found): (_, Found)| Check {
        name,
        works: found.is_ok(),
        words: found.unwrap_or_else(|words| words),
    };
    found.into_iter().map(check).collect()
}

/// One line for each.
fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for Check { name, works, words } in checks {
        let mark = if *works { "yes" } else { "no " };
        let _ = writeln!(out, "  {mark}  {name:<16} {words}");
    }
    out
}

type Found = Result<String, String>;

fn package() -> Found {
    let executable = std::env::current_exe();
    executable
        .map(|file| package::of(&file))
        .map_err(|error| format!("memtrace does not find its own file: {error}"))
}

fn probe() -> Found {
    record::find_probe().map(|path| path.display().to_string()).map_err(|error| format!("{error:#}"))
}

fn clock() -> Found {
    match record::counter_is_steady() {
        true => Ok(format!("the processor's counter ({})", record::COUNTER)),
        false => {
            Err("the processor's counter is not steady: every event costs a call of clock_gettime".into())
        }
    }
}

/// Loads all there is to load; it is detached when the result is dropped.
fn kernel() -> Result<Kernel, String> {
    let (kernel, mut rest) =
        Kernel::load(Parts { calls: true, running: true }).map_err(|error| advice(&error))?;
    let mut attached = Attached::default();
    attached.pressure(&mut rest).map_err(|error| advice(&error))?;
    Ok(kernel)
}

/// What the programs report.
fn seen(kernel: &Kernel) -> String {
    let faults = if kernel.faults_missing.is_none() { "faults, " } else { "" };
    let why = kernel.faults_missing.as_ref().map_or(String::new(), |error| format!("; no faults: {error}"));
    let missing = match kernel.missing.as_slice() {
        [] => String::new(),
        missing => format!(", but without {}", missing.join(", ")),
    };
    format!("resident memory to the page, {faults}kills, attach (BPF){missing}{why}")
}

/// What is wrong, what is done instead, and what would help.
fn advice(error: &Error) -> String {
    let help = match error {
        Error::NotBuilt => "; install clang and build again",
        Error::NotAllowed => {
            "; run memtrace as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep memtrace"
        }
        Error::Locked(_) => {
            "; raise it (ulimit -l unlimited, or memlock in limits.conf), or run memtrace as root"
        }
        Error::NoBtf(_) => "; kernels from 5.10 on do, if built with CONFIG_DEBUG_INFO_BTF",
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

/// What counts page faults: BPF programs if they may be loaded, else perf events.
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
        Err(error) => Err(format!(
            "{error}; where perf events are allowed, --accesses clock samples what takes the time, --accesses faults first touches"
        )),
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
        .map(|version| format!("kills for lack of memory are counted by the memory controller, {version}"))
        .ok_or_else(|| "no memory control group: kills for lack of memory are not counted".into())
}
