"""Blocks that RMM's pools of GPU memory hand out: each is told to a recording.

    import memtrace.cuda
    memtrace.cuda.watch_rmm()

A pool takes memory from the driver in large pieces, which is all that a recording sees of it; what
it hands out is what operators need. PyTorch's and CuPy's own pools are seen without this. Outside
of a recorded process nothing is watched.
"""

import ctypes


def watch_rmm(device=0):
    """Has RMM's current resource of a device tell of the blocks that it hands out.

    Returns the resource that now is the current one, and hands on to the one before; None in a
    process that is not recorded.
    """
    tell = _door()
    if tell is None:
        return None
    import rmm

    upstream = rmm.mr.get_per_device_resource(device)

    # RMM does not say what it has reserved (0), and the tracer adds up the blocks itself.
    def allocate(size, *stream):
        address = upstream.allocate(size, *stream)
        if size:
            tell(address, size, device, 0, 0)
        return address

    def deallocate(address, size, *stream):
        if size:
            tell(address, 0, device, 0, 0)
        upstream.deallocate(address, size, *stream)

    resource = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    rmm.mr.set_per_device_resource(device, resource)
    return resource


def _door():
    """The recording's function for blocks of pools; None where nobody records."""
    try:
        door = ctypes.CDLL(None).memtrace_device_block
    except (AttributeError, OSError):
        return None
    unsigned = ctypes.c_uint64
    door.argtypes = [unsigned, unsigned, ctypes.c_uint32, unsigned, unsigned]
    door.restype = None
    return door
