"""What blocks of the driver come to for NVML, which nvidia-smi asks.

NVML counts the context as well and keeps no peak: it is asked before there are blocks and while they are held.
"""

import ctypes
import json
import os
import uuid
from ctypes import byref, c_uint, c_ulonglong, c_void_p

from driver import MIB, Peak, call, context_on, first_device, free, linear

SIZES = [
    size * MIB for size in (32, 64, 130)
]  # whole pages of the device: what is asked for is taken
INSUFFICIENT_SIZE = 7  # NVML_ERROR_INSUFFICIENT_SIZE
NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE


class Process(ctypes.Structure):
    """nvmlProcessInfo_t, as the third version of its function has it."""

    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class NotTold(Exception):
    """NVML cannot be had, or does not say."""


class Nvml:
    """The library, and one device."""

    def __init__(self, device):
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NotTold(error) from error
        self.device = c_void_p()
        self.ask("nvmlInit_v2")
        name = uuid_of(device)
        try:
            self.ask("nvmlDeviceGetHandleByUUID", f"GPU-{name}".encode(), byref(self.device))
        except NotTold:  # a part of a device (MIG) is named in this way
            self.ask("nvmlDeviceGetHandleByUUID", f"MIG-{name}".encode(), byref(self.device))

    def ask(self, name, *arguments):
        status = self.function(name)(*arguments)
        if status:
            raise NotTold(f"{name}: {self.reason(status)}")

    def function(self, name):
        try:
            return getattr(self.library, name)
        except AttributeError as error:  # this driver is older than the function
            raise NotTold(error) from error

    def reason(self, status):
        words = self.function("nvmlErrorString")
        words.restype = ctypes.c_char_p
        return words(status).decode()

    def process(self):
        """Bytes of this process; None where NVML does not list it, as in containers, or does not know."""
        listed = self.function("nvmlDeviceGetComputeRunningProcesses_v3")
        room, status = c_uint(0), INSUFFICIENT_SIZE
        while status == INSUFFICIENT_SIZE:
            found = (Process * (room.value + 8))()  # some may start in between
            room.value = len(found)
            status = listed(self.device, byref(room), found)
        used = {each.pid: each.used for each in found[: room.value]} if status == 0 else {}
        own = used.get(os.getpid())
        return None if own == NOT_AVAILABLE else own

    def whole(self):
        """Bytes of all processes on the device."""
        memory = Memory()
        self.ask("nvmlDeviceGetMemoryInfo", self.device, byref(memory))
        return memory.used


def uuid_of(device):
    found = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", found, device)
    return uuid.UUID(bytes=bytes(found))


def main():
    device = first_device()
    try:
        reported = counted(Nvml(device), device)
    except NotTold as error:
        reported = {"not_checked": str(error)}
    print(json.dumps(reported))


def counted(nvml, device):
    # Before it has a context a process is not listed: this one is another, outside of this container.
    namesake, peak = nvml.process() is not None, Peak()
    with context_on(device):
        # Once, so that the driver has what it keeps for itself beside blocks.
        give_back(peak, take(peak))
        whole = namesake or nvml.process() is None
        used = nvml.whole if whole else nvml.process
        before = used()
        blocks = take(peak)
        rise = used() - before
        give_back(peak, blocks)
    whose = "nvml_device_bytes" if whole else "nvml_process_bytes"
    return {"driver_peak_bytes": peak.most, whose: rise}


def take(peak):
    return [linear(peak, size) for size in SIZES]


def give_back(peak, blocks):
    for block, size in zip(blocks, SIZES, strict=True):
        free(peak, block, size)


if __name__ == "__main__":
    main()
