"""Region by region into a store, with a bounded number of blocks in flight."""

import math
import time
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Optional

import numpy as np

from .._planning import sizes
from ._halo import most
from ._plan import Plan
from ._stored import (
    can_be_written_by_workers,
    lengths_of,
    place_of,
    read,
    readable,
    source_of,
    storage_chunks_of,
    write,
)
from ._task import compute_block


class Block(NamedTuple):
    """One finished block. Bytes are of the process that ran it.

    Attributes:
        region: Slices of the store.
        at: Seconds after the beginning when it was finished.
        seconds: How long it took.
        worker: Address of the worker, or the process.
        peak_bytes: The most that its process ever had resident until then (VmHWM).
        bytes: Of its process above its baseline, if it ran by itself.
    """

    region: tuple
    at: float
    seconds: float
    worker: str
    peak_bytes: int
    bytes: "Optional[int]" = None


class Written(NamedTuple):
    """A filled store.

    Attributes:
        blocks: A `Block` for each, in the order in which they were finished.
        seconds: How long all took.
        plan: The plan; None where chunks were learned on the way.
    """

    blocks: list
    seconds: float
    plan: "Optional[Plan]" = None

    @property
    def peaks(self):
        """Resident peak of each worker, in bytes (VmHWM), by its address."""
        found = {}
        for block in self.blocks:
            found[block.worker] = max(block.peak_bytes, found.get(block.worker, 0))
        return found

    def __repr__(self):
        most = sizes.text(max(self.peaks.values(), default=0))
        return f"Written: {len(self.blocks)} blocks in {self.seconds:.3g} s, a worker's peak {most}"


class Job(NamedTuple):
    """An operator over an array, into a store."""

    call: Any  # the operator, of one array
    x: Any
    source: Any  # the array in storage that x is, or None
    depths: dict
    store: Any
    client: Any

    @classmethod
    def of(cls, function, keywords, x, depths, store, client):
        if not (hasattr(store, "shape") and hasattr(store, "__setitem__")):
            raise TypeError(
                f"the store must be an array that takes regions (zarr, memmap, HDF5), not {store!r}"
            )
        if tuple(store.shape) != tuple(x.shape):
            raise ValueError(f"the store is of shape {store.shape}, the array {x.shape}")
        in_memory = isinstance(store, np.ndarray) and not can_be_written_by_workers(store)
        if client is not None and in_memory:
            raise ValueError(
                "workers cannot write into this process's memory: give a memmap, or a zarr array"
            )
        source = source_of(x)
        if any(map(most, depths.values())) and source is not None:
            place = place_of(source)
            if place is not None and place == place_of(readable(store)):
                raise ValueError(
                    "the store is the array itself: blocks would read cells of neighbours that "
                    "others have written over; give another store"
                )
        if source is None and not hasattr(x, "__dask_graph__"):
            import dask.array as da

            x = da.from_array(x)
        call = partial(function, **keywords) if keywords else function
        return cls(call, x, source, depths, readable(store), client)

    def alignment(self, wanted=None):
        """Regions begin at multiples of these: the store's chunks, or what is wanted."""
        own = storage_chunks_of(self.store)
        wanted = lengths_of(wanted, self.store.shape)
        if own is None:
            return wanted or (None if self.source is None else storage_chunks_of(self.source))
        if wanted is not None and any(a % b for a, b in zip(wanted, own)):
            raise ValueError(f"storage_chunks {wanted} are no multiples of the store's, {own}")
        return wanted or own

    def task(self, region, measure=False):
        """The call that computes a region, as (function, arguments, what it waits for)."""
        outer = self.with_halo(region)
        own = tuple(
            slice(cut.start - wide.start, cut.stop - wide.start) for cut, wide in zip(region, outer)
        )
        by_worker = self.client is None or can_be_written_by_workers(self.store)
        target = (self.store, region) if by_worker else None
        if self.source is not None:
            fetch = partial(read, self.source, outer)
        else:
            fetch = part_of(self.x, outer, self.client)
        shape = tuple(cut.stop - cut.start for cut in outer)
        return compute_block, (fetch, self.call, shape, own, target, self.store.dtype, measure)

    def with_halo(self, region):
        """The region and what it needs of its neighbours."""
        sides = [each if isinstance(each, tuple) else (each, each) for each in self.depths.values()]
        return tuple(
            slice(max(0, cut.start - before), min(n, cut.stop + after))
            for cut, (before, after), n in zip(region, sides, self.x.shape)
        )

    def finished(self, region, at, answer):
        """Takes in what a task returned."""
        block, rest = answer
        if block is not None:
            write(self.store, region, block)
        return Block(region, at, **rest)


def part_of(x, region, client):
    """A region of a Dask array as a call that computes it, or as a future of what is on workers."""
    import dask
    from dask.core import flatten

    part = x[region]
    part = part.rechunk(-1) if part.npartitions > 1 else part
    if client is not None and _on_workers(x):
        return client.compute(part)
    (part,) = dask.optimize(part)
    [key] = flatten(part.__dask_keys__())
    return partial(dask.get, dict(part.__dask_graph__()), key)


def _on_workers(x):
    """True of what was persisted: its graph has futures."""
    from distributed import Future

    layers = getattr(x.dask, "layers", {"": x.dask}).values()
    return any(
        isinstance(value, Future)
        for layer in layers
        if getattr(layer, "is_materialized", lambda: True)()
        for value in layer.values()
    )


def gathered_bytes(x, block, model):
    """Bytes that a task takes to gather a block of a Dask array, next to the block itself."""
    from .._planning.plan import plan

    region = tuple(slice(0, n) for n in block)
    try:
        return plan(model, x[region].rechunk(-1))["upper_bytes"]
    except (
        AttributeError,
        ValueError,
    ):  # no laws for what makes them: at least the pieces are there
        cells = math.prod(
            sum(length for length, end in zip(lengths, np.cumsum(lengths)) if end - length < n)
            for lengths, n in zip(x.chunks, block)
        )
        return cells * x.dtype.itemsize


def run_in_waves(job, workers, plan, in_flight):
    """All blocks of a plan."""
    starts = [np.cumsum((0, *lengths)).tolist() for lengths in plan.chunks]
    regions = (
        tuple(slice(axis[at], axis[at + 1]) for axis, at in zip(starts, place))
        for place in product(*(range(len(lengths)) for lengths in plan.chunks))
    )
    needs = _needs(workers, plan.task_bytes)
    blocks = []
    with Flight(job, in_flight, workers.slots) as flight:
        for region in regions:
            if flight.is_full():
                blocks.append(flight.landed())
            flight.submit(region, needs)
        while flight.running:
            blocks.append(flight.landed())
        return Written(blocks, flight.seconds, plan)


def _needs(workers, task_bytes):
    """What a task takes of a worker's declared memory."""
    workers.must_take(task_bytes, "a block")
    return None if workers.declared is None else {"memory": task_bytes}


class Flight:
    """Blocks that are being computed: on a cluster, or in threads of this process."""

    def __init__(self, job, most, slots):
        """most: in flight at a time, by default as many as run at a time: slots."""
        if most is not None and most < 1:
            raise ValueError(f"in_flight must be at least 1, not {most}")
        self.job, self.most, self.slots, self.running = job, most or slots, slots, {}
        self.start = time.perf_counter()

    @property
    def seconds(self):
        """Since the first block."""
        return time.perf_counter() - self.start

    def __enter__(self):
        if self.job.client is None:
            from concurrent.futures import ThreadPoolExecutor, wait

            self.pool, self.wait = ThreadPoolExecutor(self.slots), wait
        else:
            from distributed import wait

            self.pool, self.wait = None, wait
        return self

    def __exit__(self, *error):
        for future in self.running:
            future.cancel()
        if self.pool is not None:
            self.pool.shutdown()

    def is_full(self):
        return len(self.running) >= self.most

    def submit(self, region, needs=None, measure=False):
        function, arguments = self.job.task(region, measure)
        if self.pool is not None:
            future = self.pool.submit(function, *arguments)
        else:
            name = getattr(self.job.call, "__name__", "block")
            key = f"{name}-region-{'-'.join(str(cut.start) for cut in region)}-{time.time_ns():x}"
            future = self.job.client.submit(
                function, *arguments, key=key, pure=False, resources=needs
            )
        self.running[future] = region

    def landed(self):
        """Waits for one and returns its `Block`. MemoryError: a worker was killed."""
        future, region = self.next()
        return self.job.finished(region, self.seconds, outcome(future))

    def next(self):
        done = self.wait(list(self.running), return_when="FIRST_COMPLETED").done
        future = next(iter(done))
        return future, self.running.pop(future)


def outcome(future):
    """What a task returned. MemoryError: it needed more memory than its worker has."""
    try:
        return future.result()
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise MemoryError("a worker was killed for its memory while it ran a block") from error
