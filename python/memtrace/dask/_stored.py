"""Arrays in storage: what lies below a Dask array, reading a region, writing one.

A task that reads its own block needs no neighbour, so a worker keeps nothing for any
(docs/planning.md).
"""

import math
import mmap
import os
from numbers import Integral

import numpy as np

#: Chunks that zarr reads and decodes at a time (its `async.concurrency`).
ZARR_AT_ONCE = 10
#: Mapped pages of a file count as resident: this many bytes are touched before they are released.
MAPPED_BYTES = 8_000_000
#: A page fault maps this much of a file around it (fault_around_bytes of Linux), on both sides.
FAULT_BYTES = 2 << 16


#: Stores of zarr that only one process can write: `zarr.storage` of 3 and 2.
IN_ONE_PROCESS = (
    "MemoryStore",
    "GpuMemoryStore",
    "ManagedMemoryStore",
    "ZipStore",
    "KVStore",
    "dict",
)


def source_of(x):
    """The array in storage that `x` is, or is nothing but the chunks of; None if it is neither."""
    if not hasattr(x, "__dask_graph__"):
        return None if isinstance(x, np.ndarray) and not _is_file(x) else readable(x)
    array = _below(x)
    return None if array is None else readable(array)


def readable(array):
    """An array as tasks can carry it: a memmap would be pickled with all its data."""
    return MappedFile.of(array) if _is_file(array) else array


def _below(x):
    """What `from_array` or `from_zarr` made chunks of. Cutting them anew changes no value."""
    layers = getattr(x.dask, "layers", None)
    if layers is None:
        return None
    names = [name for name in layers if not name.startswith(("rechunk-", "original-"))]
    if len(names) != 1:
        return None
    return _read_by(layers, names[0])


def _read_by(layers, name):
    """The one array that all tasks of a layer take their own chunk from."""
    layer = layers[name]
    key = next((key for key in layer if isinstance(key, tuple) and key[0] == name), None)
    if key is None:
        return None
    task = layer[key]
    function = getattr(getattr(task, "func", None), "__name__", "")
    if function not in ("getter", "getter_nofancy", "getter_inline"):
        return None
    array, _, *rest = task.args
    if task.kwargs.get("lock") or len(rest) > 1:
        return None  # reads take turns by a lock: leave them to Dask
    array = getattr(array, "value", array)
    if hasattr(array, "key"):
        original = layers.get(array.key)
        array = None if original is None else original[array.key]
        array = getattr(array, "value", array)
    if not (hasattr(array, "shape") and hasattr(array, "dtype")):
        return None
    return None if isinstance(array, np.ndarray) and not _is_file(array) else array


def storage_chunks_of(array):
    """Lengths of the pieces that an array is stored in, one per axis; None if it has none."""
    for name in ("shards", "chunks"):
        lengths = getattr(array, name, None)
        if lengths and all(isinstance(length, int) for length in lengths):
            return tuple(lengths)
    return None


def lengths_of(chunks, shape):
    """Chunk lengths that the caller gave for an array of this shape; None if there are none.

    ValueError: they are not one for each axis.
    """
    if chunks is None:
        return None
    plain = isinstance(chunks, (list, tuple)) and all(isinstance(n, Integral) for n in chunks)
    if not plain or len(chunks) != len(shape) or min(chunks, default=1) < 1:
        raise ValueError(
            f"storage_chunks must be one length of at least 1 for each of {len(shape)} axes, not "
            f"{chunks!r}"
        )
    return tuple(map(int, chunks))


def storage_bytes(array, region_shape, aligned=False):
    """Bytes of buffers that reading or writing a region takes, in addition to the region itself.

    aligned: the region consists of whole pieces.
    """
    chunks = storage_chunks_of(array)
    if chunks is None:
        return min(MAPPED_BYTES, math.prod(region_shape) * array.dtype.itemsize)
    pieces = math.prod(
        min(-(-n // c) + (not aligned), -(-whole // c))
        for n, c, whole in zip(region_shape, chunks, array.shape)
    )
    # A piece is in memory as it is stored and as it is decoded.
    return 2 * min(pieces, ZARR_AT_ONCE) * math.prod(chunks) * array.dtype.itemsize


def can_be_written_by_workers(store):
    """True of stores whose regions several processes can write at the same time, and all see."""
    if isinstance(store, np.ndarray):
        return _is_file(store)
    if type(store).__module__.startswith("h5py"):
        return False
    # A worker would fill a copy of zarr's memory, or write into a ZIP file while others do.
    return type(getattr(store, "store", None)).__name__ not in IN_ONE_PROCESS


def place_of(array):
    """Where an array in storage lies, the same wherever it is opened; None if that is not known."""
    if isinstance(array, MappedFile):
        return os.path.realpath(array.path)
    file = getattr(array, "file", None)  # of h5py
    if hasattr(file, "filename"):
        return os.path.realpath(file.filename), array.name
    store = getattr(array, "store", None)  # of zarr
    return None if store is None else (str(getattr(store, "path", store)), array.path)


def read(array, region):
    """A region as an array of its own."""
    return np.asarray(array[region])


def write(array, region, block):
    """Stores a region."""
    array[region] = block


def _is_file(array):
    """True of a memmap that is a file's content from its beginning or an offset, not a part of
    another, nor a copy in memory of what was written to it (mode "c")."""
    return (
        isinstance(array, np.memmap)
        and isinstance(array.base, mmap.mmap)
        and array.filename is not None
        and array.mode != "c"
        and (array.flags.c_contiguous or array.flags.f_contiguous)
    )


class MappedFile:
    """A memmap that every process opens for itself, and whose pages it releases as it goes."""

    def __init__(self, path, dtype, shape, offset, order, mode):
        self.path, self.dtype, self.shape = path, dtype, shape
        self.offset, self.order, self.mode = offset, order, mode

    @classmethod
    def of(cls, array):
        order = "C" if array.flags.c_contiguous else "F"
        mode = "r" if array.mode == "r" else "r+"
        path = os.path.abspath(array.filename)
        return cls(path, array.dtype, array.shape, array.offset, order, mode)

    @property
    def ndim(self):
        return len(self.shape)

    def __dask_tokenize__(self):
        status = os.stat(self.path)
        return (*self.__dict__.values(), status.st_mtime_ns, status.st_size)

    def __getitem__(self, region):
        with _Mapping(self) as mapped:
            shape = [len(range(*cut.indices(n))) for cut, n in zip(region, self.shape)]
            block = np.empty(shape, self.dtype)
            for own, cut in mapped.slabs(region):
                block[own] = mapped.array[cut]
                mapped.release()
        return block

    def __setitem__(self, region, block):
        with _Mapping(self) as mapped:
            for own, cut in mapped.slabs(region):
                mapped.array[cut] = block[own]
                mapped.release()


class _Mapping:
    """The file of a `MappedFile`, mapped while a region is copied."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        file = self.file
        self.array = np.memmap(
            file.path, file.dtype, file.mode, file.offset, tuple(file.shape), file.order
        )
        return self

    def __exit__(self, *error):
        self.array = None

    def slabs(self, region):
        """The region in parts of few mapped pages: (where in the block, where in the file).

        It is cut along the axis whose cells are farthest apart in the file, and along the next
        where one step is too much already.
        """
        shape = self.file.shape
        region = [slice(*cut.indices(n)[:2]) for cut, n in zip(region, shape)]
        axes = range(len(shape)) if self.file.order == "C" else reversed(range(len(shape)))
        for part in self._cut(region, list(axes)):
            own = tuple(
                slice(cut.start - whole.start, cut.stop - whole.start)
                for cut, whole in zip(part, region)
            )
            yield own, tuple(part)

    def _cut(self, region, axes):
        """axes: those that may be cut, the slowest first."""
        if not axes:
            yield region
            return
        axis, *faster = axes
        start, stop = region[axis].start, region[axis].stop
        cell, apart = self.file.dtype.itemsize, self._apart(axes)
        span = cell + sum(
            (region[each].stop - region[each].start - 1) * self._apart(faster[at:])
            for at, each in enumerate(faster)
        )
        touched = min(apart, span + FAULT_BYTES)
        step = max(1, MAPPED_BYTES // touched)
        for at in range(start, stop, step):
            part = [*region]
            part[axis] = slice(at, min(stop, at + step))
            yield from self._cut(part, faster if touched > MAPPED_BYTES else [])

    def _apart(self, axes):
        """Bytes in the file from a cell to the next along the first of these axes."""
        return math.prod(self.file.shape[axis] for axis in axes[1:]) * self.file.dtype.itemsize

    def release(self):
        """Unmaps the pages that were copied; they stay in the page cache."""
        self.array.base.madvise(mmap.MADV_DONTNEED)
