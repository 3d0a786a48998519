"""Chunks for one operator on the workers that there are."""

import math
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Optional

import numpy as np

from .._notebook.answers import Plan as Answer
from .._planning import sizes
from ._halo import block_shape, depth_of, most, whole_axes_of, without_padding
from ._laws import Operator
from ._rechunked import held_bytes, lengths_of_chunks
from ._stored import lengths_of, readable, source_of, storage_bytes, storage_chunks_of
from ._workers import current_client, workers_of

OBJECTIVES = ("time", "memory", "tasks")
SOURCES = ("dask", "storage", "waves")
#: Chunks that are joined from a Dask array's own may take this much longer than others, which cut
#: those in pieces: that takes time, too.
JOINED_SECONDS = 1.2
#: More than any worker may use.
NEVER_FITS = 1 << 62
UNCUT = "memtrace.dask.map_overlap reads blocks of an array in storage, which is not cut anew."


class Plan(NamedTuple):
    """Chunks, and what they are predicted to need. Bytes and seconds.

    Attributes:
        operator: The operator's name in the model.
        chunks: Lengths of the chunks along each axis, ready for `x.rechunk(plan.chunks)`.
        halo: Axis -> cells (or (before, after)) that a chunk needs from its neighbours; the
            `depth` of `da.map_overlap`.
        why: What the chunks are bound by, in a sentence.
        worker_peak: Of a process: its baseline, its tasks, and what it keeps for others.
        task_bytes: Of one task: its block with halo, and all that it allocates.
        budget: What a process may use.
        seconds: From submission to result.
        tasks: How many there are.
        workers: How many processes.
        threads: Of each.
        source: "storage": tasks read their own block with halo; "dask": chunks are shared.
        pareto: Other choices, as dicts: chunk_shape, tasks, predicted_worker_bytes,
            predicted_seconds.
        device_peak: Of the GPU that each worker has to itself.
        device_limit: Of that GPU.
        bound_by: "memory" or "device_memory": what excludes faster chunks.
    """

    operator: str
    chunks: tuple
    halo: dict
    why: str
    worker_peak: int
    task_bytes: int
    budget: int
    seconds: "Optional[float]"
    tasks: int
    workers: int
    threads: int
    source: str
    pareto: tuple = ()
    device_peak: "Optional[int]" = None
    device_limit: "Optional[int]" = None
    bound_by: "Optional[str]" = None

    @property
    def chunk_shape(self):
        """The largest chunk."""
        return tuple(max(lengths) for lengths in self.chunks)

    @property
    def block_shape(self):
        """The largest chunk with its halo: the shape that the operator is called with."""
        return block_shape(self.chunk_shape, tuple(map(sum, self.chunks)), self.halo)

    def plot(self, *, ax=None):
        """Draws what a worker holds against its budget, as `memtrace.Plan.plot` does."""
        return self._answer().plot(ax=ax)

    def _answer(self):
        return Answer(
            chunk_shape=self.chunk_shape,
            tasks=self.tasks,
            predicted_task_bytes=self.task_bytes,
            predicted_worker_bytes=self.worker_peak,
            budget_bytes=self.budget,
            workers=self.workers,
            threads_per_worker=self.threads,
            predicted_seconds=self.seconds,
            why=self.why,
            pareto=self.pareto,
        )

    def _repr_html_(self):
        return self._answer()._repr_html_()

    def __repr__(self):
        chunk = "×".join(map(str, self.chunk_shape))
        device = ""
        if self.device_peak is not None:
            used, limit = sizes.text(self.device_peak), sizes.text(self.device_limit)
            device = f", {used} of its device's {limit}"
        return (
            f"Plan: {self.operator} in {self.tasks} chunks of {chunk}; "
            f"{sizes.text(self.worker_peak)} of the {sizes.text(self.budget)} that each of "
            f"{self.workers} workers × {self.threads} threads may use{device}, "
            f"{sizes.text(self.task_bytes)} per task, {self.seconds:.3g} s\n{self.why}"
        )


def recommend(
    x,
    operator,
    model,
    client=None,
    *,
    halo=0,
    memory_limit=None,
    device_memory_limit=None,
    workers=None,
    threads=None,
    minimise="time",
    whole_axes=(),
    storage_chunks=None,
    baseline_bytes=None,
    source=None,
    any_version=False,
    **params,
):
    """Chunks of `x` that let the workers of a cluster run an operator within their memory.

    Limits, threads and number of workers are those of the client's cluster, and a worker's resident
    size before the first task is measured. For that, a function is called one time on a tiny block
    in each worker. Without a client, give memory_limit, workers and threads.

    Args:
        x: A Dask array, or an array in storage (anything with shape, dtype and __getitem__).
        operator: Its name in the model, or the function itself.
        model: A `memtrace.Model`, or its file.
        client: Of the cluster (default: the current one, if there is one).
        halo: Cells from the neighbours, as the `depth` of `da.map_overlap`.
        memory_limit: Of one worker: bytes, or a text like "1.5 GB".
        device_memory_limit: Of the GPU that each worker has to itself (as with Dask-CUDA); chunks
            then fit both, where the law knows device memory.
        workers: How many (default: 1 without a client), or "auto".
        threads: Of each (default: 1 without a client).
        minimise: "time", "memory" or "tasks".
        whole_axes: Axes to leave in one chunk.
        storage_chunks: Lengths of the store's chunks, which chunks are aligned to (default: those
            of an array in storage).
        baseline_bytes: Resident bytes of a worker before its first task, instead of measuring it.
        source: "dask" for `x.rechunk(plan.chunks)` and `da.map_overlap`, whose tasks share chunks;
            "storage" for tasks that read their own block, as `memtrace.dask.map_overlap` does
            (default: "dask" for a Dask array).
        any_version: Also use laws that were recorded with other releases of libraries.
        **params: Parameters of the operator, which choose among its laws.

    Returns:
        The plan.

    Raises:
        MemoryError: Nothing fits; the message names the smallest limit that would.
        ValueError: There is no such law, or an argument is invalid.
    """
    source = source or ("dask" if hasattr(x, "__dask_graph__") else "storage")
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, not {source!r}")
    depths = depth_of(x, halo)
    stored = source_of(x) if source == "storage" else None
    if storage_chunks is None and stored is not None:
        storage_chunks = storage_chunks_of(stored)
    law = Operator.of(operator, model, x, params=params, any_version=any_version)
    return planned(
        law,
        x,
        find_workers(law, x, depths, client, memory_limit, workers, threads, baseline_bytes),
        depths,
        minimise=minimise,
        whole_axes=whole_axes,
        storage_chunks=storage_chunks,
        device_memory_limit=device_memory_limit,
        source=source,
        transfer=None if stored is None else partial(fetching, readable(stored)),
        auto=workers == "auto",
    )


def find_workers(law, x, depths, client, memory_limit, workers, threads, baseline, here=False):
    """The workers, warmed by the operator itself where its function is known."""
    client = current_client(client)
    measured = baseline is None and (client is not None or here)
    warm = law.on_a_tiny_block(x, depths) if measured else None
    return workers_of(
        client,
        warm=warm,
        memory_limit=memory_limit,
        workers=None if workers == "auto" else workers,
        threads=threads,
        baseline=baseline,
        here=here,
    )


def planned(
    law,
    x,
    workers,
    depths,
    *,
    minimise="time",
    whole_axes=(),
    storage_chunks=None,
    device_memory_limit=None,
    source="dask",
    transfer=None,
    auto=False,
    padding=None,
    aligned=False,
):
    """The plan for these workers.

    transfer: gives the bytes of buffers that moving a chunk and its block takes. padding: cells
    that a boundary adds to the array along each axis. aligned: chunks are whole ones of the store.
    """
    if minimise not in OBJECTIVES:
        raise ValueError(f"minimise must be one of {', '.join(OBJECTIVES)}, not {minimise!r}")
    if device_memory_limit is not None:
        device_memory_limit = sizes.parse(device_memory_limit)
    request = {
        "device_memory_limit": device_memory_limit,
        "whole_axes": whole_axes_of(x.shape, whole_axes),
        "source": source,
        "storage_chunks": lengths_of(storage_chunks, x.shape),
        "aligned": aligned,
        "minimise": minimise,
    }
    padding = padding or (0,) * len(x.shape)
    recommended = partial(_recommended, law, x, workers, depths, padding, auto)
    if transfer is not None:
        extra = partial(_to_fetch, transfer, x, depths, workers.threads)
        answer = recommended(extra_bytes=extra, **request)
    elif source == "dask" and isinstance(getattr(x, "_meta", None), np.ndarray):
        extra = partial(_to_cut, law, x, depths, padding, workers.threads)
        answer = _cut_anew(x, partial(recommended, extra_bytes=extra), request)
    else:
        answer = recommended(**request)
    chunks = without_padding(answer["chunks"], x.shape, padding, depths)
    return _plan_of(law, answer, chunks, depths)


def _recommended(law, x, workers, depths, padding, auto, **request):
    """What the model recommends for these workers."""
    return law.model.recommend(
        law.name,
        tuple(n + pad for n, pad in zip(x.shape, padding)),
        workers.memory_limit,
        "auto" if auto else workers.number,
        workers.threads,
        halo=[most(depths[axis]) for axis in range(len(x.shape))],
        dtype=x.dtype.str,
        budget_fraction=workers.budget_fraction,
        baseline_bytes=workers.baseline_bytes,
        warmed=workers.warmed,
        any_version=law.any_version,
        **request,
        **law.params,
    )


def _cut_anew(x, recommended, request):
    """A recommendation for a Dask array that has room for cutting it anew.

    Pieces of chunks that are joined wait for no other new chunk, so that these come first, unless
    they are too large to be fast.
    """
    own = lengths_of_chunks(x)
    joined = None
    if own is not None and request["storage_chunks"] is None and request["minimise"] == "time":
        with suppress(MemoryError):
            joined = recommended(**{**request, "storage_chunks": own, "aligned": True})
    try:
        other = recommended(**request)
    except MemoryError as error:
        if joined is None:
            raise MemoryError(f"{error} {UNCUT}") from None
        return joined
    if joined and joined["predicted_seconds"] <= other["predicted_seconds"] * JOINED_SECONDS:
        return joined
    return other


def _to_fetch(transfer, x, depths, threads, chunks, task_bytes, _frontier_bytes):
    """Buffers of fetching and storing a block, beyond what the operator needs in addition to it."""
    chunk = tuple(map(max, chunks))
    block = block_shape(chunk, x.shape, depths)
    working = task_bytes - math.prod(block) * x.dtype.itemsize
    return threads * max(0, transfer(chunk, block) - working)


def _to_cut(law, x, depths, padding, threads, chunks, task_bytes, frontier_bytes):
    """What the graph that cuts the array anew holds beyond what is counted for shared chunks."""
    try:
        chunks = without_padding(chunks, x.shape, padding, depths)
    except ValueError:  # the array has no such chunks
        return NEVER_FITS
    if chunks == x.chunks:
        return 0
    held = held_bytes(x, chunks, depths, task_bytes, threads, law.model)
    return max(0, math.ceil(held) - threads * task_bytes - frontier_bytes)


def fetching(source, chunk, block):
    """Buffers of reading a block, in bytes."""
    return storage_bytes(source, block)


def _plan_of(law, answer, chunks, depths):
    device = answer.get("device", {})
    return Plan(
        operator=law.name,
        chunks=tuple(map(tuple, chunks)),
        halo=depths,
        why=answer["why"],
        worker_peak=answer["predicted_worker_bytes"],
        task_bytes=answer["predicted_task_bytes"],
        budget=answer["budget_bytes"],
        seconds=answer["predicted_seconds"],
        tasks=math.prod(map(len, chunks)),
        workers=answer["workers"],
        threads=answer["threads_per_worker"],
        source=answer["source"],
        pareto=tuple(answer["pareto"]),
        device_peak=device.get("predicted_worker_bytes"),
        device_limit=device.get("limit_bytes"),
        bound_by=answer["bound_by"],
    )
