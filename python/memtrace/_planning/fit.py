"""Fitting models to traces, on one machine or on a Dask cluster."""

import os
from os import PathLike
from typing import TYPE_CHECKING, Any, Sequence, Union

if TYPE_CHECKING:
    from .._native import Model, Trace, Traces

    Source = Union[str, "PathLike[str]", Trace, Traces]

#: Parts that a cluster reads, for each of its threads: the last ones end at about the same time.
PARTS = 2
#: Traces of a part, at most: a cluster may grow meanwhile.
TRACES = 250


def fit(traces: "Union[Source, Sequence[Source]]", *, client: Any = None) -> "Model":
    """Fits a law to each operator that was recorded at three shapes or more.

    Three non-cubic shapes whose lengths have no common factor are the most informative. Of many
    calls at one shape, a law takes the first and the largest ones.

    Args:
        traces: Traces, their directories, or directories of traces; or one of them.
        client: A Dask client, for thousands of traces: its workers read them, and give the same
            model. They need memtrace, and the directories at the same paths.

    Returns:
        The model.

    Raises:
        ValueError: A trace cannot be read, or no operator was run at enough shapes.

    Examples:
        >>> memtrace.fit("traces/").save("model.json")
    """
    from .._native import fit, fit_profiles, read_profiles, trace_directories

    if client is None:
        return fit(traces)
    here = os.getcwd()
    directories = [os.path.join(here, directory) for directory in trace_directories(traces)]
    threads = sum(client.nthreads().values()) or 1
    size = min(-(-len(directories) // (PARTS * threads)) or 1, TRACES)
    parts = [directories[at : at + size] for at in range(0, len(directories), size)]
    futures = client.map(read_profiles, parts, pure=False)
    try:
        profiles = [future.result() for future in futures]
    except BaseException:
        client.cancel(futures)
        raise
    return fit_profiles(profiles)
