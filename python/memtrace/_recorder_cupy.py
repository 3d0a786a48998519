"""CuPy's pools of GPU memory tell of the blocks that they hand out, in all threads.

One of the texts that make up the recorder (see `_recorder.py`, which states their
constraints). CuPy's own hooks are each one thread's, so `cupy.cuda.MemoryPool` is
replaced instead, before anybody has made one: in place of the pool's block an array is
given one that holds it, whose end is told, whoever drops it, before the pool has the
memory again. `cupy.cuda.memory.MemoryPool` stays, for CuPy's C code looks for it. What
CuPy takes from the driver without a pool, or from the driver's (`malloc_async`), is seen
there.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # tells linters which names the other texts define
    from ._recorder import _hide_frame, pass_on
    from ._recorder_imports import when_executed


def watch_cupy():
    """Waits for CuPy, if this process's calls of the CUDA driver are recorded."""
    when_executed("cupy.cuda", _cupy_cuda_arrived)


def _cupy_cuda_arrived(cuda):
    tell = _device_door()
    if tell is not None:
        cuda.MemoryPool = _telling_pool(cuda.memory, tell)


def _device_door():
    """The probe's function for blocks of pools: (address, bytes, device, reserved, used).

    What is used is 0 here: the tracer adds up the blocks, which no thread of the program could do
    without a lock."""
    import ctypes

    library = ctypes.PyDLL(None)
    if not hasattr(library, "memtrace_cuda_probe"):
        return None
    door, unsigned = library.memtrace_device_block, ctypes.c_uint64
    door.argtypes = [unsigned, unsigned, ctypes.c_uint32, unsigned, unsigned]
    door.restype = None
    return door


def _telling_pool(memory, tell):
    """CuPy's class of pools, whose blocks are told."""
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
        """A block of a pool; as CuPy's own, but that its end is told."""

        __slots__ = ("_told",)

        def __getattr__(self, name):
            return getattr(self._owner, name)

        def free(self):
            self.__del__()
            self.ptr = 0
            self._owner.free()

        def __del__(self):
            if getattr(self, "_told", False):
                self._told = False
                tell(self.ptr, 0, self.device_id, 0, 0)

    def told(pointer):
        """The pointer to hand out in place of the pool's own."""
        owner, address = pointer.mem, pointer.ptr
        if not address:
            return pointer  # of no bytes
        device, size, has = owner.device_id, owner.size, reserved()
        block = Block(address, size, owner, device)
        # In this order: an interrupt comes after a call, if at all.
        block._told = True
        tell(address, size, device, has, 0)
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
                return told(pointer)
            except Exception as error:
                pass_on(error)
                return pointer

    for name in ("__module__", "__qualname__"):
        setattr(MemoryPool, name, getattr(before, name))
    return MemoryPool
