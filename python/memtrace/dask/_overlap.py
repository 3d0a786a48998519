"""`map_overlap` that picks its chunks, and reads each block with its halo where it is stored."""

import math
from functools import partial

import dask
import dask.array as da
import numpy as np

from .._running.load import model_of
from ._adaptive import run_adaptively
from ._halo import depth_of, padding_of
from ._laws import Operator
from ._plan import fetching, find_workers, planned
from ._stored import read, source_of, storage_bytes, storage_chunks_of
from ._waves import Job, gathered_bytes, run_in_waves
from ._workers import current_client


def map_overlap(
    function,
    x,
    depth,
    model=None,
    *,
    operator=None,
    client=None,
    store=None,
    memory_limit=None,
    device_memory_limit=None,
    workers=None,
    threads=None,
    in_flight=None,
    minimise="time",
    whole_axes=(),
    storage_chunks=None,
    baseline_bytes=None,
    any_version=False,
    params=None,
    boundary="none",
    trim=True,
    dtype=None,
    **kwargs,
):
    """`da.map_overlap(function, x, depth=depth, boundary=boundary)` in chunks that fit the workers.

    The values are those that it has in the plan's chunks, bit for bit. Where `x` is in storage (an
    array with shape, dtype and __getitem__, or a Dask array that is nothing but the chunks of one),
    each task reads its own block with its halo, and workers keep nothing for neighbours; a memmap
    is given as it is.

    With `store` the result is computed now, region by region. Regions are aligned to the store's
    chunks, so that no two tasks write one. This works for any Dask array: what a block needs is
    computed in the block's own task. Without a model, chunks are learned on the way (docs/dask.md).

    Args:
        function: Called with a block and its halo.
        x: A Dask array, or an array in storage.
        depth: Cells from the neighbours, as for `da.map_overlap`.
        model: Has a law for `function`, or for `operator`; a `memtrace.Model` or its file.
        operator: The function's name in the model.
        client: As for `recommend`, like all arguments that are not listed here.
        store: Takes the result: a zarr array, a memmap, an HDF5 dataset or another array that can
            be written by regions.
        in_flight: With `store`: blocks at a time (default: as many as the workers have threads).
        params: Of the law (default: the scalars of `kwargs` that it was recorded with).
        boundary: As for `da.map_overlap`.
        trim: As for `da.map_overlap`.
        dtype: As for `da.map_overlap`.
        **kwargs: `meta`, `new_axis`, `drop_axis`, `chunks` as for `da.map_blocks`, and keywords of
            the function.

    Returns:
        Without `store`, a lazy Dask array whose chunks are the plan's; with `store`, a `Written`.

    Raises:
        MemoryError: Nothing fits.
        ValueError: There is no law, or the store has another shape.
    """
    model = None if model is None else model_of(model)
    depths = depth_of(x, depth)
    call = partial(function, **_of_function(kwargs))
    law = Operator(None, "", None, {}, any_version, call)  # as far as it is known without a model
    if model is not None:
        named = {"params": params, "any_version": any_version, "keywords": kwargs}
        law = Operator.of(operator or function, model, x, **named)._replace(function=call)
    given = (memory_limit, workers, threads, baseline_bytes)
    cut = {
        "minimise": minimise,
        "whole_axes": whole_axes,
        "storage_chunks": storage_chunks,
        "device_memory_limit": device_memory_limit,
    }
    if store is None:
        if model is None:
            raise ValueError(
                "without a model chunks are learned while blocks are stored: give store="
            )
        found = find_workers(law, x, depths, client, *given)
        options = {"boundary": boundary, "trim": trim, "dtype": dtype, **kwargs}
        return _lazy(function, x, law, found, depths, {**cut, "auto": workers == "auto"}, options)
    if workers == "auto":
        raise ValueError(
            "a store is filled now, by the workers there are: workers='auto' is for arrays without "
            "store="
        )
    if boundary != "none" or not trim or {"new_axis", "drop_axis", "chunks"} & set(kwargs):
        raise ValueError("a store takes what has the shape of x: boundary 'none', trimmed")
    client = current_client(client)
    job = Job.of(function, _of_function(kwargs), x, depths, store, client)
    cut["storage_chunks"] = job.alignment(storage_chunks)
    found = find_workers(law, x, depths, client, *given, here=True)
    return _into_store(job, model, law, found, cut, in_flight)


def _into_store(job, model, law, workers, cut, in_flight):
    """Fills the job's store, in chunks of the model or in learned ones."""
    if model is None:
        if cut["device_memory_limit"] is not None:
            raise ValueError("device_memory_limit needs a model: chunks are learned by host memory")
        return run_adaptively(job, workers, cut["whole_axes"], cut["storage_chunks"], in_flight)
    # Two tasks that write one chunk of a store would undo what the other wrote.
    cut["aligned"] = storage_chunks_of(job.store) is not None
    transfer = partial(_transfer_bytes, job, model)
    plan = planned(law, job.x, workers, job.depths, source="storage", transfer=transfer, **cut)
    return run_in_waves(job, workers, plan, in_flight)


def _of_function(kwargs):
    """The keywords that are for the function, not for `da.map_blocks`."""
    ours = ("meta", "new_axis", "drop_axis", "chunks", "name", "token", "enforce_ndim")
    return {name: value for name, value in kwargs.items() if name not in ours}


def _transfer_bytes(job, model, chunk, block):
    """Buffers of fetching a block, or of storing it, in bytes."""
    fetched = (
        storage_bytes(job.source, block)
        if job.source is not None
        else gathered_bytes(job.x, block, model)
    )
    stored = storage_bytes(job.store, chunk, aligned=True)
    if job.store.dtype != job.x.dtype:  # the result as the store has it, in addition to the result
        stored += math.prod(chunk) * job.store.dtype.itemsize
    return max(fetched, stored)


def _lazy(function, x, law, workers, depths, cut, options):
    """A Dask array of the plan's chunks."""
    padding = padding_of(x.shape, depths, options["boundary"])
    source = None if any(padding) else source_of(x)
    if source is None:
        plan = planned(law, x, workers, depths, source="dask", padding=padding, **cut)
        whole = x.rechunk(plan.chunks) if hasattr(x, "dask") else da.from_array(x, plan.chunks)
        return da.map_overlap(function, whole, depth=depths, allow_rechunk=False, **options)
    if cut["storage_chunks"] is None:
        cut["storage_chunks"] = storage_chunks_of(source)
    transfer = partial(fetching, source)
    plan = planned(law, x, workers, depths, source="storage", transfer=transfer, **cut)
    del options["boundary"]
    trim = options.pop("trim")
    if not trim:
        options.setdefault("chunks", plan.chunks)
    result = da.map_blocks(function, blocks_of(source, plan.chunks, depths), **options)
    return trimmed(result, depths, options) if trim else result


def blocks_of(source, chunks, depths):
    """An array in storage as a Dask array of chunks with their halos, each read by a task of its
    own."""
    cuts = [reaches(lengths, depths[axis]) for axis, lengths in enumerate(chunks)]
    return da.map_blocks(
        _read_block,
        source,
        cuts,
        chunks=tuple(tuple(stop - start for start, stop in own) for own in cuts),
        dtype=source.dtype,
        meta=np.empty((0,) * len(chunks), source.dtype),
        name="read-" + dask.base.tokenize(source, chunks, depths),
    )


def _read_block(source, cuts, block_id=None):
    return read(source, tuple(slice(*own[at]) for own, at in zip(cuts, block_id)))


def reaches(lengths, depth):
    """Where each chunk along an axis begins and ends with its halo; at the array's faces there is
    none."""
    before, after = depth if isinstance(depth, tuple) else (depth, depth)
    stops = np.cumsum(lengths).tolist()
    starts = [stop - length for stop, length in zip(stops, lengths)]
    return [
        (max(0, start - before), min(stops[-1], stop + after)) for start, stop in zip(starts, stops)
    ]


def trimmed(result, depths, options):
    """The result without halos; axes that the function drops or adds have none."""
    from dask.array.overlap import trim_internal

    dropped = _axes(options.get("drop_axis"), len(depths))
    added = _axes(options.get("new_axis"), result.ndim)
    kept = [depths[axis] for axis in sorted(depths) if axis not in dropped]
    for axis in sorted(added):
        kept.insert(axis, 0)
    return trim_internal(result, dict(enumerate(kept)), boundary="none")


def _axes(axes, ndim):
    if axes is None:
        return set()
    return {axis % ndim for axis in (axes if isinstance(axes, (list, tuple)) else [axes])}
