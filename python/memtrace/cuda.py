"""Blocks of RMM's pools of GPU memory: each is reported to a recording.

    import memtrace.cuda
    memtrace.cuda.watch_rmm()

A pool takes memory from the driver in large pieces, which is all that a recording sees of it. The
blocks that it allocates are what operators need. PyTorch's and CuPy's own pools are seen without
this. Outside of a recorded process nothing is watched.
"""

import ctypes


def watch_rmm(device=0):
    """Reports the blocks that RMM's current resource of a device allocates.

    Args:
        device: The number of the device.

    Returns:
        The resource that is the current one from now on and forwards to the one before; None in
        a process that is not recorded.
    """
    report = _report_function()
    if report is None:
        return None
    import rmm

    upstream = rmm.mr.get_per_device_resource(device)

    # RMM does not say what it has reserved (0), and the tracer adds up the blocks itself.
    def allocate(size, *stream):
        address = upstream.allocate(size, *stream)
        if size:
            report(address, size, device, 0, 0)
        return address

    def deallocate(address, size, *stream):
        if size:
            report(address, 0, device, 0, 0)
        upstream.deallocate(address, size, *stream)

    resource = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    rmm.mr.set_per_device_resource(device, resource)
    return resource


def _report_function():
    """The recording's function for blocks of pools; None in a process that is not recorded."""
    try:
        report = ctypes.CDLL(None).memtrace_device_block
    except (AttributeError, OSError):
        return None
    unsigned = ctypes.c_uint64
    report.argtypes = [unsigned, unsigned, ctypes.c_uint32, unsigned, unsigned]
    report.restype = None
    return report
