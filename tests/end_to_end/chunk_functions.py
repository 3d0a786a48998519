"""Functions that workers of the clusters in these tests can import."""

import time

import numpy as np


def smooth(block, weight=0.5):
    """Needs one neighbour on each side along every axis."""
    result = block * np.float32(1 - weight)
    for axis in range(block.ndim):
        result += np.roll(block, 1, axis) * np.float32(weight / 6)
        result += np.roll(block, -1, axis) * np.float32(weight / 6)
    return result


def hungry(block):
    """Holds thirty times its block for a moment."""
    held = np.ones((30, *block.shape), block.dtype)
    return held.sum(axis=0, dtype=block.dtype) * block


def hungry_and_slow(block):
    """Takes as long for a small block as for a large one."""
    time.sleep(0.03)
    return hungry(block)


def wait(seconds):
    """When it began and ended."""
    start = time.time()
    time.sleep(seconds)
    return start, time.time()
