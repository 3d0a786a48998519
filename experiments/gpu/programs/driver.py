"""Memory straight from the driver, by one call of each kind, and what that comes to at its peak.

Needs no package: the driver's functions are called by ctypes.
"""

import ctypes
import json
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

MIB = 1 << 20
CUDA = ctypes.CDLL("libcuda.so.1")
RESERVED_NOW = 5  # CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
FLOATS = 0x20  # CU_AD_FORMAT_FLOAT


class Array(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR_v2."""

    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
    )


class Location(ctypes.Structure):
    """CUmemLocation: a device by its number."""

    _fields_ = (("type", c_int), ("id", c_int))


class Physical(ctypes.Structure):
    """CUmemAllocationProp: pinned, on a device."""

    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", Location),
        ("security", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


def call(name, *arguments):
    status = getattr(CUDA, name)(*arguments)
    if status:
        raise SystemExit(f"{name} failed with {status}")


class Peak:
    """Bytes of devices as the program takes and returns them."""

    def __init__(self):
        self.now = self.most = 0

    def add(self, size):
        self.now += size
        self.most = max(self.most, self.now)


def main():
    device, peak = first_device(), Peak()
    with context_on(device):
        blocks = [linear(peak, size) for size in (64 * MIB, 3 * MIB + 1)]
        rows = pitched(peak, width=1000, height=1000)
        host_and_managed()
        array(peak)
        reserved(peak, device)
        physical(peak, device)
        for block in (*blocks, rows):
            call("cuMemFree_v2", block)
    print(json.dumps({"driver_peak_bytes": peak.most}))


def first_device():
    device = c_int()
    call("cuInit", 0)
    call("cuDeviceGet", byref(device), 0)
    return device


@contextmanager
def context_on(device):
    """The device's primary context, current while it is held."""
    context = c_void_p()
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)
    yield
    call("cuDevicePrimaryCtxRelease_v2", device)


def linear(peak, size):
    block = c_uint64()
    call("cuMemAlloc_v2", byref(block), c_size_t(size))
    peak.add(size)
    return block


def free(peak, block, size):
    call("cuMemFree_v2", block)
    peak.add(-size)


def pitched(peak, width, height):
    block, pitch = c_uint64(), c_size_t()
    call("cuMemAllocPitch_v2", byref(block), byref(pitch), c_size_t(width), c_size_t(height), 4)
    peak.add(pitch.value * height)
    return block


def host_and_managed():
    """On no device, or wherever it is used: not among a device's bytes."""
    managed, host = c_uint64(), c_void_p()
    call("cuMemAllocManaged", byref(managed), c_size_t(8 * MIB), 1)
    call("cuMemAllocHost_v2", byref(host), c_size_t(8 * MIB))
    call("cuMemFreeHost", host)
    call("cuMemFree_v2", managed)


def array(peak):
    handle, about = c_void_p(), Array(1024, 512, FLOATS, 1)
    call("cuArrayCreate_v2", byref(handle), byref(about))
    peak.add(1024 * 512 * 4)
    call("cuArrayDestroy", handle)
    peak.add(-1024 * 512 * 4)


def reserved(peak, device):
    """A pool counts with what it has reserved, however little of that is handed out."""
    pool, block, size = c_void_p(), c_uint64(), c_uint64()
    call("cuDeviceGetDefaultMemPool", byref(pool), device)
    call("cuMemAllocAsync", byref(block), c_size_t(48 * MIB), None)
    call("cuMemPoolGetAttribute", pool, RESERVED_NOW, byref(size))
    peak.add(size.value)
    call("cuMemFreeAsync", block, None)
    call("cuCtxSynchronize")
    call("cuMemPoolTrimTo", pool, c_size_t(0))
    left = c_uint64()
    call("cuMemPoolGetAttribute", pool, RESERVED_NOW, byref(left))
    peak.add(left.value - size.value)


def physical(peak, device):
    """Physical memory is held until it is released and unmapped."""
    about = Physical(type=1, location=Location(1, device.value))
    unit, handle, address = c_size_t(), c_ulonglong(), c_uint64()
    call("cuMemGetAllocationGranularity", byref(unit), byref(about), 0)
    size = c_size_t(-(-40 * MIB // unit.value) * unit.value)
    call("cuMemCreate", byref(handle), size, byref(about), c_ulonglong(0))
    peak.add(size.value)
    nowhere, at_start = c_uint64(0), c_size_t(0)
    call("cuMemAddressReserve", byref(address), size, c_size_t(0), nowhere, c_ulonglong(0))
    call("cuMemMap", address, size, at_start, handle, c_ulonglong(0))
    call("cuMemRelease", handle)
    linear_while_mapped = linear(peak, MIB)
    free(peak, linear_while_mapped, MIB)
    call("cuMemUnmap", address, size)
    peak.add(-size.value)
    call("cuMemAddressFree", address, size)


if __name__ == "__main__":
    main()
