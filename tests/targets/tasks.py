"""Tasks of a Dask cluster."""

import time

import numpy as np


def doubled(block):
    """24 bytes for each cell of 8: two temporaries and the result."""
    return (block * 2) + (block * 3)


def worked(size):
    return np.full(size, 7.0).sum()


def slept(size, seconds):
    held = np.ones(size)
    time.sleep(seconds)
    return held.size
