//! One struct per table of a trace: what a row means, in which unit.
//!
//! Times are nanoseconds since the trace started; sizes are bytes.

use serde::{Deserialize, Serialize};

/// How a block came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `malloc`, `operator new`.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `realloc`, `reallocarray` with a size.
    Realloc,
    /// `memalign`, `posix_memalign`, `aligned_alloc`, `valloc`, `pvalloc`.
    Aligned,
    /// A private anonymous mapping.
    MapAnonymous,
    /// A shared anonymous mapping.
    MapShared,
    /// A mapping of a file.
    MapFile,
    /// Address space reserved without access (`PROT_NONE`).
    MapReserved,
    /// The program break, moved by `brk` or `sbrk`.
    MapBreak,
    /// Mapped by the allocator behind `malloc`, if that is not the C library's; its blocks have rows of their own.
    MapArena,
    /// Memory of a device: `cuMemAlloc`.
    Cuda,
    /// `cuMemAllocPitch`.
    CudaPitch,
    /// `cuMemAllocManaged`: wherever it was last used.
    CudaManaged,
    /// Host memory that cannot be paged out: `cuMemAllocHost`, `cuMemHostAlloc`.
    CudaHost,
    /// Host memory the program had, made so: `cuMemHostRegister`.
    CudaRegistered,
    /// `cuArrayCreate`, `cuArray3DCreate`.
    CudaArray,
    /// `cuMipmappedArrayCreate`.
    CudaMipmap,
    /// Part of a pool of the driver: `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    CudaPool,
    /// Physical memory: `cuMemCreate`.
    CudaPhysical,
    /// Physical memory that was imported: `cuMemImportFromShareableHandle`.
    CudaImportedPhysical,
    /// Memory of another process: `cuIpcOpenMemHandle`.
    CudaIpc,
    /// A block of another process's pool: `cuMemPoolImportPointer`.
    CudaImportedPool,
    /// Backed while a graph runs: `cuGraphAddMemAllocNode`.
    CudaGraph,
    /// A range that `cuMemMap` has mapped to physical memory.
    CudaMapped,
    /// A block that PyTorch's caching allocator handed out.
    TorchBlock,
    /// A block of another pool of the program's: CuPy, RMM, JAX.
    PoolBlock,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Kind::PoolBlock as usize + 1;

    /// True for blocks that an allocator's own symbols handed out: they make up `heap_bytes`.
    pub fn is_heap(self) -> bool {
        matches!(self, Kind::Malloc | Kind::Calloc | Kind::Realloc | Kind::Aligned)
    }

    /// True for mappings of memory that is the program's own to write to.
    pub fn is_own_memory(self) -> bool {
        matches!(self, Kind::MapAnonymous | Kind::MapShared | Kind::MapBreak)
    }

    /// True for blocks that a framework hands out of memory that it has from a driver of devices.
    pub fn is_of_framework(self) -> bool {
        matches!(self, Kind::TorchBlock | Kind::PoolBlock)
    }

    /// True for what a span's device peak is made of: memory that a driver has handed out on a device, as long as no
    /// framework hands out parts of it, and a framework's blocks.
    pub fn is_on_device(self) -> bool {
        let of_driver = matches!(
            self,
            Kind::Cuda
                | Kind::CudaPitch
                | Kind::CudaArray
                | Kind::CudaMipmap
                | Kind::CudaPool
                | Kind::CudaPhysical
        );
        of_driver || self.is_of_framework()
    }

    /// True for what a driver of devices handed out, or a framework from that: never part of live, heap or mapped bytes.
    pub fn is_of_driver(self) -> bool {
        self as usize >= Kind::Cuda as usize
    }
}

/// What a block was to the span it was allocated in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Not (yet) known to be anything else.
    None,
    /// Holds (part of) an input of a later span, and is nothing else.
    Input,
    /// Holds (part of) a result of the span, or of one around it.
    Output,
    /// Released before its span ended.
    Temporary,
    /// Outlives its span, is not its output, and no later span of the operator allocates it again.
    Once,
}

/// `allocations`: one row per block. A `realloc` that keeps or moves a block ends one row and starts another.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocationRow {
    /// Index into `processes`.
    pub process: u32,
    /// Index into `threads`: who allocated.
    pub thread: u32,
    /// Which call made it.
    pub kind: Kind,
    /// Where it is; `None` for a heap block below 64 KiB that was released, and for physical memory of a device.
    pub address: Option<u64>,
    /// Requested bytes (the length, for mappings).
    pub bytes: u64,
    /// When the call returned.
    pub alloc_ns: i64,
    /// When its release began (`free`) or returned (`realloc`, `munmap`, `mremap`, `MAP_FIXED`: until then they may
    /// fail, and its bytes stay live); `None` if live when its process or the recording ended.
    pub free_ns: Option<i64>,
    /// Id of its row in `sites`; `None` where its stack was not recorded.
    pub site: Option<u64>,
    /// n-th block of its kind in its innermost span, from 0.
    pub ordinal: u32,
    /// The innermost span of the allocating thread, if any.
    pub span: Option<u32>,
    /// What the block is to that span.
    pub role: Role,
    /// The device it is on, as its driver counts; `None` for memory of the host.
    pub device: Option<u32>,
}

/// `spans`: one execution of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct SpanRow {
    /// Unique in the trace.
    pub span: u32,
    /// The span it ran inside of: of the same thread or context, or the one that handed the thread its work.
    pub parent: Option<u32>,
    /// Index into `processes`.
    pub process: u32,
    /// Index into `threads`.
    pub thread: u32,
    /// Name of the operator: `module:function`, or what the program called it.
    pub operator: String,
    /// n-th span of this operator in its process, from 0 (0 is the cold call).
    pub call: u32,
    /// When it began.
    pub start_ns: i64,
    /// When it ended; `None` if it was still running when its process or the recording ended.
    pub end_ns: Option<i64>,
    /// Array arguments.
    pub inputs: Vec<ArrayInfo>,
    /// Arrays in the result.
    pub outputs: Vec<ArrayInfo>,
    /// Scalar parameters (name -> number, text or boolean) and `versions` of libraries.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// Sum of the inputs' bytes.
    pub input_bytes: u64,
    /// Sum of the outputs' bytes.
    pub output_bytes: u64,
    /// Peak of (bytes allocated in the span and not yet released).
    pub working_peak_bytes: u64,
    /// The same, less blocks from before the span that it released.
    pub net_peak_bytes: u64,
    /// Once bytes (see the glossary); 0 unless this is the operator's first span in its process.
    pub once_bytes: u64,
    /// Largest resident size of the process during the span that was told or sampled, if any was.
    pub resident_peak_bytes: Option<u64>,
    /// What that was made of; `None` where there was no kernel side.
    pub at_resident_peak: Option<SpanResident>,
    /// Blocks allocated in the span and its children.
    pub allocations: u64,
    /// When the working peak was reached.
    pub peak_ns: i64,
    /// Id of the row in `sites` of the block that set the working peak; `None` where no call stack was recorded.
    pub peak_site: Option<u64>,
    /// Blocks allocated and released in the span.
    pub temporaries: u64,
    /// Sum of their sizes.
    pub temporary_bytes: u64,
    /// Of the working peak, blocks that were released before the span ended. This and what follows: `None` if it was
    /// never seen to end.
    pub temporary_peak_bytes: Option<u64>,
    /// Bytes allocated in the span that were live when it ended.
    pub kept_bytes: Option<u64>,
    /// Blocks from before the span that views among its outputs keep alive.
    pub pinned_bytes: Option<u64>,
    /// Lower bound of the working peak without garbage; `None` if garbage was not told apart (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound.
    pub gc_independent_upper_bytes: Option<u64>,
    /// Known garbage among the bytes of the working peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// The working peak on devices: peak of (used bytes of devices allocated in the span and not yet released). This and
    /// what follows: `None` if its process had no memory of a device by the span's end.
    pub device_peak_bytes: Option<u64>,
    /// Largest driver bytes of the process while the span ran.
    pub device_driver_peak_bytes: Option<u64>,
}

/// Where the resident memory of a span's process came from and went to, the probe's rings left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SpanResident {
    /// Resident bytes when the span began, as last told.
    pub start: u64,
    /// Pages of files at the span's resident peak.
    pub file: u64,
    /// Live bytes of the process then.
    pub live: u64,
    /// Of them, those that nobody had touched.
    pub untouched: u64,
    /// Bytes mapped by the program itself then.
    pub mapped: u64,
}

/// An array that went into or came out of a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ArrayInfo {
    /// Parameter name or position, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// NumPy's notation, byte order included: `<f4`, `>f4`, `|u1`.
    pub dtype: String,
    /// `C`, `F` or `strided`.
    #[serde(default)]
    pub layout: String,
    /// Bytes of its elements.
    #[serde(default)]
    pub bytes: u64,
    /// Address of its first element, 0 if unknown.
    #[serde(default)]
    pub address: u64,
    /// Where its memory begins, if that is not `address` (an axis is stepped through backwards).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// From there to the end of its memory, if that is not `bytes`: 0 for an array without gaps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extent: u64,
    /// Of an output, what it is to the inputs: `new`, `view`, `in_place` or `older`; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub relation: String,
    /// Name of the input whose memory it shares.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Where its elements are, if not in the host's memory: `cuda`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
}

impl ArrayInfo {
    /// The addresses its elements lie at; `None` if they are not known, or there are none.
    pub fn range(&self) -> Option<std::ops::Range<u64>> {
        let start = if self.start == 0 { self.address } else { self.start };
        let extent = if self.extent == 0 { self.bytes } else { self.extent };
        (start != 0 && self.bytes != 0).then(|| start..start.saturating_add(extent))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `processes`: one row per process image (an `exec` starts a new one).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Index used by the other tables.
    pub process: u32,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Command line, space separated.
    pub command: String,
    /// `exec` or `fork`.
    pub origin: String,
    /// First event.
    pub start_ns: i64,
    /// When it was seen to have ended; `None` if it outlived the recording.
    pub end_ns: Option<i64>,
    /// Until when it counts in the sums over all processes: it said that it would exit, or was seen to have ended.
    pub parted_ns: Option<i64>,
    /// Exit status (128+N for signal N), known for the recorded command itself.
    pub exit: Option<i32>,
    /// Peak of live bytes: heap + touched part of own mappings.
    pub peak_live_bytes: u64,
    /// Peak of the bytes that came through an allocator's symbols.
    pub peak_heap_bytes: u64,
    /// Peak of the program's own mappings (length, touched or not).
    pub peak_mapped_bytes: u64,
    /// Peak resident size as the kernel counts it, less the probe's rings; 0 if it was never sampled.
    pub peak_resident_bytes: u64,
    /// Resident bytes of the probe's rings (already subtracted).
    pub probe_bytes: u64,
    /// When live bytes peaked.
    pub peak_ns: i64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of requested bytes of all of them.
    pub requested_bytes: u64,
    /// Events dropped because a ring was full or unavailable.
    pub lost_events: u64,
    /// Releases of blocks inherited over `fork`.
    pub inherited_releases: u64,
    /// Releases of blocks the trace never saw allocated, and debts never paid.
    pub unseen_releases: u64,
    /// Blocks allocated by threads that were in no span while spans of other threads ran.
    pub unattributed_allocations: u64,
    /// Sum of their sizes.
    pub unattributed_bytes: u64,
    /// Lower bound of the peak of live bytes without garbage; `None` if garbage was not told apart (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound.
    pub gc_independent_upper_bytes: Option<u64>,
    /// Known garbage among the live bytes at their peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// Garbage collections seen.
    pub collections: u64,
    /// Nanoseconds they took.
    pub collect_ns: u64,
    /// When the kernel side saw the resident peak end; `None` if there was no kernel side. All that follows goes with
    /// it; `peak_resident_bytes` is exact then.
    pub resident_peak_ns: Option<i64>,
    /// Anonymous memory at the resident peak.
    pub resident_anon_bytes: Option<u64>,
    /// Pages of files then.
    pub resident_file_bytes: Option<u64>,
    /// Shared memory then, the probe's rings included.
    pub resident_shmem_bytes: Option<u64>,
    /// Live bytes then.
    pub resident_live_bytes: Option<u64>,
    /// Of them, those of large heap blocks that nobody had touched.
    pub resident_untouched_bytes: Option<u64>,
    /// Bytes mapped by the program itself then.
    pub resident_mapped_bytes: Option<u64>,
    /// Resident bytes of its first stack, when it was looked at with most memory; `None` if it never was.
    pub resident_stack_bytes: Option<u64>,
    /// Of the data of its executable and libraries then.
    pub resident_data_bytes: Option<u64>,
    /// Page faults, the kernel's own on its behalf included; `None` also where they were not recorded.
    pub page_faults: Option<u64>,
    /// Largest size of its page tables that was seen (VmPTE); not part of the resident size. `None` if it was never
    /// looked at.
    pub page_table_bytes: Option<u64>,
    /// What its environment told the C library's allocator when it was started, `MALLOC_TRIM_THRESHOLD_=65536`
    /// (mallopt(3), glibc's tunables), separated by spaces; empty if nothing, `None` if it was not known.
    pub allocator_settings: Option<String>,
}

/// `threads`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Index used by the other tables.
    pub thread: u32,
    /// Index into `processes`.
    pub process: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// First event.
    pub start_ns: i64,
    /// Events recorded.
    pub events: u64,
}

/// `timeline`: the three numbers of a process, at regular times and at its peak.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineRow {
    /// Index into `processes`.
    pub process: u32,
    /// When.
    pub time_ns: i64,
    /// `sample` (at regular times), `peak` (the peak of live bytes).
    pub reason: String,
    /// Live bytes.
    pub live_bytes: u64,
    /// The heap part of live bytes.
    pub heap_bytes: u64,
    /// Bytes mapped by the program itself.
    pub mapped_bytes: u64,
    /// Resident bytes, if sampled at this time.
    pub resident_bytes: Option<u64>,
    /// What they were, if the kernel side was on.
    pub pages: Option<Pages>,
    /// Driver bytes of all devices; `None` before the process had memory of one.
    pub device_bytes: Option<u64>,
}

/// `devices`: what a process had of a device. Peaks are each on their own, not at one time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Index into `processes`.
    pub process: u32,
    /// The device, as its driver counts; `None` for memory of the host, and for what is on no known device.
    pub device: Option<u32>,
    /// Its name; `None` if it was not told.
    pub name: Option<String>,
    /// All its memory; `None` if it was not told.
    pub total_bytes: Option<u64>,
    /// Peak of driver bytes: what the driver has set aside on it for the process.
    pub peak_driver_bytes: u64,
    /// When that was reached.
    pub peak_ns: i64,
    /// Most used bytes while driver bytes were at their peak.
    pub used_at_peak_bytes: u64,
    /// Peak of used bytes.
    pub peak_used_bytes: u64,
    /// Peak of what pools of the driver and graphs had reserved; part of driver bytes.
    pub peak_pool_bytes: u64,
    /// Peak of blocks that frameworks had handed out; `None` if none told of any.
    pub peak_framework_bytes: Option<u64>,
    /// Most that frameworks said they had reserved; `None` likewise.
    pub peak_framework_reserved_bytes: Option<u64>,
    /// Peak of managed memory.
    pub peak_managed_bytes: u64,
    /// Peak of host memory that the driver allocated.
    pub peak_host_bytes: u64,
    /// Peak of host memory that was registered.
    pub peak_registered_bytes: u64,
    /// Peak of memory of other processes.
    pub peak_imported_bytes: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their sizes.
    pub requested_bytes: u64,
    /// Releases of blocks the trace never saw allocated; among `unseen_releases` or `inherited_releases` of the process.
    pub unseen_releases: u64,
}

/// Pages in memory, in bytes, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pages {
    /// Anonymous memory.
    pub anon: u64,
    /// Of files.
    pub file: u64,
    /// Shared memory.
    pub shmem: u64,
    /// Swapped out: not resident.
    pub swap: u64,
}

/// `kernel_events`: something the kernel saw of a recorded process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelEventRow {
    /// Index into `processes`; `None` for an image that has no row there.
    pub process: Option<u32>,
    /// Process id.
    pub pid: u32,
    /// Thread that was running, not always one of the process's.
    pub tid: u32,
    /// When.
    pub time_ns: i64,
    /// What: see the document.
    pub event: String,
    /// Address it is about.
    pub address: Option<u64>,
    /// Bytes it is about.
    pub bytes: Option<u64>,
    /// A number: faults, a signal, an exit status, a result.
    pub value: Option<i64>,
    /// How long it took, or since when it was so.
    pub took_ns: Option<i64>,
    /// What was resident then.
    pub pages: Option<Pages>,
    /// Id of the row in `sites` of the block it is about.
    pub site: Option<u64>,
}

/// `accesses`: a sampled memory access, and the block that it met.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccessRow {
    /// Index into `processes`.
    pub process: u32,
    /// Index into `threads`; `None` for a thread that recorded no event.
    pub thread: Option<u32>,
    /// The kernel's thread id.
    pub tid: u32,
    /// When.
    pub time_ns: i64,
    /// `load`, `store`, `other` or `fault`.
    pub access: String,
    /// Where.
    pub address: u64,
    /// Where the live block begins that it met; `None`, as all that follows about it, if it met none.
    pub block_address: Option<u64>,
    /// Size of that block.
    pub block_bytes: Option<u64>,
    /// Who allocated it: with `block_ns` its row in `allocations` (`thread`, `alloc_ns`).
    pub block_thread: Option<u32>,
    /// When it was allocated.
    pub block_ns: Option<i64>,
    /// Its call stack in `sites`.
    pub site: Option<u64>,
    /// The span it was allocated in.
    pub span: Option<u32>,
    /// Where the processor found the data: `L1`, `RAM`, …
    pub level: Option<String>,
    /// Cycles that it took, as the processor measured it.
    pub latency_cycles: Option<u64>,
}

/// `modules`: executables and libraries mapped into a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleRow {
    /// Index into `processes`.
    pub process: u32,
    /// File path.
    pub path: String,
    /// First mapped address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// GNU build id in hex, empty if it has none.
    pub build_id: String,
}

/// `sites`: a distinct allocation call stack.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SiteRow {
    /// Names the stack in every run, whatever the addresses were.
    pub site: u64,
    /// Its innermost frame.
    pub frame: u32,
    /// Blocks allocated.
    pub blocks: u64,
    /// Sum of their requested bytes.
    pub requested_bytes: u64,
    /// Largest sum of their live bytes, over all processes at one time.
    pub peak_live_bytes: u64,
    /// Sum of their live bytes when all live bytes peaked.
    pub live_bytes_at_peak: u64,
    /// What of its large blocks was never touched; `None` where there was no kernel side.
    pub untouched: Option<Untouched>,
    /// Used bytes of devices when those of all processes and devices peaked; `None` if it has allocated none.
    pub device_bytes_at_peak: Option<u64>,
}

/// Blocks of which a part was never touched as long as they lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Untouched {
    /// How many.
    pub blocks: u64,
    /// Sum of their sizes.
    pub of_bytes: u64,
    /// Of these, bytes that were never touched.
    pub bytes: u64,
}

/// `frames`: a node of the stacks' prefix tree. A frame without function and module is one that is not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FrameRow {
    /// Index used by `sites`; a parent's is smaller.
    pub frame: u32,
    /// The frame that called it; `None` for outermost ones.
    pub parent: Option<u32>,
    /// `native`, `inlined` (into its parent) or `python`.
    pub kind: String,
    /// Name of the function, if it has one.
    pub function: Option<String>,
    /// Source file, if it is known.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// Executable or library (native and inlined).
    pub module: Option<String>,
    /// Return address in it, as stated in the file (native and inlined).
    pub offset: Option<u64>,
}

/// `folded`: blocks without a row in `allocations`, by call stack and kind.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRow {
    /// Id of their row in `sites`; `None` where the stack was not recorded.
    pub site: Option<u64>,
    /// Which call made them.
    pub kind: Kind,
    /// How many.
    pub blocks: u64,
    /// Sum of their requested bytes.
    pub requested_bytes: u64,
    /// How many of them were released.
    pub released: u64,
    /// Sum of the lifetimes of those, ns.
    pub lifetime_ns: u64,
}
