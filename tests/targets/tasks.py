"""Tasks of a Dask cluster."""

import os
import time

import numpy as np


def doubled(block):
    """16 bytes for each cell of 8: two products, the result in the place of one."""
    return (block * 2) + (block * 3)


KEPT = []


def warmed(block):
    """The same; its first call in a process leaves 32 MB behind."""
    if not KEPT:
        KEPT.append(np.ones(4_000_000))
    return doubled(block)


def kept(block, end):
    """What `doubled` needs, until there is a file of this name."""
    result = (block * 2) + (block * 3)
    while not os.path.exists(end):
        time.sleep(0.01)
    return result


def worked(size):
    return np.full(size, 7.0).sum()


def slept(size, seconds):
    held = np.ones(size)
    time.sleep(seconds)
    return held.size
