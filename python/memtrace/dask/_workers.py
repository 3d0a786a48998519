"""What the processes that run tasks may use, and their baseline before the first one."""

import os
from contextlib import suppress
from typing import NamedTuple, Optional

from .._planning import sizes

#: What Dask leaves in a worker while it runs tasks: 2–4 MB measured, doubled
#: (docs/results/chunks.md).
FRAMEWORK_BYTES = 8_000_000


class Workers(NamedTuple):
    """The processes of a cluster, as far as a plan needs them. Bytes are of one process."""

    number: int
    threads: int
    memory_limit: int
    budget_fraction: float
    baseline_bytes: "Optional[int]" = None  # None: not measured
    warmed: bool = False  # the baseline was measured after the operator had been called in each
    declared: "Optional[tuple]" = None  # least and most of the `memory` resource that each has

    @property
    def slots(self):
        """Tasks that run at once."""
        return self.number * self.threads

    @property
    def budget(self):
        """The part of the memory limit that a process may use."""
        return int(self.memory_limit * self.budget_fraction)

    def task_budget(self):
        """What one task may take when a process runs as many as it has threads."""
        taken = (self.baseline_bytes or 0) + FRAMEWORK_BYTES
        own = max(0, self.budget - taken) // self.threads
        return own if self.declared is None else min(own, self.declared[0])

    def must_take(self, needed, what):
        """MemoryError: no worker has declared as much, so that a task would wait for ever."""
        if self.declared is not None and needed > self.declared[1]:
            raise MemoryError(
                f"{what} needs {sizes.text(needed)}, but no worker has declared more than "
                f"{sizes.text(self.declared[1])} of memory: give a lower memory_limit, or declare "
                "the workers' memory again"
            )


def status_bytes(field):
    """`VmRSS`, `VmHWM`, … of this process, in bytes (Linux)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {field}")


def current_client(client=None):
    """The client that is meant: the one given, the current one, or None.

    ValueError: it is one of an event loop.
    """
    if client is None:
        try:
            from distributed import get_client

            client = get_client()
        except (ImportError, ValueError):
            return None
    if getattr(client, "asynchronous", False):
        raise ValueError(
            "an asynchronous client cannot be waited for: give one made with asynchronous=False, "
            "or call this in a thread of its own with one"
        )
    return client


def workers_of(
    client,
    *,
    warm=None,
    memory_limit=None,
    workers=None,
    threads=None,
    baseline=None,
    here=False,
):
    """The workers of a client; without one those of a future cluster. Given values win.

    warm: called in each worker, one time per thread, before its baseline is measured.
    here: without a client, this process runs the tasks and may use all of the limit.
    ValueError: no memory limit is known, or a number is below 1.
    """
    for name, number in (("workers", workers), ("threads", threads)):
        if number is not None and not (isinstance(number, int) and number >= 1):
            raise ValueError(f"{name} must be a whole number of at least 1, not {number!r}")
    limit = None if memory_limit is None else sizes.parse(memory_limit)
    if client is None:
        if limit is None:
            raise ValueError("say memory_limit=, or give the client of a cluster")
        found = Workers(workers or 1, threads or 1, limit, 1.0 if here else _configured_fraction())
        if here:
            warmed = _warmed(warm, found.threads)
            found = found._replace(baseline_bytes=status_bytes("VmRSS"), warmed=warmed)
    else:
        found = _of_cluster(client, warm, limit)
    if baseline is not None:
        baseline = sizes.parse(baseline)
        found = found._replace(warmed=False)
    given = {"number": workers, "threads": threads, "baseline_bytes": baseline}
    return found._replace(**{name: each for name, each in given.items() if each is not None})


def _of_cluster(client, warm, limit):
    facts = list(client.run(facts_of_worker, warm).values())
    if not facts:
        raise ValueError("the cluster has no workers yet: wait for them (client.wait_for_workers)")
    # Workers of one process (LocalCluster(processes=False)) share its memory.
    processes = {}
    for fact in facts:
        processes.setdefault(fact["process"], []).append(fact)
    if limit is None:
        limit = min(fact["memory_limit"] for fact in facts)
    return Workers(
        number=len(processes),
        threads=max(sum(fact["threads"] for fact in own) for own in processes.values()),
        memory_limit=limit,
        budget_fraction=min(fact["budget_fraction"] for fact in facts),
        baseline_bytes=max(fact["resident_bytes"] for fact in facts),
        warmed=all(fact["warmed"] for fact in facts),
        declared=_span([fact["resources"].get("memory") for fact in facts]),
    )


def _span(declared):
    return None if None in declared else (int(min(declared)), int(max(declared)))


def facts_of_worker(warm=None, dask_worker=None):
    """Runs in a worker. Its baseline is that of one that has imported what tasks on arrays do."""
    import socket

    from distributed.system import MEMORY_LIMIT

    with suppress(ImportError):  # without NumPy
        import dask.array  # noqa: F401
    threads = dask_worker.state.nthreads
    warmed = _warmed(warm, threads)
    return {
        "process": (socket.gethostname(), os.getpid()),
        "threads": threads,
        "memory_limit": int(dask_worker.memory_manager.memory_limit or MEMORY_LIMIT),
        "budget_fraction": fraction_of_worker(dask_worker),
        "warmed": warmed,
        "resident_bytes": status_bytes("VmRSS"),
        "resources": dict(dask_worker.state.total_resources),
    }


def fraction_of_worker(dask_worker=None):
    """Runs in a worker: the part of its limit that it may use."""
    manager = dask_worker.memory_manager
    return _fraction((manager.memory_spill_fraction, manager.memory_pause_fraction))


def _warmed(warm, threads):
    """Calls an operator: BLAS has buffers for each thread that is in it at one time, so all are.
    False if it raises for a tiny block: then it stays cold."""
    from concurrent.futures import ThreadPoolExecutor

    if warm is None:
        return False
    with ThreadPoolExecutor(threads) as pool:
        calls = [pool.submit(warm) for _ in range(threads)]
        return all([call.exception() is None for call in calls])


def _configured_fraction():
    """Of the limit, what workers of this configuration may use; Dask's own default without it."""
    try:
        import distributed  # noqa: F401  (its settings are known once it is imported)
    except ImportError:
        return 0.7
    from dask import config

    where = "distributed.worker.memory."
    return _fraction([config.get(where + name) for name in ("spill", "pause")])


def _fraction(parts):
    """The lowest enabled of spill and pause (docs/planning.md)."""
    return min((float(part) for part in parts if part and 0 < part <= 1), default=1.0)
