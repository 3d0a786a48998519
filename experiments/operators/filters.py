"""Filters over neighbourhoods, and resampling."""

import numpy as np
from operators.gaussian import gaussian
from scipy import ndimage

__all__ = [
    "convolution",
    "gaussian",
    "gradient_magnitude",
    "median",
    "percentile_filter",
    "second_derivative",
    "uniform",
    "zoom",
]


def median(volume):
    """Median of 3×3×3 cells."""
    return ndimage.median_filter(volume, 3)


def percentile_filter(volume):
    """80th percentile of 3×3×3 cells."""
    return ndimage.percentile_filter(volume, 80, 3)


def uniform(volume):
    """Mean of 5×5×5 cells."""
    return ndimage.uniform_filter(volume, 5)


def convolution(volume):
    """3×3×3 convolution with a small blob."""
    line = np.array([1.0, 2.0, 1.0])
    weights = line[:, None, None] * line[:, None] * line
    return ndimage.convolve(volume, weights / weights.sum())


def gradient_magnitude(volume):
    """Length of the gradient of central differences."""
    parts = [ndimage.correlate1d(volume, (-0.5, 0.0, 0.5), axis) for axis in range(volume.ndim)]
    return np.sqrt(sum(part * part for part in parts))


def second_derivative(volume):
    """Second difference along the samples."""
    return ndimage.correlate1d(volume, (1.0, -2.0, 1.0), axis=-1)


def zoom(volume):
    """The volume on a grid half as fine, by linear interpolation."""
    shape = [n // 2 for n in volume.shape]
    axes = [np.linspace(0, n - 1, m) for n, m in zip(volume.shape, shape, strict=True)]
    grid = np.meshgrid(*axes, indexing="ij")
    return ndimage.map_coordinates(volume, grid, order=1)
