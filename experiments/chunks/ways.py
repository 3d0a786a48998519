"""Ways to choose chunks, each from what it looks at."""

import math

from dask.array.core import normalize_chunks

GIB = 1 << 30
#: Peak of the authors' GST3D at 200×200×200, mean of three runs (their published table).
PUBLISHED_BYTES_PER_CELL = 1.8933512369791667 * GIB / 200**3


def auto(shape, limit, workers):
    """Dask's choice: 128 MiB a chunk, whatever runs on it."""
    chunks = normalize_chunks("auto", shape, dtype="f4")
    return tuple(max(axis) for axis in chunks)


def even(shape, limit, workers):
    """One slab of the first axis for each worker."""
    return (-(-shape[0] // workers), *shape[1:])


def authors(shape, limit, workers):
    """Cubes whose peak is 0.8 of the memory limit, lowered until they divide every axis."""
    side = int((0.8 * limit / PUBLISHED_BYTES_PER_CELL) ** (1 / 3))
    side = min(side, *shape)
    common = math.gcd(*shape)
    return (max(each for each in range(1, side + 1) if common % each == 0),) * 3


WAYS = {"auto": auto, "even": even, "authors": authors}
