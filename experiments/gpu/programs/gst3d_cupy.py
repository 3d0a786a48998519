"""GST3D on CuPy: shape, calls; prints what CuPy's pool says of itself."""

import json
import sys

import cupy
from cupyx.scipy.ndimage import gaussian_filter

SIGMA = 2.0


def gst3d(volume):
    """Dip in degrees, and planarity from 0 to 1, of the layers in a volume: float32, shape (2, *volume.shape).

    The layers' normal is the eigenvector of the largest eigenvalue of the gradient structure tensor; the more that eigenvalue
    stands out, the more planar they are.
    """
    tensor = structure_tensor(volume)
    largest, second = eigenvalues(*tensor)
    normal = eigenvector(*tensor, largest)
    attributes = cupy.empty((2, *volume.shape), cupy.float32)
    length = cupy.sqrt(sum(component * component for component in normal))
    upward = cupy.abs(normal[2]) / cupy.maximum(length, 1e-30)
    attributes[0] = cupy.degrees(cupy.arccos(cupy.minimum(upward, 1)))
    attributes[1] = (largest - second) / cupy.maximum(largest, 1e-30)
    return attributes


def structure_tensor(volume):
    """Smoothed products of the gradient's components: 00, 11, 22, 01, 02, 12."""
    gradient = cupy.gradient(volume)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return [gaussian_filter(gradient[i] * gradient[j], SIGMA) for i, j in pairs]


def eigenvalues(a, b, c, ab, ac, bc):
    """The largest two of a symmetric matrix in each cell, as roots of its characteristic polynomial."""
    mean = (a + b + c) / 3
    a, b, c = a - mean, b - mean, c - mean
    spread = cupy.sqrt((a * a + b * b + c * c + 2 * (ab * ab + ac * ac + bc * bc)) / 6)
    determinant = a * (b * c - bc * bc) - ab * (ab * c - ac * bc) + ac * (ab * bc - b * ac)
    cosine = determinant / cupy.maximum(2 * spread**3, 1e-30)
    angle = cupy.arccos(cupy.clip(cosine, -1, 1)) / 3
    largest = mean + 2 * spread * cupy.cos(angle)
    smallest = mean + 2 * spread * cupy.cos(angle + 2 * cupy.pi / 3)
    return largest, 3 * mean - largest - smallest


def eigenvector(a, b, c, ab, ac, bc, value):
    """Of that eigenvalue, not of unit length: the longest cross product of two rows of the matrix less the eigenvalue."""
    a, b, c = a - value, b - value, c - value
    best = cross((a, ab, ac), (ab, b, bc))
    longest = sum(component * component for component in best)
    for rows in (((a, ab, ac), (ac, bc, c)), ((ab, b, bc), (ac, bc, c))):
        other = cross(*rows)
        length = sum(component * component for component in other)
        longer = length > longest
        best = [cupy.where(longer, theirs, ours) for theirs, ours in zip(other, best, strict=True)]
        longest = cupy.maximum(length, longest)
    return best


def cross(u, v):
    return [
        u[1] * v[2] - u[2] * v[1],
        u[2] * v[0] - u[0] * v[2],
        u[0] * v[1] - u[1] * v[0],
    ]


class Peaks(cupy.cuda.MemoryHook):
    """The most that CuPy's pool had handed out, of all and since `begin`."""

    name = "peaks"

    def __init__(self):
        self.pool = cupy.get_default_memory_pool()
        self.most = self.before = self.within = 0

    def begin(self):
        self.before = self.within = self.pool.used_bytes()

    def malloc_postprocess(self, **_):
        used = self.pool.used_bytes()
        self.most, self.within = max(self.most, used), max(self.within, used)


def main(shape, calls=2):
    peaks, rises = Peaks(), []
    with peaks:
        volume = cupy.random.random(shape, dtype=cupy.float32)
        for _ in range(calls):
            peaks.begin()
            attributes = gst3d(volume)
            rises.append(peaks.within - peaks.before)
            del attributes
    cupy.cuda.Device().synchronize()
    reported = {
        "allocated_peak_bytes": peaks.most,
        "reserved_peak_bytes": peaks.pool.total_bytes(),
        "calls": {"gst3d": rises},
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1].split("x"))), *map(int, sys.argv[2:]))
