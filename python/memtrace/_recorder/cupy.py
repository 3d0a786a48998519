"""CuPy's pools of GPU memory report the blocks that they allocate, in all threads.

One of the texts that make up the recorder (see `__init__.py` for their constraints).

CuPy's own hooks are per thread, so `cupy.cuda.MemoryPool` is replaced before the program can have
made one. In place of the pool's block an array gets one that owns it. When that is deleted, its
end is reported before the pool has the memory again. `cupy.cuda.memory.MemoryPool` stays, because
CuPy's C code uses it. What CuPy takes from the driver without a pool, or from the driver's
(`malloc_async`), is seen there.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .errors import _hide_frame, pass_on
    from .imports import when_executed


def watch_cupy():
    """Waits for CuPy, if this process's calls of the CUDA driver are recorded."""
    when_executed("cupy.cuda", _cupy_cuda_arrived)


def _cupy_cuda_arrived(cuda):
    report = _report_function()
    if report is not None:
        cuda.MemoryPool = _reporting_pool(cuda.memory, report)


def _report_function():
    """The probe's function for blocks of pools: (address, bytes, device, reserved, used).

    `used` is 0 here: the tracer adds up the blocks, which a thread of the program could only do
    with a lock."""
    import ctypes

    library = ctypes.PyDLL(None)
    if not hasattr(library, "memtrace_cuda_probe"):
        return None
    report, unsigned = library.memtrace_device_block, ctypes.c_uint64
    report.argtypes = [unsigned, unsigned, ctypes.c_uint32, unsigned, unsigned]
    report.restype = None
    return report


def _reporting_pool(memory, report):
    """CuPy's class of pools, whose blocks are reported."""
    import weakref

    before, pointer_to = memory.MemoryPool, memory.MemoryPointer
    malloc = before.malloc
    pools = ()  # weak references: a program may have several

    def reserved():
        """Bytes that all pools have of the current device."""
        total = 0
        for known in pools:
            pool = known()
            total += 0 if pool is None else pool.total_bytes()
        return total

    class Block(memory.UnownedMemory):
        """A block of a pool, as CuPy's own, whose end is reported."""

        __slots__ = ("_reported",)

        def __getattr__(self, name):
            return getattr(self._owner, name)

        def free(self):
            self.__del__()
            self.ptr = 0
            self._owner.free()

        def __del__(self):
            if getattr(self, "_reported", False):
                self._reported = False
                report(self.ptr, 0, self.device_id, 0, 0)

    def reported(pointer):
        """The pointer that takes the place of the pool's own."""
        owner, address = pointer.mem, pointer.ptr
        if not address:
            return pointer  # of no bytes
        device, size, total = owner.device_id, owner.size, reserved()
        block = Block(address, size, owner, device)
        # In this order: an interrupt comes after a call, if at all.
        block._reported = True
        report(address, size, device, total, 0)
        return pointer_to(block, 0)

    class MemoryPool(before):
        __doc__ = before.__doc__

        def __init__(self, *args, **kwargs):
            nonlocal pools
            super().__init__(*args, **kwargs)
            pools = (*[known for known in pools if known() is not None], weakref.ref(self))

        def malloc(self, size):
            try:
                pointer = malloc(self, size)
            except BaseException as error:
                _hide_frame(error)
                raise
            try:
                return reported(pointer)
            except Exception as error:
                pass_on(error)
                return pointer

    for name in ("__module__", "__qualname__"):
        setattr(MemoryPool, name, getattr(before, name))
    return MemoryPool
