"""Operators whose memory depends on what is in the volume, not only on its shape."""

import numpy as np
from scipy import ndimage, sparse


def boolean_masking(volume):
    """The positive samples."""
    return volume[volume > 0]


def unique(volume):
    """Distinct values, rounded to thousandths."""
    return np.unique(np.round(volume, 3))


def label(volume):
    """Centres of the connected regions above a threshold."""
    regions, count = ndimage.label(volume > 0.5)
    return np.array(ndimage.center_of_mass(volume, regions, np.arange(1, count + 1)))


def sparse_conversion(volume):
    """The strong samples as a sparse matrix, traces by samples; its values."""
    flat = np.where(np.abs(volume) > 0.5, volume, 0).reshape(-1, volume.shape[-1])
    return sparse.csr_matrix(flat).data


def k_means(volume, clusters=4, limit=20):
    """Centres of four clusters of values; stops when they stand still and keeps each step."""
    values = volume.ravel()
    centres = np.quantile(values[:: max(1, values.size // 10_000)], np.linspace(0.1, 0.9, clusters))
    steps = []
    for _ in range(limit):
        nearest = np.abs(values[:, None] - centres).argmin(axis=1).astype(np.uint8)
        steps.append(nearest)
        found = [values[nearest == k] for k in range(clusters)]
        moved = np.array([part.mean() if part.size else centres[k] for k, part in enumerate(found)])
        if np.abs(moved - centres).max() < 1e-2:
            break
        centres = moved
    return centres


def adaptive_tiling(volume, least=8):
    """Means of tiles that are halved until they vary little."""
    means = []

    def split(tile):
        if max(tile.shape) <= least or tile.std() < 0.3:
            means.append((tile.mean(), tile.copy()))
            return
        axis = int(np.argmax(tile.shape))
        for half in np.array_split(tile, 2, axis=axis):
            split(half)

    split(volume)
    return np.array([mean for mean, _ in means])
