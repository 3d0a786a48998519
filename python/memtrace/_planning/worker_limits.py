"""Limits of a Dask client's workers, for modules that work without Dask."""

import sys
from contextlib import suppress
from functools import partial
from importlib import import_module


def limits(client, modules=None):
    """What a plan needs to know of a client's workers, as `memtrace.plan` takes it.

    modules: those that tasks need. Workers import them, and their resident size then is the
    baseline. Without `modules` there is no baseline: before the first task a worker has imported
    nothing.
    """
    from ..dask._workers import workers_of

    found = workers_of(client, warm=None if modules is None else partial(_imported, modules))
    known = {
        "workers": found.number,
        "threads": found.threads,
        "memory_limit": found.memory_limit,
        "budget_fraction": found.budget_fraction,
    }
    return known if modules is None else {**known, "baseline_bytes": found.baseline_bytes}


def of_this_process(modules, memory_limit, workers=1, threads=None):
    """`limits` where this process runs the tasks, in threads of Dask's: it may use all memory."""
    import dask
    from dask.system import CPU_COUNT

    from ..dask._workers import workers_of

    threads = threads or dask.config.get("num_workers", None) or CPU_COUNT
    warm, number = partial(_imported, modules), {"workers": workers, "threads": threads}
    found = workers_of(None, warm=warm, memory_limit=memory_limit, here=True, **number)
    fraction = {"budget_fraction": found.budget_fraction, "baseline_bytes": found.baseline_bytes}
    return {**number, **fraction, "memory_limit": found.memory_limit}


def _imported(modules):
    """Runs in a worker. One that lacks a module will say so when a task needs it."""
    for name in ("dask.array", *modules):
        with suppress(ImportError):
            import_module(name)


def of_current_client():
    """`limits` of the client that this program uses now; nothing where there is none."""
    if "distributed" not in sys.modules:  # a program with a client has imported it
        return {}
    from ..dask._workers import current_client

    client = current_client()
    return {} if client is None else limits(client)


def rechunking_bytes():
    """What a worker keeps in memory of an array on its way from blocks to others."""
    import dask

    names = ("distributed.p2p.storage.buffer", "distributed.p2p.comm.buffer")
    sizes = (dask.config.get(name, None) for name in names)
    return sum(dask.utils.parse_bytes(size) for size in sizes if size)
