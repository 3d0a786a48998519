use crate::column::labels;

labels! {
    /// How a block came to be.
    #[derive(PartialOrd, Ord)]
    pub enum Kind {
        /// `malloc`, `operator new`.
        Malloc = "malloc",
        /// `calloc`.
        Calloc = "calloc",
        /// `realloc`, `reallocarray` with a size.
        Realloc = "realloc",
        /// `memalign`, `posix_memalign`, `aligned_alloc`, `valloc`, `pvalloc`.
        Aligned = "aligned",
        /// A private anonymous mapping.
        MapAnonymous = "map_anonymous",
        /// A shared anonymous mapping, or of memory that has a name: the first of its mappings.
        MapShared = "map_shared",
        /// A mapping of a file, or of shared memory that another mapping counts.
        MapFile = "map_file",
        /// A private mapping of a file that may be written to: what was written is memory.
        MapFilePrivate = "map_file_private",
        /// Address space reserved without access (`PROT_NONE`).
        MapReserved = "map_reserved",
        /// A part of such address space that `mprotect` has made accessible to write to.
        MapCommitted = "map_committed",
        /// The program break, moved by `brk` or `sbrk`.
        MapBreak = "map_break",
        /// Mapped by the allocator behind `malloc`, if that is not the C library's; its blocks have
        /// rows of their own.
        MapArena = "map_arena",
        /// Memory of a device: `cuMemAlloc`.
        Cuda = "cuda",
        /// `cuMemAllocPitch`.
        CudaPitch = "cuda_pitch",
        /// `cuMemAllocManaged`: wherever it was last used.
        CudaManaged = "cuda_managed",
        /// Host memory that cannot be paged out: `cuMemAllocHost`, `cuMemHostAlloc`.
        CudaHost = "cuda_host",
        /// Host memory the program had, made so: `cuMemHostRegister`.
        CudaRegistered = "cuda_registered",
        /// `cuArrayCreate`, `cuArray3DCreate`.
        CudaArray = "cuda_array",
        /// `cuMipmappedArrayCreate`.
        CudaMipmap = "cuda_mipmap",
        /// Part of a pool of the driver: `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
        CudaPool = "cuda_pool",
        /// Physical memory: `cuMemCreate`.
        CudaPhysical = "cuda_physical",
        /// Physical memory that was imported: `cuMemImportFromShareableHandle`.
        CudaImportedPhysical = "cuda_imported_physical",
        /// Memory of another process: `cuIpcOpenMemHandle`.
        CudaIpc = "cuda_ipc",
        /// A block of another process's pool: `cuMemPoolImportPointer`.
        CudaImportedPool = "cuda_imported_pool",
        /// Backed while a graph runs: `cuGraphAddMemAllocNode`.
        CudaGraph = "cuda_graph",
        /// A range that `cuMemMap` has mapped to physical memory.
        CudaMapped = "cuda_mapped",
        /// A block that PyTorch's caching allocator returned.
        TorchBlock = "torch_block",
        /// A block of another pool of the program's: CuPy, RMM, JAX.
        PoolBlock = "pool_block",
    }
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Kind::ALL.len();

    /// True for blocks that an allocator's own symbols returned: they make up `heap_bytes`.
    pub fn is_heap(self) -> bool {
        matches!(self, Kind::Malloc | Kind::Calloc | Kind::Realloc | Kind::Aligned)
    }

    /// True for mappings of memory that is the program's own to write to.
    pub fn is_own_memory(self) -> bool {
        matches!(self, Kind::MapAnonymous | Kind::MapShared | Kind::MapCommitted | Kind::MapBreak)
    }

    /// True for mappings whose touched part may be live: memory, and what may become memory.
    pub fn may_be_live(self) -> bool {
        self.is_own_memory() || matches!(self, Kind::MapReserved | Kind::MapFile | Kind::MapFilePrivate)
    }

    /// True for blocks that a framework allocates from memory of a device driver.
    pub fn is_of_framework(self) -> bool {
        matches!(self, Kind::TorchBlock | Kind::PoolBlock)
    }

    /// True for what a span's device peak consists of: memory that a driver allocated on a device,
    /// as long as no framework allocates parts of it, and a framework's blocks.
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

    /// True for blocks of a device driver, or of a framework in its memory: never part of live,
    /// heap or mapped bytes.
    pub fn is_of_driver(self) -> bool {
        self as usize >= Kind::Cuda as usize
    }
}
