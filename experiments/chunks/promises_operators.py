"""Operators of the promises on chunks, for arrays of any rank and for tables of four columns."""

import sys

import numpy as np
import pandas as pd
from scipy import fft, ndimage, signal

#: Cells that a block needs from its neighbours, along every axis that is cut.
HALO = {"smooth": 2, "energy": 2, "gradient": 1, "median": 1, "rolling": 4}
#: Operators that need the last axis in one chunk.
WHOLE = ("bandpass", "envelope", "join", "rolling", "standardise")
COLUMNS = ["key", "a", "b", "c"]
KEYS = 1000


def smooth(block):
    """Mean of five cells along every axis."""
    return ndimage.uniform_filter(block, 5)


def energy(block):
    """Mean square of five cells along every axis."""
    return ndimage.uniform_filter(block * block, 5)


def gradient(block):
    """Length of the gradient of central differences."""
    total = np.zeros(block.shape, np.float32)
    for axis in range(block.ndim):
        step = ndimage.correlate1d(block, (-0.5, 0.0, 0.5), axis, output=np.float32)
        total += step * step
    return np.sqrt(total)


def median(block):
    """Median of three cells along every axis."""
    return ndimage.median_filter(block, 3)


def clip(block):
    """Values between 100 and 900."""
    return np.clip(block, 100, 900)


def bandpass(block):
    """The middle half of each trace's frequencies."""
    spectrum = fft.rfft(block, axis=-1)
    cut = spectrum.shape[-1] // 4
    spectrum[..., :cut] = 0
    spectrum[..., -cut:] = 0
    return fft.irfft(spectrum, block.shape[-1], axis=-1)


def envelope(block):
    """Amplitude of the analytic signal of each trace."""
    return np.abs(signal.hilbert(block, axis=-1))


def standardise(block):
    """Each row less its mean."""
    return block - block.mean(axis=-1, keepdims=True, dtype=block.dtype)


def join(rows):
    """Rows joined with a table of weights by their key."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    weights = {"key": np.arange(KEYS, dtype=rows.dtype), "weight": np.arange(KEYS)}
    joined = table.merge(pd.DataFrame(weights), on="key", how="left")
    return joined[["key", "a", "b", "weight"]].to_numpy(rows.dtype)


def rolling(rows):
    """Mean of a row and the four before it, column by column."""
    return pd.DataFrame(rows).rolling(5, min_periods=1).mean().to_numpy(rows.dtype)


def values(shape, dtype, seed=0):
    """Whole numbers from 0 to 999: every one is a key."""
    return np.random.default_rng(seed).integers(0, KEYS, shape).astype(dtype)


def main():
    """Calls operators in a row, each on what the one before made, twice at each shape; the first
    shape once more before, to warm up."""
    names, dtype, *shapes = sys.argv[1:]
    for text in [shapes[0], *shapes, *shapes]:
        block = values(tuple(map(int, text.split("x"))), dtype)
        for name in names.split(","):
            block = globals()[name](block)  # looked up at each call: the recorder wraps it
