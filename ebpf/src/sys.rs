//! bpf(2), as far as it is needed. Structures are the kernel's (`union bpf_attr` in linux/bpf.h),
//! cut where nothing follows that is used.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Error, locked};

const MAP_CREATE: i64 = 0;
const MAP_LOOKUP: i64 = 1;
const MAP_UPDATE: i64 = 2;
const MAP_DELETE: i64 = 3;
const MAP_NEXT_KEY: i64 = 4;
const PROG_LOAD: i64 = 5;
const TEST_RUN: i64 = 10;
const TRACEPOINT_OPEN: i64 = 17;
const MAP_FREEZE: i64 = 22;

/// A call with its structure. The kernel reads no more than its size.
fn bpf<T>(command: i64, attributes: &T) -> i64 {
    // SAFETY: every structure here is `repr(C)`, without padding that is read, and what its
    // pointers point to lives until the call returns.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) }
}

fn descriptor(result: i64, what: impl FnOnce() -> String) -> Result<OwnedFd, Error> {
    if result < 0 {
        return Err(Error::call(what()));
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

fn short_name(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    let length = name.len().min(15);
    short[..length].copy_from_slice(&name.as_bytes()[..length]);
    short
}

/// True if this process may load programs and attach them to tracepoints: capabilities(7).
pub(crate) fn may_load() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits & SYS_ADMIN != 0 || bits & PERFMON_AND_BPF == PERFMON_AND_BPF
}

/// True if pids here are those that the kernel itself uses (PROC_PID_INIT_INO in linux/proc_ns.h).
pub(crate) fn in_first_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// True if CLOCK_MONOTONIC is what programs read: it has no offset here (time_namespaces(7)).
pub(crate) fn is_in_first_time_namespace() -> bool {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let monotonic = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    monotonic.is_none_or(|numbers| numbers.split_whitespace().all(|number| number == "0"))
}

/// A map.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct MapElement {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    pub(crate) fn create(name: &str, map: &aya_obj::Map, flags: u32) -> Result<Map, Error> {
        let attributes = MapCreate {
            map_type: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            max_entries: map.max_entries(),
            map_flags: flags,
            map_name: short_name(name.trim_start_matches('.')),
            ..Default::default()
        };
        let create = || bpf(MAP_CREATE, &attributes);
        let fd = descriptor(locked::with_room(create)?, || format!("cannot make the BPF map {name}"))?;
        Ok(Map { fd })
    }

    fn element<K, V>(&self, key: &K, value: *const V) -> MapElement {
        MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            pad: 0,
            key: std::ptr::from_ref(key) as u64,
            value: value as u64,
            flags: 0,
        }
    }

    /// Sets a value. `K` and `V` are as large as the map's keys and values.
    pub(crate) fn set<K, V: ?Sized>(&self, key: &K, value: &V) -> Result<(), Error> {
        let element = self.element(key, std::ptr::from_ref(value).cast::<u8>());
        if bpf(MAP_UPDATE, &element) < 0 {
            return Err(Error::call("cannot write to a BPF map"));
        }
        Ok(())
    }

    /// A value; of a map per processor, a slice of them.
    pub(crate) fn get<K, V: Copy + Default>(&self, key: &K, count: usize) -> Option<Vec<V>> {
        let mut values = vec![V::default(); count];
        let element = self.element(key, values.as_mut_ptr());
        (bpf(MAP_LOOKUP, &element) >= 0).then_some(values)
    }

    pub(crate) fn delete<K>(&self, key: &K) {
        bpf(MAP_DELETE, &self.element(key, std::ptr::null::<u8>()));
    }

    /// All keys there are now.
    pub(crate) fn keys<K: Copy + Default>(&self) -> Vec<K> {
        let mut keys = Vec::new();
        let mut next = K::default();
        let mut element = self.element(&next, &raw const next);
        element.key = 0; // the first
        while bpf(MAP_NEXT_KEY, &element) >= 0 {
            // The kernel has written to `next` through the pointer. SAFETY: `next` is
            // initialised and K is plain data.
            keys.push(unsafe { std::ptr::read_volatile(&raw const next) });
            let last = keys.len() - 1;
            element = self.element(&keys[last], &raw mut next);
        }
        keys
    }

    /// No more writes: the verifier may treat values as constants.
    pub(crate) fn freeze(&self) {
        bpf(MAP_FREEZE, &(self.fd.as_raw_fd() as u32));
    }
}

/// What a program is attached to.
pub(crate) enum Target {
    /// A tracepoint, by the id of its type in the kernel's BTF.
    Tracepoint(u32),
    /// An uprobe.
    Uprobe,
    /// Another perf event.
    PerfEvent,
    /// Nothing: [`run`] runs it.
    Nothing,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// Loads a program; the verifier's log is requested only if it is refused.
pub(crate) fn load<I>(name: &str, instructions: &[I], target: &Target) -> Result<OwnedFd, Error> {
    const KPROBE: u32 = 2;
    const PERF_EVENT: u32 = 7;
    const RAW_TRACEPOINT: u32 = 17;
    const TRACING: u32 = 26;
    const TRACE_RAW_TP: u32 = 23;
    let (prog_type, attach_type, attach_btf_id) = match target {
        Target::Tracepoint(id) => (TRACING, TRACE_RAW_TP, *id),
        Target::Uprobe => (KPROBE, 0, 0),
        Target::PerfEvent => (PERF_EVENT, 0, 0),
        Target::Nothing => (RAW_TRACEPOINT, 0, 0),
    };
    let mut attributes = ProgLoad {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        prog_name: short_name(name),
        expected_attach_type: attach_type,
        attach_btf_id,
        ..Default::default()
    };
    let result = locked::with_room(|| bpf(PROG_LOAD, &attributes))?;
    if result >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) {
        return descriptor(result, || format!("the kernel refuses the BPF program {name}"));
    }
    let mut log = vec![0u8; 1 << 24];
    (attributes.log_level, attributes.log_size, attributes.log_buf) =
        (1, log.len() as u32, log.as_mut_ptr() as u64);
    descriptor(locked::with_room(|| bpf(PROG_LOAD, &attributes))?, || {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        let words: Vec<&str> = last.into_iter().rev().collect();
        format!("the kernel refuses the BPF program {name} ({})", words.join("; "))
    })
}

/// `test` of the union, as far as raw tracepoints need it.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// Runs a program of [`Target::Nothing`] once.
pub(crate) fn run(program: &OwnedFd) -> Result<(), Error> {
    let attributes = TestRun { prog_fd: program.as_raw_fd() as u32, ..TestRun::default() };
    if bpf(TEST_RUN, &attributes) < 0 {
        return Err(Error::call("cannot run a BPF program"));
    }
    Ok(())
}

#[repr(C)]
struct TracepointOpen {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// Attaches a program to its tracepoint, until the descriptor is closed.
pub(crate) fn attach_tracepoint(program: &OwnedFd) -> Result<OwnedFd, Error> {
    let attributes = TracepointOpen { name: 0, prog_fd: program.as_raw_fd() as u32, pad: 0 };
    descriptor(bpf(TRACEPOINT_OPEN, &attributes), || "cannot attach a BPF program".into())
}
