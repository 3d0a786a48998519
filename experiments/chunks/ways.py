"""Ways to choose chunks, each from what it looks at."""

import math

from dask.array.core import normalize_chunks

GIB = 1 << 30
#: Peak of the authors' GST3D at 200×200×200, mean of three runs (their published table).
PUBLISHED_BYTES, PUBLISHED_SHAPE = 1.8933512369791667 * GIB, (200, 200, 200)


def auto(shape, limit, workers):
    """Dask's choice: 128 MiB a chunk, whatever runs on it."""
    chunks = normalize_chunks("auto", shape, dtype="f4")
    return tuple(max(axis) for axis in chunks)


def even(shape, limit, workers):
    """One slab of the first axis for each worker."""
    return (-(-shape[0] // workers), *shape[1:])


def formula(peak_bytes, shape, limit):
    """The authors' side of a cube: 0.8 of the memory limit over the peak for each cell."""
    return int((0.8 * limit / (peak_bytes / math.prod(shape))) ** (1 / 3))


def authors(shape, limit, workers):
    """Cubes whose peak is 0.8 of the memory limit, lowered until they divide every axis."""
    side = min(formula(PUBLISHED_BYTES, PUBLISHED_SHAPE, limit), *shape)
    common = math.gcd(*shape)
    return (max(each for each in range(1, side + 1) if common % each == 0),) * 3


WAYS = {"auto": auto, "even": even, "authors": authors}
