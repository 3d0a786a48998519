"""Blocks of two devices, given back while the other is the current one; prints what the pool says of each."""

import json

import cupy
from cupy import cuda

MIB = 1 << 20
pool = cupy.get_default_memory_pool()


def held(device, mebibytes):
    with cuda.Device(device):
        return cupy.empty(mebibytes * MIB, cupy.uint8)


first, second = held(0, 10), held(1, 30)
most = {}
for device in (0, 1):
    with cuda.Device(device):
        most[device] = [pool.used_bytes(), pool.total_bytes()]
with cuda.Device(1):
    del first
    pool.free_all_blocks()  # of the current device alone
third = held(0, 4)
del second
pool.free_all_blocks()
print(json.dumps(most))
