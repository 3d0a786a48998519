"""GST3D with the driver's own pool under CuPy; prints the most that the driver says it had handed out and reserved."""

import json
import sys
import warnings
from pathlib import Path

import cupy
import memtrace

sys.path.append(str(Path(__file__).resolve().parents[3] / "experiments" / "gpu" / "programs"))

import gst3d_cupy  # noqa: E402

warnings.simplefilter("ignore", FutureWarning)  # it is said to be experimental
pool = cupy.cuda.MemoryAsyncPool()
cupy.cuda.set_allocator(pool.malloc)
volume = cupy.random.random((40, 50, 61), dtype=cupy.float32)
before = pool.used_bytes()
attributes = memtrace.operator(gst3d_cupy.gst3d)(volume)
runtime = cupy.cuda.runtime
handle = runtime.deviceGetMemPool(0)
used, reserved = (
    runtime.memPoolGetAttribute(handle, most)
    for most in (runtime.cudaMemPoolAttrUsedMemHigh, runtime.cudaMemPoolAttrReservedMemHigh)
)
print(json.dumps({"used": used, "reserved": reserved, "rise": used - before}))
