"""Linear algebra: products of arrays, principal components, singular values."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

PATCH = 8


def gram(volume):
    """Traces projected on the Gram matrix of the mean section; NumPy chooses the order."""
    section = volume.mean(axis=0)
    return np.einsum("ijk,kl,lm->ijm", volume, section.T, section, optimize=True)


def matmul(volume):
    """Products of the traces of every inline with each other; shape (n0, n1, n1)."""
    return volume @ volume.swapaxes(1, 2)


def tensordot(volume):
    """Products of all inlines with each other; shape (n0, n0)."""
    return np.tensordot(volume, volume, axes=((1, 2), (1, 2)))


def windowed_pca(volume, length=16, kept=3):
    """Traces cut into pieces of 16 samples, projected on their 3 main components."""
    whole = volume.shape[-1] // length * length
    pieces = volume[..., :whole].reshape(-1, length).astype(np.float32)
    pieces -= pieces.mean(axis=0)
    _, vectors = np.linalg.eigh(pieces.T @ pieces)
    return pieces @ vectors[:, -kept:]


def patch_svd(volume):
    """Largest singular value of patches of 8×8 cells in the plane of axes 1 and 2."""
    patches = sliding_window_view(volume, (PATCH, PATCH), axis=(1, 2))[:, ::PATCH, ::PATCH]
    return np.linalg.svd(patches, compute_uv=False)[..., 0]
