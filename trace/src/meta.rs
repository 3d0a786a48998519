//! `meta.json`: how the trace came to be, its sums, and what was lost.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::atomic::Replacement;
use crate::error::{Error, Result};
use crate::read::limits;

/// Version of the tables and of `meta.json`, raised with every change of them: a trace is read by
/// the versions of memtrace that write its version.
pub const SCHEMA_VERSION: u32 = 3;

/// Name of the file in the trace directory.
pub(crate) const FILE_NAME: &str = "meta.json";

/// In `recorded` of a trace whose recorder died, and that was closed since.
pub(crate) const CUT_SHORT: &str = "cut_short";

/// Everything about a trace that is not a row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Version of memtrace that wrote the trace.
    pub memtrace: String,
    /// The recorded command and its arguments.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub cwd: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Logical CPUs the command could run on.
    pub cpus: u32,
    /// All memory of the machine; `None` if that is not known.
    pub memory_bytes: Option<u64>,
    /// Start of the trace (time 0 of all tables), nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: i64,
    /// Length of the recording, ns.
    pub duration_ns: i64,
    /// Where times come from: `tsc` (x86-64), `cntvct` (64-bit Arm) or `monotonic`.
    pub clock: String,
    /// What was recorded, by name: `stacks: none`, `kernel: proc`, `gc: observe`.
    pub recorded: BTreeMap<String, String>,
    /// What was lost, counted.
    pub lost: Lost,
    /// Exit status of the command (128+N for signal N); `None` if it was not seen to end.
    pub exit: Option<i32>,
    /// The signal that killed the command, if one did.
    pub signal: Option<i32>,
    /// CPU time of the command's own code and of children that it waited for, ns; `None` if it was
    /// not seen to end.
    pub user_ns: Option<u64>,
    /// CPU time of the kernel on their behalf, ns.
    pub system_ns: Option<u64>,
    /// True once the recording was closed in order; set by the writer only.
    pub complete: bool,
    /// The largest of each of the numbers.
    pub peak: Peak,
    /// Sums over all processes.
    pub totals: Totals,
    /// Which blocks have no row of their own.
    pub rows: Rows,
    /// Processes that were killed for lack of memory.
    pub out_of_memory: Vec<OutOfMemory>,
    /// Calls that were refused memory: the first few of each process.
    pub refused: Vec<Refused>,
    /// The nearest bound of the command's memory when it started; `None` if none is known.
    pub limit: Option<MemoryLimit>,
    /// Sentences on what could not be seen, and what to do about it.
    pub notes: Vec<String>,
    /// Sentences on how it was recorded that ask for nothing.
    pub remarks: Vec<String>,
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            schema_version: SCHEMA_VERSION,
            memtrace: String::new(),
            command: Vec::new(),
            cwd: String::new(),
            host: String::new(),
            kernel: String::new(),
            cpus: 0,
            memory_bytes: None,
            start_unix_ns: 0,
            duration_ns: 0,
            clock: String::new(),
            recorded: BTreeMap::new(),
            lost: Lost::default(),
            exit: None,
            signal: None,
            user_ns: None,
            system_ns: None,
            complete: false,
            peak: Peak::default(),
            totals: Totals::default(),
            rows: Rows::default(),
            out_of_memory: Vec::new(),
            limit: None,
            refused: Vec::new(),
            notes: Vec::new(),
            remarks: Vec::new(),
        }
    }
}

/// What the recording lost, over all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lost {
    /// Events dropped because a ring was full or unavailable.
    pub events: u64,
    /// Events whose time lay before what had already been merged.
    pub late_events: u64,
    /// Releases of blocks the trace never saw allocated.
    pub unseen_releases: u64,
    /// Events of the kernel side for which its ring or its tables had no space.
    pub kernel_events: u64,
    /// Samples of page faults and accesses for which a ring had no space.
    pub samples: u64,
}

/// Peaks over the whole recording, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peak {
    /// Peak of the sum of live bytes over all processes at one time.
    pub live_bytes: u64,
    /// Peak of the sum of heap bytes over all processes at one time.
    pub heap_bytes: u64,
    /// Sum of heap bytes when live bytes peaked.
    pub heap_bytes_at_peak: u64,
    /// Largest peak of any one process's own mappings, touched or not.
    pub mapped_bytes: u64,
    /// Largest peak resident size of any one process.
    pub resident_bytes: u64,
    /// Largest sum of resident sizes over all processes at one time, as sampled.
    pub resident_sum_bytes: u64,
    /// When live bytes peaked, ns since the trace started.
    pub peak_ns: i64,
    /// Lower bound of the peak of live bytes without garbage; `None` if garbage was not tracked
    /// (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound.
    pub gc_independent_upper_bytes: Option<u64>,
    /// Known garbage among the live bytes at their peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// Peak of the sum of driver bytes over all processes and devices at one time; `None` if no
    /// memory of a device was seen.
    pub device_driver_bytes: Option<u64>,
    /// The same of used bytes.
    pub device_used_bytes: Option<u64>,
}

/// A process that the kernel killed because its control group, or the machine, was out of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfMemory {
    /// Index into `processes`.
    pub process: u32,
    /// Its pid.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Live bytes when it was killed.
    pub live_bytes: u64,
    /// Resident bytes in the last sample before.
    pub resident_bytes: u64,
    /// Limit of its control group, if that has one.
    pub limit_bytes: Option<u64>,
    /// Which operators' blocks were live, most first.
    pub operators: Vec<Share>,
    /// Where the large ones were allocated, most first.
    pub sites: Vec<SiteShare>,
}

/// What a program's memory may not exceed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryLimit {
    /// `cgroup`, `address_space` (RLIMIT_AS) or `machine`.
    pub kind: String,
    /// Which: a control group's directory, a process, the machine.
    pub name: String,
    /// The bound.
    pub bytes: u64,
}

/// A call that was refused memory: `malloc` returned NULL, `mmap` failed with ENOMEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// Index into `processes`.
    pub process: u32,
    /// Its pid.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// When, ns since the trace started.
    pub time_ns: i64,
    /// How much it requested.
    pub requested_bytes: u64,
    /// Where, by id in `sites`; `None` if its call stack was not recorded.
    pub site: Option<u64>,
    /// The process's limit on address space (RLIMIT_AS), if it had one.
    pub limit_bytes: Option<u64>,
    /// Live bytes then.
    pub live_bytes: u64,
    /// Which operators' blocks were live, most first.
    pub operators: Vec<Share>,
    /// Where the large ones were allocated, most first.
    pub sites: Vec<SiteShare>,
}

/// The bytes of one of several operators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// How much.
    pub bytes: u64,
}

/// The bytes of one of several call stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteShare {
    /// Id in `sites`.
    pub site: u64,
    /// How much.
    pub bytes: u64,
}

/// Which blocks have no row in `allocations`, and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rows {
    /// No block has one (`--aggregate`).
    pub aggregate: bool,
    /// Heap blocks of fewer bytes have none (`--min-size`).
    pub min_size_bytes: u64,
    /// Blocks that are in `folded` instead.
    pub folded: u64,
    /// Rows that were deleted again to keep the trace within its size (`--max-trace-size`); set by
    /// the writer only.
    pub rotated: u64,
    /// Every other block that was live after this time, ns, has its row; 0 if none was deleted.
    pub complete_from_ns: i64,
    /// Rows of `timeline` that were deleted; set by the writer only.
    pub rotated_timeline: u64,
}

impl Rows {
    /// Why blocks that were live after a time, ns, may have no row; `None` if each of them has one.
    pub fn missing(&self, live_after_ns: i64) -> Option<&'static str> {
        if self.aggregate {
            Some("it was recorded with --aggregate, which writes no rows")
        } else if self.min_size_bytes > 0 {
            Some("it was recorded with --min-size, which writes no rows of small blocks")
        } else if self.rotated > 0 && live_after_ns < self.complete_from_ns {
            Some("rows were deleted again to keep it within its size (--max-trace-size)")
        } else {
            None
        }
    }
}

/// Sums over all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Totals {
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their requested bytes.
    pub requested_bytes: u64,
}

/// The one field that must be understood before the others are read.
#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

impl Meta {
    /// True if the recorder closed it: what it counted, it counted to the end.
    pub fn is_whole(&self) -> bool {
        self.complete && !self.recorded.contains_key(CUT_SHORT)
    }

    /// Reads `meta.json` of the trace in `directory`; `None` if the trace has none (yet).
    pub(crate) fn load(directory: &Path) -> Result<Option<Meta>> {
        let path = directory.join(FILE_NAME);
        let text = match read_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io("read", &path))?,
        };
        limits::at_most(&path, "its bytes", text.len() as u64, limits::META_BYTES)?;
        let understood = |source| Error::Meta { path: path.clone(), source };
        let Version { schema_version } = serde_json::from_slice(&text).map_err(understood)?;
        let (path_of_trace, found, supported) = (directory.to_owned(), schema_version, SCHEMA_VERSION);
        match found.cmp(&supported) {
            Ordering::Less => return Err(Error::Older { path: path_of_trace, found, supported }),
            Ordering::Greater => return Err(Error::Newer { path: path_of_trace, found, supported }),
            Ordering::Equal => {}
        }
        serde_json::from_slice(&text).map(Some).map_err(understood)
    }

    /// Writes `meta.json` into `directory`, replacing an earlier one at once.
    pub(crate) fn store(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE_NAME);
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|source| Error::Meta { path: path.clone(), source })?;
        text.push(b'\n');
        let mut file = Replacement::create(&path)?;
        file.write_all(&text).map_err(Error::io("write", &path))?;
        file.commit()
    }
}

/// As much of it as is read of one. Opening a named pipe would wait for a writer, and a device may have no end.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limits::META_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
