"""Training steps of a small convolutional network: the columns of each layer are kept for the way
back, and the weights have a momentum.

convolutions.py ROUNDS
"""

import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

IMAGES, SIDE, CHANNELS, LAYERS = 10, 32, 64, 6

rng = np.random.default_rng(3)
SHAPE = (9 * CHANNELS, CHANNELS)
weights = [rng.standard_normal(SHAPE, dtype=np.float32) / 30 for _ in range(LAYERS)]
momenta = [np.zeros_like(each) for each in weights]


def columns(x):
    """The 3 by 3 neighbourhood of each pixel, a row each."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.ascontiguousarray(windows).reshape(-1, SHAPE[0])


def images(rows):
    """The sums of what each pixel has in its neighbours' rows."""
    parts = rows.reshape(IMAGES, SIDE, SIDE, CHANNELS, 3, 3)
    out = np.zeros((IMAGES, SIDE + 2, SIDE + 2, CHANNELS), np.float32)
    for i in range(3):
        for j in range(3):
            out[:, i : i + SIDE, j : j + SIDE] += parts[..., i, j]
    return out[:, 1:-1, 1:-1]


for _ in range(int(sys.argv[1])):
    x = rng.standard_normal((IMAGES, SIDE, SIDE, CHANNELS), dtype=np.float32)
    tape = []
    for weight in weights:
        kept = columns(x)
        y = np.maximum(kept @ weight, 0)
        tape.append((kept, y))
        x = y.reshape(IMAGES, SIDE, SIDE, CHANNELS)
    error = (x.reshape(-1, CHANNELS) - 1) / np.float32(x.size)
    for weight, momentum in zip(reversed(weights), reversed(momenta), strict=True):
        kept, y = tape.pop()
        error = error * (y > 0)
        momentum *= np.float32(0.9)
        momentum += kept.T @ error
        error = images(error @ weight.T).reshape(-1, CHANNELS)
        weight -= np.float32(0.1) * momentum
print(float(sum(np.abs(each).sum() for each in weights)))
