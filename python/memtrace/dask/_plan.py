"""Chunks for one operator on the workers that there are."""

import math
from functools import partial
from typing import NamedTuple, Optional

from .. import _sizes
from ._halo import block_shape, depth_of, most, whole_axes_of, without_padding
from ._laws import Operator
from ._stored import lengths_of, readable, source_of, storage_bytes, storage_chunks_of
from ._workers import current_client, workers_of

OBJECTIVES = ("time", "memory", "tasks")
SOURCES = ("dask", "storage", "waves")
#: What is kept free is found to so many bytes.
LEAST_SPARE = 500_000


class Plan(NamedTuple):
    """Chunks, and what they are foretold to need. Bytes and seconds."""

    operator: str
    chunks: tuple  # of tuples: ready for x.rechunk(plan.chunks)
    depth: dict  # axis -> cells (or (before, after)) that a chunk needs from its neighbours
    why: str
    worker_peak: int  # of a process: what it held before, its tasks, what it holds for others
    task_bytes: int  # of one task: its block with halo, and all that it allocates
    budget: int  # what a process may use
    seconds: "Optional[float]"
    tasks: int
    workers: int
    threads: int  # of each
    source: str  # "storage": tasks read their own block with halo; "dask": chunks are shared
    pareto: tuple = ()  # of dicts: chunk_shape, tasks, predicted_worker_bytes, predicted_seconds
    device_peak: "Optional[int]" = None  # of the GPU that each worker has to itself
    device_limit: "Optional[int]" = None
    bound_by: "Optional[str]" = None  # "memory" or "device_memory": what keeps faster chunks out

    @property
    def chunk_shape(self):
        """The largest chunk."""
        return tuple(max(lengths) for lengths in self.chunks)

    @property
    def block_shape(self):
        """The largest chunk with its halo: the shape that the operator is called with."""
        return block_shape(self.chunk_shape, tuple(map(sum, self.chunks)), self.depth)

    def __repr__(self):
        chunk = "×".join(map(str, self.chunk_shape))
        device = ""
        if self.device_peak is not None:
            used, limit = _sizes.text(self.device_peak), _sizes.text(self.device_limit)
            device = f", {used} of its device's {limit}"
        return (
            f"Plan: {self.operator} in {self.tasks} chunks of {chunk}; "
            f"{_sizes.text(self.worker_peak)} of the {_sizes.text(self.budget)} that each of "
            f"{self.workers} workers × {self.threads} threads may use{device}, "
            f"{_sizes.text(self.task_bytes)} per task, {self.seconds:.3g} s\n{self.why}"
        )


def recommend(
    x,
    operator,
    model,
    client=None,
    *,
    depth=0,
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
    """Chunks of `x` that let the workers of a cluster run an operator within their memory: a
    `Plan`.

    x: a Dask array, or an array in storage (anything with shape, dtype and __getitem__).
    operator: its name in the model, or the function itself. client: of the cluster; limits, threads
    and number of workers are asked of it, and what a worker holds before the first task is measured
    (a function is called once on a tiny block in each for that). Without one (none given, none
    current) say memory_limit, workers (1) and threads (1). memory_limit: of one worker, bytes or a
    text like "1.5 GB". device_memory_limit: of the GPU that each worker has to itself (Dask-CUDA
    gives each one); chunks then fit both, where the law knows device memory. workers: how many, or
    "auto". depth: as for `da.map_overlap`. minimise: "time", "memory" or "tasks". baseline_bytes:
    what a worker holds before its first task, instead of measuring it. whole_axes: axes to leave in
    one chunk. storage_chunks: lengths of the store's chunks, which chunks are aligned to (default:
    those of an array in storage). source: "dask" for `x.rechunk(plan.chunks)` and `da.map_overlap`,
    whose tasks share chunks; "storage" for tasks that read their own block, as
    `memtrace.dask.map_overlap` does (default: "dask" for a Dask array). Parameters of the operator
    choose among its laws.

    MemoryError: nothing fits; it names the smallest limit that would. ValueError: no such law.
    """
    source = source or ("dask" if hasattr(x, "__dask_graph__") else "storage")
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, not {source!r}")
    depths = depth_of(x, depth)
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
        beside=None if stored is None else partial(fetching, readable(stored)),
        auto=workers == "auto",
    )


def find_workers(law, x, depths, client, memory_limit, workers, threads, baseline, here=False):
    """The workers, warmed by the operator itself where that is at hand."""
    client = current_client(client)
    asked = baseline is None and (client is not None or here)
    warm = law.on_a_tiny_block(x, depths) if asked else None
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
    beside=None,
    auto=False,
    padding=None,
    aligned=False,
):
    """The plan for these workers. beside: bytes that moving a chunk and its block takes for a
    moment. padding: cells that a boundary adds to the array along each axis. aligned: only whole
    chunks of the store will do."""
    if minimise not in OBJECTIVES:
        raise ValueError(f"minimise must be one of {', '.join(OBJECTIVES)}, not {minimise!r}")
    if device_memory_limit is not None:
        device_memory_limit = _sizes.parse(device_memory_limit)
    asked = {
        "device_memory_limit": device_memory_limit,
        "whole_axes": whole_axes_of(x.shape, whole_axes),
        "source": source,
        "storage_chunks": lengths_of(storage_chunks, x.shape),
        "aligned": aligned,
    }
    padding = padding or (0,) * len(x.shape)
    ask = partial(_asked, law, x, workers, depths, padding, auto, **asked)
    answer = _settled(partial(ask, minimise=minimise), beside, x, depths)
    chunks = without_padding(answer["chunks"], x.shape, padding, depths)
    return _plan_of(law, answer, chunks, depths)


def _asked(law, x, workers, depths, padding, auto, **asked):
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
        **asked,
        **law.params,
    )


def _settled(ask, beside, x, depths):
    """A recommendation that has room for what coming by its own blocks takes for a moment.

    Larger blocks take more, so what is kept free for it grows with them; where nothing fits any
    more, less is kept free: then blocks are smaller, and may need no more than that.
    """
    low, high, spare, refusal = 0, None, 0, None
    while True:
        try:
            answer = ask(spare_bytes=spare)
        except MemoryError as error:
            if not spare:
                raise
            high, refusal = spare, error
        else:
            if beside is None:
                return answer
            block = block_shape(answer["chunk_shape"], x.shape, depths)
            used = math.prod(block) * x.dtype.itemsize + spare
            needed = beside(answer["chunk_shape"], block)
            short = needed - (answer["predicted_task_bytes"] - used)
            if short <= spare:
                return answer
            low = spare
            spare = short
        if high is not None:
            if high - low < LEAST_SPARE:
                raise refusal
            spare = spare if low < spare < high else (low + high) // 2


def fetching(source, chunk, block):
    """What reading a block holds for a moment."""
    return storage_bytes(source, block)


def _plan_of(law, answer, chunks, depths):
    device = answer.get("device", {})
    return Plan(
        operator=law.name,
        chunks=tuple(map(tuple, chunks)),
        depth=depths,
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
