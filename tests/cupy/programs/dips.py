"""Calls GST3D of NumPy blocks: shape, calls. The device is opened first, as Dask-CUDA's workers do."""

import sys

import cupy
import gpu_blocks
import numpy as np

shape, calls = tuple(map(int, sys.argv[1].split("x"))), int(sys.argv[2])
cupy.cuda.runtime.free(0)
block = np.ones(shape, np.float32)
for _ in range(calls):
    gpu_blocks.dip(block)
print(gpu_blocks.reported())
