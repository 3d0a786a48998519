"""Operators on Dask arrays, chunk by chunk, with the same bits as on the whole volume."""

import importlib

import dask.array as da
import numpy as np


def load(volume, chunks):
    """A `SegyVolume` as a Dask array: each chunk is read by its own task."""

    def read(block_info):
        return volume.read(tuple(slice(*b) for b in block_info[None]["array-location"]))

    return da.map_blocks(
        read,
        chunks=da.core.normalize_chunks(chunks, volume.shape, dtype=np.float32),
        dtype=np.float32,
        meta=_nothing(3),
    )


def apply(name, volume):
    """`operators.NAME` on every chunk plus its halo, trimmed to the chunk's own cells.

    ValueError where an axis is split that must stay whole, or a chunk is smaller than the halo.
    """
    operator = importlib.import_module(f"operators.{name}")
    for axis in operator.WHOLE_AXES:
        if volume.numblocks[axis] > 1:
            raise ValueError(f"{name} needs axis {axis} in one chunk")
    for axis, halo in enumerate(operator.HALO):
        if volume.numblocks[axis] > 1 and min(volume.chunks[axis]) < halo:
            raise ValueError(f"{name} needs chunks of at least {halo} cells along axis {axis}")
    # Chunks at the volume's faces get no halo there: the operator reflects at a face itself.
    return da.map_overlap(
        _on_chunk,
        volume,
        depth=tuple(
            halo if count > 1 else 0
            for halo, count in zip(operator.HALO, volume.numblocks, strict=True)
        ),
        boundary="none",
        trim=False,
        allow_rechunk=False,
        operator=getattr(operator, name),
        excess=tuple(halo - operator.MARGIN if halo else 0 for halo in operator.HALO),
        **_result_layout(operator, volume),
    )


def _on_chunk(block, operator, excess, block_info):
    """The operator's result without the cells that belong to neighbours."""
    grid = block_info[0]
    own = [
        slice(cells if position > 0 else 0, -cells if cells and position < count - 1 else None)
        for cells, position, count in zip(
            excess, grid["chunk-location"], grid["num-chunks"], strict=True
        )
    ]
    return operator(block)[(..., *own)]


def _result_layout(operator, volume):
    """What `map_overlap` must be given about the result: its axes, chunks and dtype."""
    chunks = [list(sizes) for sizes in volume.chunks]
    for sizes in chunks:
        sizes[0] -= operator.MARGIN
        sizes[-1] -= operator.MARGIN
    layout = {"dtype": np.float32, "chunks": tuple(map(tuple, chunks)), "meta": _nothing(3)}
    if operator.COMPONENTS:
        layout["chunks"] = ((operator.COMPONENTS,), *layout["chunks"])
        layout["new_axis"] = 0
        layout["meta"] = _nothing(4)
    return layout


def _nothing(ndim):
    """An empty array that tells Dask type and rank, so that it need not try the function."""
    return np.empty((0,) * ndim, np.float32)
