"""Blocks of DASF's pipelines that fit the memory of the processes that run them.

    blocks = memtrace.dasf.BlockSize(pipeline, model, halo={"Gaussian": (12, 12, 12)})
    pipeline.register_plugin(blocks)
    pipeline.run()

Where DASF is not installed, an object with its hooks and its table of elements will do.
"""

import math
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from ._planning import dasf_files, dasf_graph, sizes, worker_limits
from ._planning.plan import given_bytes, plan

try:  # a pipeline calls the hooks of this class's subclasses only
    from dasf.pipeline import PipelinePlugin
except ImportError:
    PipelinePlugin = object

if TYPE_CHECKING:
    from ._native import Model


class BlockSize(PipelinePlugin):
    """A pipeline's plugin: it sets the block size of datasets before they load.

    Datasets in files are read by these blocks, and every element makes a Dask array of its
    blocks, on any executor.

    One grid of blocks for the whole pipeline, the fastest that keeps each worker under its budget
    by the model's laws; where an operator is given other blocks, its arrays are rechunked. If no
    such grid fits, each operator gets blocks of its own, and arrays are rechunked between them, by
    way of the workers' disks. Arrays that are not Dask's are left as they are.

    When the pipeline starts, MemoryError is raised if nothing fits, with the smallest limit that
    would, and ValueError if a law or the memory limit is missing.

    Args:
        pipeline: A pipeline of DASF, complete before it runs.
        model: Has laws of its operators, by what they are called in the pipeline, by their
            classes' names or by `MODULE:CLASS._transform_cpu`.
        memory_limit: Bytes of each worker, or a text like "1.5GB" (default: that of the Dask
            client of the pipeline's executor; so are `workers` and `threads`). An executor
            without a client computes in this process, which may use all of it.
        workers: The number of workers.
        threads: Threads of each.
        halo: Extra cells per face and axis, of operators by the same names (default: a
            MappedTransform's `depth`).
        whole_axes: Axes that stay whole, of operators by the same names.
        given: Bytes of operators without laws, as for `memtrace.plan`.
        results: Names of the elements whose results the workers keep (default: the last; `[]`:
            they are stored or reduced block by block), as for `memtrace.plan`.
        any_version: Also use laws that were recorded with other releases of libraries.

    Attributes:
        plan: What `memtrace.plan` returned, as soon as the pipeline has started; None if each
            operator has blocks of its own.
    """

    def __init__(
        self,
        pipeline: Any,
        model: "Model",
        *,
        memory_limit: "Optional[Union[int, str]]" = None,
        workers: "Optional[int]" = None,
        threads: "Optional[int]" = None,
        halo: "Optional[Mapping[str, Any]]" = None,
        whole_axes: "Optional[Mapping[str, Any]]" = None,
        given: "Optional[Mapping[str, Any]]" = None,
        results: "Optional[Sequence[str]]" = None,
        any_version: bool = False,
    ):
        self.plan = None
        self._pipeline, self._model = pipeline, model
        self._requested = {"memory_limit": memory_limit, "workers": workers, "threads": threads}
        self._about = {"halo": halo, "whole_axes": whole_axes, "results": results}
        self._given = given_bytes(given or {})
        self._limits = {"any_version": any_version}
        self._document = {}
        self._wrapped = None  # the executor, and its own attribute `execute`, if it had one

    def on_pipeline_start(self, fn_keys: Any) -> None:
        """Sets the blocks of datasets."""
        self._limits.update(self._known_limits())
        self._document = dasf_graph.document_of(
            self._pipeline, self._model.operators(), self._given, **self._about
        )
        try:
            self.plan = plan(self._model, self._document, **self._limits)
        except MemoryError:
            self.plan = None
            # Only workers rechunk by way of their disks.
            if len(self._document["steps"]) < 2 or self._client() is None:
                raise
        self._set_blocks()
        self._wrap()

    def on_task_start(self, func: Any, params: Any, name: str) -> None:
        """Does nothing: blocks are set."""

    def on_task_end(self, func: Any, params: Any, name: str, ret: Any) -> None:
        """Does nothing."""

    def on_task_error(self, func: Any, params: Any, name: str, exception: Any) -> None:
        """Restores the executor."""
        self._unwrap()

    def on_pipeline_end(self) -> None:
        """Restores the executor."""
        self._unwrap()

    def _known_limits(self):
        """What was requested, and for the rest what the executor's client or this process knows."""
        requested = {name: each for name, each in self._requested.items() if each is not None}
        client = self._client()
        modules = dasf_graph.modules(self._pipeline)
        if client is not None:
            limits = {**worker_limits.limits(client, modules), **requested}
        elif "memory_limit" not in requested:
            raise ValueError(
                "the workers' memory limit is not known: say memory_limit, e.g. '1.5GB', or give "
                "the pipeline an executor whose Dask client has workers with a limit"
            )
        else:
            limits = worker_limits.of_this_process(modules, **requested)
        return {**limits, "memory_limit": sizes.parse(limits["memory_limit"])}

    def _client(self):
        return getattr(self._pipeline._executor, "client", None)

    def _set_blocks(self):
        """The block size of each dataset, which it uses when it loads."""
        chosen = [
            (dataset, self._blocks_of(name, array))
            for name, dataset, array in dasf_graph.datasets(self._pipeline)
        ]
        for dataset, blocks in chosen:
            if blocks is not None:
                setattr(dataset, "_chunks" if hasattr(dataset, "_chunks") else "chunks", blocks)
                dasf_files.read_by_blocks(dataset, blocks)

    def _blocks_of(self, name, array):
        """Those of a dataset; None if it keeps its own."""
        if self.plan is not None:
            return self._aligned(array["shape"])
        users = [step for step in self._document["steps"] if name in step["inputs"]]
        return self._blocks_for(users[0], **array) if users else None

    def _wrap(self):
        executor = self._pipeline._executor
        if executor is None or self._wrapped is not None:
            return
        execute = executor.execute
        functions = dasf_graph.functions(self._pipeline)
        steps = {functions[each["name"]]: each for each in self._document["steps"]}

        def with_blocks(fn, *args, **kwargs):
            step = steps.get(fn)
            if step is not None:
                args = [self._rechunked(step, each) for each in args]
                kwargs = {name: self._rechunked(step, each) for name, each in kwargs.items()}
            return lazily(executor, execute, fn, *args, **kwargs)

        self._wrapped = executor, vars(executor).get("execute")
        executor.execute = with_blocks

    def _unwrap(self):
        if self._wrapped is None:
            return
        for _, dataset, _ in dasf_graph.datasets(self._pipeline):
            dasf_files.read_as_before(dataset)
        (executor, own), self._wrapped = self._wrapped, None
        if own is not None:
            executor.execute = own
        else:
            vars(executor).pop("execute", None)  # its class's shows again

    def _rechunked(self, step, value):
        """A dataset's array, or an array, in the blocks that an operator is to be given."""
        array = getattr(value, "_data", value)
        if not hasattr(array, "rechunk") or not hasattr(array, "chunks") or array.ndim == 0:
            return value
        if self.plan is not None:
            blocks = self._aligned(array.shape)
            return array if blocks in (None, array.chunks) else array.rechunk(blocks)
        blocks = self._blocks_for(step, array.shape, array.dtype)
        if blocks == array.chunks:
            return array
        return array.rechunk(blocks, method="p2p")

    def _aligned(self, shape):
        """The grid of the plan, for arrays of the shape it is of; None for others."""
        source = self._document["sources"][self.plan["source"]]
        if list(shape) != source["shape"]:
            return None
        return tuple(tuple(axis) for axis in self.plan["chunks"])

    def _blocks_for(self, step, shape, dtype):
        """Blocks for one operator by itself."""
        import numpy as np

        lengths, dtype = [int(length) for length in shape], np.dtype(dtype)
        source = {"shape": lengths, "dtype": dtype.str}
        single = {**step, "inputs": ["its input"] * len(step["inputs"])}
        document = {
            "version": 1,
            "sources": {"its input": source},
            "steps": [single],
            "results": [],
        }
        # What a rechunking keeps in memory before it writes it to disk is not for the operator.
        buffers = min(math.prod(lengths) * dtype.itemsize, worker_limits.rechunking_bytes())
        limit = self._limits["memory_limit"] - buffers / self._limits.get("budget_fraction", 1.0)
        found = plan(self._model, document, **{**self._limits, "memory_limit": max(int(limit), 1)})
        return tuple(tuple(axis) for axis in found["chunks"])


def lazily(executor, execute, fn, *args, **kwargs):
    """Calls an element so that it makes Dask arrays.

    DASF's elements do where they find a client or a Dask scheduler. Its executor for tasks would
    have a worker, where they find none, compute a whole array instead.
    """
    if getattr(executor, "client", None) is not None:
        return fn(*args, **kwargs)
    import dask

    with dask.config.set(scheduler=dask.config.get("scheduler", None) or "threads"):
        return execute(fn, *args, **kwargs)
