"""Texture of slices."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

LEVELS = 16
WINDOW = 7


def glcm(volume):
    """Contrast of the grey-level co-occurrence matrix of 7×7 cells, 16 levels, slice by slice.

    Pairs are neighbours along axis 2. Edges are repeated: same shape as `volume`, float32.
    """
    low, high = float(volume.min()), float(volume.max())
    step = (high - low) / LEVELS or 1.0
    margin = WINDOW // 2
    result = np.empty(volume.shape, np.float32)
    weights = (np.subtract.outer(np.arange(LEVELS), np.arange(LEVELS)) ** 2.0).ravel()
    for number, plane in enumerate(volume):
        levels = np.clip((plane - low) / step, 0, LEVELS - 1).astype(np.int64)
        levels = np.pad(levels, margin, mode="edge")
        pairs = levels[:, :-1] * LEVELS + levels[:, 1:]
        windows = sliding_window_view(pairs, (WINDOW, WINDOW - 1))
        for row, of_row in enumerate(windows):
            cells = len(of_row)
            codes = of_row.reshape(cells, -1) + (np.arange(cells) * LEVELS**2)[:, None]
            matrices = np.bincount(codes.ravel(), minlength=cells * LEVELS**2)
            matrices = matrices.reshape(cells, LEVELS**2)
            result[number, row] = matrices @ weights / codes.shape[1]
    return result


def local_binary_pattern(volume):
    """Which of the eight neighbours in the plane of axes 1 and 2 are at least as large."""
    padded = np.pad(volume, ((0, 0), (1, 1), (1, 1)), mode="edge")
    _, rows, columns = volume.shape
    pattern = np.zeros(volume.shape, np.uint8)
    ring = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))
    for bit, (row, column) in enumerate(ring):
        neighbour = padded[:, row : row + rows, column : column + columns]
        pattern |= (neighbour >= volume).astype(np.uint8) << np.uint8(bit)
    return pattern
