"""Planning pipelines: graphs of other libraries as graphs that laws are composed over."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from .._running.load import model_of
from . import sizes

if TYPE_CHECKING:
    from .._native import Model
    from .._notebook.answers import Forecast, Plan


def plan(
    model: "Union[Model, str, os.PathLike[str]]",
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
) -> "Union[Plan, Forecast]":
    """The predicted memory of a pipeline, as a dict: what `memtrace plan --json` prints.

    Args:
        model: Laws of the pipeline's operators, or their file.
        graph: A graph as a dict or the path of its JSON file; a Dask collection; an xarray object
            with chunks; a pipeline of DASF.
        memory_limit: Bytes of each process, or a text like "1.5GB". A graph of whole arrays is
            cut into chunks that fit; one that is cut already (Dask, xarray) is checked.
        workers: How many processes share the chunks, or "auto".
        threads: Threads of each process.
        executor: "sequential", "threaded" or "distributed".
        baseline_bytes: Resident bytes of a process before the first step (default: those of the
            recorded one, and 110 MB for a worker of Dask).
        budget_fraction: The part of the limit that a process may use (default: what Dask's
            settings leave its workers, all of it elsewhere).
        given: Bytes of operators without laws, by name: the number per element, or what a graph's
            step says.
        halo: Of a DASF pipeline's operators, by name: extra cells per face and axis.
        whole_axes: Of a DASF pipeline's operators, by name: axes that are not to be cut.
        results: Names of a DASF pipeline's elements that are kept to the end (default: the last;
            `[]`: they are stored or reduced).
        arrays: Dask arrays inside the graph whose chunks cannot be determined otherwise.
        any_version: Also use laws of operators that were recorded with another release of a
            library than this process has.

    Returns:
        The plan, or the predicted peak of a graph that runs as it is. Bytes and seconds.

    Raises:
        ValueError: An operator has neither a law nor given bytes, or the graph or the model's file
            is invalid.
        MemoryError: Nothing fits; the message names the smallest limit that would.
    """
    limit = None if memory_limit is None else sizes.parse(memory_limit)
    model = model_of(model)
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
        from .dasf_graph import document_of

        return document_of(graph, model.operators(), given, **about)
    tasks = getattr(graph, "__dask_graph__", None)
    if callable(tasks) and tasks() is not None:
        from .dask_graph import document_of

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
        found = [variable.data for variable in graph.variables.values()]
    else:
        found = [graph.data] if hasattr(graph, "dims") else [graph]
    return [each for each in found if hasattr(each, "__dask_graph__")]


def given_bytes(given):
    """What a graph's steps say of operators without laws, by name."""
    return {name: _bytes(each) for name, each in given.items()}


def _bytes(given):
    """What a step says of its bytes and its output; a number is per element."""
    if isinstance(given, Mapping):
        output = {"output": given["output"]} if "output" in given else {}
        return {"bytes": {key: value for key, value in given.items() if key != "output"}, **output}
    return {"bytes": {"per_element": float(given)}}
