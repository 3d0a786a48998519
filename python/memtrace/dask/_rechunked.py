"""What a worker holds while it cuts a Dask array anew and computes the new chunks with their halos.

The graph that Dask makes of it is counted task by task, in Dask's order: pieces keep the chunks
that they are views of, and a new chunk waits until all its pieces are there. Where workers pass
pieces on through their disks ("p2p"), their buffers count instead.
"""

import json
import math

import dask
import dask.array as da
import numpy as np

from .._planning import sizes
from .._planning.dask_graph import Tasks, known_chunks
from ._halo import block_shape

#: Larger graphs are not counted task by task.
MOST_TASKS = 5_000


def held_bytes(x, chunks, depths, task, threads, model):
    """The most that the tasks of a worker have live together.

    task: bytes of the operator's own task, its block among them.
    """
    # A worker frees what a task took in when the scheduler says so, and what it gave when that is
    # stored or passed on: while the next task runs, a chunk of each is there beside it.
    late = 2 * threads * math.prod(map(max, chunks)) * x.dtype.itemsize
    if _tasks(x.chunks, chunks, depths) > MOST_TASKS:
        pieces = late if _are_joined(x.chunks, chunks) else _passed_on(x)
        return threads * task + late + pieces
    whole = x.rechunk(chunks)
    if any("p2p" in name for name in whole.dask.layers):
        return threads * task + late + _passed_on(x)
    return late + _counted(x, whole, depths, task, threads, model)


def _counted(x, whole, depths, task, threads, model):
    cells = math.prod(block_shape(whole.chunksize, x.shape, depths))
    working = {"bytes": {"per_element": max(0, task / cells - x.dtype.itemsize)}}
    nothing = np.empty((0,) * x.ndim, x.dtype)
    options = {"depth": depths, "boundary": "none", "meta": nothing, "allow_rechunk": False}
    (result,) = dask.optimize(da.map_overlap(_operator, whole, **options))
    known, given = known_chunks([x, whole]), {_operator.__qualname__: working}

    for operators in (model.operators(), ()):
        tasks = _Graph(operators, given, known)
        try:
            tasks.add_all(result.__dask_graph__())
            return tasks.upper_bytes(model, threads)
        except Exception:  # graphs of users contain anything; laws may need a call's parameters
            continue
    return threads * task + x.nbytes


def lengths_of_chunks(x):
    """Lengths of a Dask array's chunks along each axis, the last of which may be shorter; None
    where others differ."""
    regular = all(len({*axis[:-1]}) <= 1 and axis[-1] <= axis[0] for axis in x.chunks)
    return tuple(axis[0] for axis in x.chunks) if regular else None


def _operator(block):
    """Stands for the operator in the graph."""
    return block


def _are_joined(old, new):
    """True if new chunks consist of whole old ones."""
    return all({*np.cumsum(b)} <= {*np.cumsum(a)} for a, b in zip(old, new))


def _passed_on(x):
    """What workers may hold that pass pieces on through their disks, as Dask has them do in large
    graphs ("p2p"): on the way to others, and to the disk."""
    if dask.config.get("array.rechunk.method", None) == "tasks":
        return x.nbytes
    buffers = [
        sizes.parse(dask.config.get(f"distributed.p2p.{name}.buffer", default))
        for name, default in (("comm", "1 GiB"), ("storage", "100 MiB"))
    ]
    return sum(min(x.nbytes, each) for each in buffers)


def _tasks(old, new, depths):
    """About how many tasks cut an array anew and give new chunks their halos."""
    pieces = [len({*np.cumsum(a), *np.cumsum(b)}) for a, b in zip(old, new)]
    halos = [3 * len(own) - 2 if depths[axis] else len(own) for axis, own in enumerate(new)]
    return math.prod(map(len, old)) + 2 * math.prod(pieces) + math.prod(halos)


class _Graph(Tasks):
    """A translation in which a task without a law makes its output and no more."""

    def data(self, key, value):
        if key in self.known and not isinstance(value, np.ndarray):  # what was persisted
            return {"inputs": [], "operator": "persisted", "bytes": {}, "output": self.known[key]}
        return super().data(key, value)

    def operator(self, key, call):
        try:
            step = super().operator(key, call)
        except ValueError:
            step = {"inputs": self.inputs(call), "operator": str(key)}
        if "bytes" not in step and step["operator"] not in self.operators:
            step["bytes"] = {}
            if key in self.known:
                step["output"] = self.known[key]
        return step

    def upper_bytes(self, model, threads):
        """What is live at most in a worker that runs the tasks."""
        graph = {
            "version": 1,
            "sources": self.sources,
            "steps": self.steps,
            "results": [],
            "executor": {"distributed": {"threads": threads}},
        }
        return model.plan_graph(json.dumps(graph), any_version=True)["upper_bytes"]
