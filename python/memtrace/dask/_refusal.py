"""A computation of which some task cannot fit its worker is refused before anything runs."""

import math
from collections import defaultdict
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional

from .._planning import sizes
from .._running.load import model_of
from ._graph import needs_of
from ._laws import Operator
from ._resources import MEMORY
from ._workers import FRAMEWORK_BYTES, Workers, current_client, workers_of


class Checks:
    """What `checked` has checked.

    Attributes:
        computations: How many computations.
        tasks: How many of their tasks have a law.
        unknown: Name of an operator without a law -> number of its tasks.
    """

    def __init__(self):
        self.computations, self.tasks, self.unknown = 0, 0, {}

    def add(self, needs):
        self.computations += 1
        self.tasks += len(needs.tasks)
        for name, count in needs.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count

    @property
    def notes(self):
        """Sentences on what could not be judged."""
        most = sorted(self.unknown.items(), key=lambda each: -each[1])
        if not most:
            return []
        names = ", ".join(f"{name} ({count})" for name, count in most[:10])
        rest = f" and {len(most) - 10} more" if len(most) > 10 else ""
        return [
            f"{sum(self.unknown.values())} tasks have no law and were let through: {names}{rest}"
        ]


@contextmanager
def checked(model, client=None, memory_limit=None, *, baseline_bytes=None, any_version=False):
    """A context in which no computation starts of which some task cannot fit its worker.

    `compute` and `persist` of collections, `client.compute`, `client.persist` and `client.submit`
    within are checked first. Tasks without a law are let through; the context's `notes` count them.
    Where workers have declared their memory (`declare`), tasks with a law reserve what they need of
    it.

    Args:
        model: A `memtrace.Model`, or its file.
        client: Of the cluster (default: the current one). Without one, computations of this
            process are checked.
        memory_limit: Of one process: bytes, or a text like "1.5 GB" (default: the workers' own).
        baseline_bytes: Resident bytes of a worker before its first task, instead of measuring it.
        any_version: Also use laws that were recorded with other releases of libraries.

    Yields:
        `Checks`: what has been checked.

    Raises:
        MemoryError: A task does not fit; the message names the operator, its block, what it needs,
            what there is, and blocks that would fit.
    """
    model = model_of(model)
    client = current_client(client)
    given = {"memory_limit": memory_limit, "baseline": baseline_bytes}
    workers = workers_of(client, here=True, **given)
    guard = _Guard(model, workers, any_version, Checks())
    hook = _in_this_process(guard) if client is None else _on_client(guard, client)
    with hook:
        yield guard.checks


class _Guard(NamedTuple):
    model: Any
    workers: Workers
    any_version: bool
    checks: Checks

    def check(self, graph):
        """What the tasks need, by key. MemoryError: one does not fit."""
        needs = needs_of(graph, self.model, any_version=self.any_version)
        free = self.workers.budget - (self.workers.baseline_bytes or 0) - FRAMEWORK_BYTES
        worst = max(needs.tasks.items(), key=lambda each: each[1].bytes, default=None)
        if worst is not None and worst[1].bytes > free:
            raise MemoryError(self.refusal(*worst, free))
        if worst is not None:
            self.workers.must_take(worst[1].bytes, f"{worst[1].operator} (task {worst[0]})")
        self.checks.add(needs)
        return needs.tasks

    def refusal(self, key, need, free):
        law = Operator(self.model, need.operator, need.dtype, need.params, self.any_version)
        smaller = _fitting(law, need.block, free // self.workers.threads)
        advice = "no smaller block would do: raise the memory limit"
        if smaller is not None:
            advice = f"blocks of {_joined(smaller)} cells, halo included, would do"
        limit = math.ceil((self.workers.budget - free + need.bytes) / self.workers.budget_fraction)
        return (
            f"{need.operator} on a block of {_joined(need.block)} {need.dtype} (task {key}) needs "
            f"{sizes.text(need.bytes)} of the {sizes.text(max(0, free))} that a worker has for "
            f"its tasks; {advice} (or a memory limit of {sizes.text(limit)})"
        )


def _fitting(law, block, free) -> "Optional[tuple]":
    """The block halved along its longest axis until it fits."""
    block = list(block)
    while max(block) > 1:
        axis = block.index(max(block))
        block[axis] = -(-block[axis] // 2)
        try:
            if law.task_bytes(block) <= free:
                return tuple(block)
        except ValueError:
            return None
    return None


def _joined(lengths):
    return "×".join(map(str, lengths))


@contextmanager
def _in_this_process(guard):
    """The local schedulers call a callback before they start."""
    from dask.callbacks import Callback

    with Callback(start=guard.check):
        yield


@contextmanager
def _on_client(guard, client):
    """All that a client sends to its scheduler goes through one method of it."""
    send = getattr(client, "_graph_to_futures", None)
    if send is None:
        raise RuntimeError("this release of distributed sends graphs in a way that is not known")

    def check_and_send(expr, keys, *rest, **options):
        graph = getattr(expr, "__dask_graph__", lambda: expr)()
        tasks = guard.check(dict(graph))
        if guard.workers.declared is not None and tasks and not options.get("resources"):
            needs = {key: {MEMORY: need.bytes} for key, need in tasks.items()}
            # The scheduler calls this with a key, and does not need memtrace for that.
            options["resources"] = defaultdict(dict, needs).__getitem__
        return send(expr, keys, *rest, **options)

    outer = vars(client).get("_graph_to_futures")  # of a context around this one
    client._graph_to_futures = check_and_send
    try:
        yield
    finally:
        if outer is None:
            del client._graph_to_futures
        else:
            client._graph_to_futures = outer
