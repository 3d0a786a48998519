"""Planning pipelines: graphs of other libraries as graphs that laws are composed over."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _sizes

if TYPE_CHECKING:
    from ._native import Model


def plan(
    model: "Model",
    graph: Any,
    *,
    memory_limit: "Optional[Union[int, str]]" = None,
    workers: "Optional[Union[int, str]]" = None,
    threads: int = 1,
    executor: "Optional[str]" = None,
    baseline_bytes: "Optional[int]" = None,
    budget_fraction: "Optional[float]" = None,
    given: "Optional[Mapping[str, Any]]" = None,
    halo: "Optional[Mapping[str, Any]]" = None,
    whole_axes: "Optional[Mapping[str, Any]]" = None,
    results: "Optional[Sequence[str]]" = None,
    arrays: Any = (),
    any_version: bool = False,
) -> "dict[str, Any]":
    """What a pipeline is foretold to hold, as a dict: what `memtrace plan --json` prints.

    graph: a graph as a dict or the path of its JSON file; a Dask collection; an xarray object
    with chunks; a pipeline of DASF. memory_limit: bytes of each process, or a text like "1.5GB":
    a graph of whole arrays is cut into chunks that fit, one that is cut already (Dask, xarray)
    is checked. workers: how many processes share the chunks, or "auto". threads: of each.
    executor: "sequential", "threaded" or "distributed". given: bytes of operators without laws,
    by name: the number per element, or what a graph's step says. halo, whole_axes: of a DASF
    pipeline's operators, by name; results: which of its elements are kept to the end (default: the
    last; `[]`: they are stored or reduced). arrays: Dask arrays inside the graph whose chunks
    nothing else tells.
    any_version: also use laws of operators that were recorded with another release of a library
    than this process has. budget_fraction: the part of the limit that a process may use (default:
    what Dask's settings leave its workers, all of it elsewhere). baseline_bytes: what it holds
    before the first step (default: what the recorded one held, and 110 MB for a worker of Dask).

    ValueError: an operator has neither a law nor given bytes, or the graph makes no sense.
    MemoryError: nothing fits; it names the smallest limit that would.
    """
    limit = None if memory_limit is None else _sizes.parse(memory_limit)
    about = {"halo": halo, "whole_axes": whole_axes, "results": results}
    document = _document(graph, model, threads, given or {}, about, arrays)
    return model.plan_graph(
        json.dumps(document),
        memory_limit=limit,
        workers=workers,
        threads=threads,
        executor=executor,
        baseline_bytes=baseline_bytes,
        budget_fraction=budget_fraction,
        any_version=any_version,
    )


def _document(graph, model, threads, given, about, arrays):
    # An xarray.Dataset is a mapping too.
    if isinstance(graph, Mapping) and not hasattr(graph, "__dask_graph__"):
        return graph
    if isinstance(graph, (str, os.PathLike)):
        with open(graph, encoding="utf-8") as file:
            return json.load(file)
    given = given_bytes(given)
    if hasattr(graph, "_dag_table"):
        from ._plan_dasf import document_of

        return document_of(graph, model.operators(), given, **about)
    tasks = getattr(graph, "__dask_graph__", None)
    if callable(tasks) and tasks() is not None:
        from ._plan_dask import document_of

        return document_of(_collections(graph), model.operators(), given, arrays, threads)
    if hasattr(graph, "chunk") and hasattr(graph, "dims"):
        raise ValueError(
            "the xarray object is in memory already: give one with chunks, e.g. data.chunk()"
        )
    raise TypeError(
        f"cannot plan a {type(graph).__name__}: give a graph, a Dask collection, an xarray object "
        "or a pipeline"
    )


def _collections(graph):
    """The Dask arrays of an xarray object; any other collection is one itself."""
    if hasattr(graph, "data_vars"):
        held = [variable.data for variable in graph.variables.values()]
    else:
        held = [graph.data] if hasattr(graph, "dims") else [graph]
    return [each for each in held if hasattr(each, "__dask_graph__")]


def given_bytes(given):
    """What a graph's steps say of operators without laws, by name."""
    return {name: _bytes(each) for name, each in given.items()}


def _bytes(given):
    """What a step says of its bytes and its output; a number is per element."""
    if isinstance(given, Mapping):
        output = {"output": given["output"]} if "output" in given else {}
        return {"bytes": {key: value for key, value in given.items() if key != "output"}, **output}
    return {"bytes": {"per_element": float(given)}}
