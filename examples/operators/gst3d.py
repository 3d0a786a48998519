"""GST3D: dip and azimuth of the layers from the gradient structure tensor."""

import numpy as np
from scipy.ndimage import correlate1d

HALO = (2, 2, 2)  # one cell for the derivative, one for the box mean
MARGIN = 1  # the outermost cells have no central difference
COMPONENTS = 2  # dip, azimuth
WHOLE_AXES = ()

DERIVATIVE = (-0.5, 0.0, 0.5)
# The smoothing across the derivative that makes its response nearly the same in every direction.
SMOOTHING = (0.178947, 0.642105, 0.178947)
BOX = (1 / 3, 1 / 3, 1 / 3)


def gst3d(volume):
    """Dip and azimuth in degrees, float32, shape (2, n0-2, n1-2, n2-2).

    The layers' normal v is the eigenvector of the largest eigenvalue of the local mean of
    g·gᵀ, g being the gradient. It is turned to v₂ ≥ 0, as its sign is arbitrary:
    dip = arccos v₂ in [0, 90], azimuth = atan2(v₀, v₁) in [0, 360). ValueError for a volume
    without a cell that has neighbours on all sides.
    """
    if min(volume.shape) < 3:
        raise ValueError(f"gst3d needs 3 cells or more along each axis, not {volume.shape}")
    return _angles(_normals(_structure_tensor(volume)))


def _structure_tensor(volume):
    """3×3×3 box mean of g·gᵀ: float32, shape (n0-2, n1-2, n2-2, 3, 3)."""
    gradient = [_derivative(volume, axis) for axis in range(3)]
    tensor = np.empty((*gradient[0].shape, 3, 3), np.float32)
    for i in range(3):
        for j in range(i + 1):
            product = gradient[i] * gradient[j]
            for axis in range(3):
                # A sliding sum would be cheaper, but its rounding depends on where a line
                # starts; a correlation gives the same bits in every chunk.
                correlate1d(product, BOX, axis, output=product)
            tensor[..., i, j] = tensor[..., j, i] = product
    return tensor


def _derivative(volume, axis):
    """Central difference along `axis`, smoothed along the others, without the outermost cells."""
    result = correlate1d(volume, DERIVATIVE, axis, output=np.float32)
    for other in {0, 1, 2} - {axis}:
        correlate1d(result, SMOOTHING, other, output=result)
    return result[1:-1, 1:-1, 1:-1]


def _normals(tensor):
    """Unit eigenvector of the largest eigenvalue: shape (..., 3)."""
    _, vectors = np.linalg.eigh(tensor)  # eigenvalues ascend; vectors are columns
    return vectors[..., 2]


def _angles(normals):
    angles = np.empty((2, *normals.shape[:-1]), np.float32)
    dip, azimuth = angles
    upward = np.where(normals[..., 2] < 0, np.float32(-1), np.float32(1))
    np.multiply(normals[..., 2], upward, out=dip)
    np.arccos(np.minimum(dip, 1, out=dip), out=dip)  # rounding can exceed 1
    np.arctan2(normals[..., 0] * upward, normals[..., 1] * upward, out=azimuth)
    np.degrees(angles, out=angles)
    azimuth += np.where(azimuth < 0, np.float32(360), np.float32(0))
    azimuth[azimuth >= 360] = 0  # a tiny negative angle plus 360 rounds to 360
    return angles
