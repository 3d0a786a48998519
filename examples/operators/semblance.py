"""Semblance: how alike neighbouring traces are, from 0 to 1."""

import numpy as np
from scipy.ndimage import correlate1d

WINDOW = (3, 3, 9)  # inlines, crosslines, samples

HALO = (1, 1, 4)
MARGIN = 0
COMPONENTS = None
WHOLE_AXES = ()


def semblance(volume):
    """Σ_t (Σ_i a)² / (N Σ_t Σ_i a²) over the window around each cell, edges reflected.

    i runs over the N = 9 traces of the window, t over its samples. With means for sums it is
    mean_t (mean_i a)² / mean_t mean_i a². 0 where the window is silent. Shape of `volume`,
    float32.
    """
    stacked = np.array(volume, np.float32)
    _box_mean(stacked, (0, 1))
    np.square(stacked, out=stacked)
    _box_mean(stacked, (2,))
    energy = np.square(volume, dtype=np.float32)
    _box_mean(energy, (0, 1, 2))
    np.maximum(energy, np.finfo(np.float32).tiny, out=energy)
    return np.divide(stacked, energy, out=stacked)


def _box_mean(array, axes):
    """Mean over the window along `axes`, in place, with the same rounding in every chunk."""
    for axis in axes:
        length = WINDOW[axis]
        correlate1d(array, np.full(length, 1 / length), axis, output=array)
