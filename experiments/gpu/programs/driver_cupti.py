"""What CUPTI's records of memory (CUPTI_ACTIVITY_KIND_MEMORY2) come to for calls of the driver.

The calls are those whose kind and size a record has beyond doubt: physical memory has no kind, and pitched memory has two sizes.
"""

import ctypes
import importlib.util
import json
import os
from collections import Counter
from ctypes import POINTER, byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from driver import (
    MIB,
    Peak,
    array,
    call,
    context_on,
    first_device,
    free,
    host_and_managed,
    linear,
    reserved,
)

OLDEST, NEWEST = 12, 13  # versions of CUPTI that these records were looked up in
MEMORY2 = 49  # CUPTI_ACTIVITY_KIND_MEMORY2
FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
ALLOCATION, RELEASE = 1, 2  # CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_*
# CUPTI_ACTIVITY_MEMORY_KIND_PINNED, DEVICE, ARRAY and MANAGED
KINDS = {2: "host", 3: "used", 4: "used", 5: "managed"}
BUFFER = 1 << 20
REQUEST = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
COMPLETE = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class Record(ctypes.Structure):
    """How CUpti_ActivityMemory2 to 4 begin."""

    _fields_ = (
        ("kind", c_int),
        ("operation", c_int),
        ("memory", c_int),
        ("correlation", c_uint32),
        ("address", c_uint64),
        ("bytes", c_uint64),
        ("timestamp", c_uint64),
    )


class NotTold(Exception):
    """CUPTI cannot be had, or does not record."""


class Cupti:
    """The library, and the buffers that it has filled."""

    def __init__(self):
        self.library = load()
        self.lent, self.filled = {}, []
        # Kept for as long as CUPTI may call them.
        self.callbacks = REQUEST(self.lend), COMPLETE(self.take_back)
        self.ask("cuptiActivityRegisterCallbacks", *self.callbacks)

    def ask(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            words = ctypes.c_char_p()
            self.library.cuptiGetResultString(status, byref(words))
            raise NotTold(f"{name}: {(words.value or b'?').decode()}")

    def lend(self, buffer, size, most):
        memory = (c_uint64 * (BUFFER // 8))()  # aligned as records are
        address = ctypes.addressof(memory)
        self.lent[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER, 0  # 0: as many records as there is room for

    def take_back(self, context, stream, buffer, size, valid):
        self.filled.append((self.lent.pop(buffer), valid))

    def start(self):
        self.ask("cuptiActivityEnable", MEMORY2)

    def records(self):
        """All until now, in the order of their time; ends the recording."""
        self.ask("cuptiActivityFlushAll", FORCED)
        self.ask("cuptiActivityDisable", MEMORY2)
        self.ask("cuptiActivityFlushAll", FORCED)  # no buffer stays lent
        dropped = c_size_t()
        self.ask("cuptiActivityGetNumDroppedRecords", None, 0, byref(dropped))
        if dropped.value:
            raise NotTold(f"{dropped.value} records were dropped")
        found = [record for filled in self.filled for record in self.within(*filled)]
        return sorted(found, key=lambda record: record.timestamp)

    def within(self, buffer, valid):
        at, valid = c_void_p(), c_size_t(valid)
        while self.library.cuptiActivityGetNextRecord(buffer, valid, byref(at)) == 0:
            yield Record.from_address(at.value)


def load():
    """CUPTI for the driver's version of CUDA or one before: of NVIDIA's packages, where the linker finds it, or of a toolkit."""
    version = c_int()
    call("cuDriverGetVersion", byref(version))
    nvidia = importlib.util.find_spec("nvidia")
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for major in range(min(version.value // 1000, NEWEST), OLDEST - 1, -1):
        name = f"libcupti.so.{major}"
        packages = nvidia.submodule_search_locations if nvidia else ()
        found = [path for folder in packages for path in Path(folder).glob(f"*/lib/{name}")]
        for path in (*found, name, toolkit / "extras" / "CUPTI" / "lib64" / name):
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                continue
    cuda = version.value // 1000
    raise NotTold(
        f"no libcupti.so of CUDA {OLDEST} to {NEWEST} that a driver of CUDA {cuda} can use"
    )


def main():
    try:
        cupti = Cupti()
        cupti.start()  # before the driver, so that nothing is missed
        reported = traced(cupti)
    except NotTold as error:
        reported = {"not_checked": str(error)}
    print(json.dumps(reported))


def traced(cupti):
    device, peak = first_device(), Peak()
    with context_on(device):
        first = linear(peak, 64 * MIB)
        host_and_managed()
        array(peak)
        reserved(peak, device)
        free(peak, first, 64 * MIB)
        second = linear(peak, 34 * MIB)
        free(peak, second, 34 * MIB)
        call("cuCtxSynchronize")
        records = cupti.records()
    return {"driver_peak_bytes": peak.most, **summed(records)}


def summed(records):
    """Allocations, their bytes, and what was held at most of each kind."""
    count = size = 0
    held, now, most = {}, Counter(), Counter()
    for record in records:
        kind = KINDS.get(record.memory)
        if kind is None:  # variables of code: nobody asks for them
            continue
        if record.operation == ALLOCATION:
            count, size = count + 1, size + record.bytes
            held[record.address] = kind, record.bytes
            now[kind] += record.bytes
            most[kind] = max(most[kind], now[kind])
        elif record.operation == RELEASE and record.address in held:
            kind, gone = held.pop(record.address)
            now[kind] -= gone
    peaks = {f"cupti_{kind}_peak_bytes": most[kind] for kind in KINDS.values()}
    return {"cupti_allocations": count, "cupti_requested_bytes": size, **peaks}


if __name__ == "__main__":
    main()
