"""Statistics, ranks and expressions over whole volumes."""

import numpy as np


def histogram(volume):
    """Counts in 256 bins from the smallest to the largest value."""
    return np.histogram(volume, bins=256)[0]


def histogram_equalisation(volume):
    """Values replaced by the share of values below them."""
    counts, edges = np.histogram(volume, bins=256)
    share = np.cumsum(counts) / volume.size
    return np.interp(volume.ravel(), edges[1:], share).reshape(volume.shape)


def argsort_rank(volume):
    """Rank of every value, from 0 to 1."""
    order = np.argsort(volume, axis=None)
    ranks = np.empty(order.size, np.float32)
    ranks[order] = np.linspace(0, 1, order.size, dtype=np.float32)
    return ranks.reshape(volume.shape)


def cumsum_where(volume):
    """Running sums along the samples, zero where the sample is negative."""
    return np.where(volume > 0, np.cumsum(volume, axis=-1), 0)


def boolean_expression(volume):
    """Cells of middling amplitude, or strong ones."""
    magnitude = np.abs(volume)
    return (magnitude > 0.2) & (magnitude < 0.6) | (volume > 0.9)


def nan_median(volume):
    """Median of every trace, missing samples left out."""
    return np.nanmedian(volume, axis=-1)


def standard_deviation(volume):
    """Standard deviation of every trace."""
    return np.std(volume, axis=-1)
