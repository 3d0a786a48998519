"""Fitting models to traces, on one machine or on a Dask cluster."""

import os
from os import PathLike
from typing import TYPE_CHECKING, Any, Sequence, Union

from .._running.remote import copies, is_remote, traces_in

if TYPE_CHECKING:
    from .._native import Model, Trace, Traces

    Source = Union[str, "PathLike[str]", Trace, Traces]

#: Parts that a cluster reads, for each of its threads: the last ones end at about the same time.
PARTS = 2
#: Traces of a part, at most: a cluster may grow meanwhile.
TRACES = 250
#: Traces that are copied at a time, where they are URLs.
COPIED = 16


def fit(traces: "Union[Source, Sequence[Source]]", *, client: Any = None) -> "Model":
    """Fits a law to each operator that was recorded at three shapes or more.

    Three non-cubic shapes whose lengths have no common factor are the most informative. Of many
    calls at one shape, a law takes the first and the largest ones.

    Args:
        traces: Traces, their directories, or directories of traces; or one of them. URLs
            (`s3://bucket/traces`) are copied by fsspec, some traces at a time.
        client: A Dask client, for thousands of traces: its workers read them, and give the same
            model. They need memtrace, and the directories at the same paths, or URLs.

    Returns:
        The model.

    Raises:
        ValueError: A trace cannot be read, or no operator was run at enough shapes.
        ImportError: For a URL: fsspec, or what it needs for that URL, is not installed.

    Examples:
        >>> memtrace.fit("traces/").save("model.json")
    """
    from .._native import fit, fit_profiles

    sources = traces if isinstance(traces, (list, tuple)) else [traces]
    if client is None and not any(map(is_remote, sources)):
        return fit(traces)
    directories = [each for source in sources for each in _directories(source)]
    if client is None:
        return fit_profiles(_profiles(directories))
    threads = sum(client.nthreads().values()) or 1
    size = min(-(-len(directories) // (PARTS * threads)) or 1, TRACES)
    futures = client.map(_profiles, _parts(directories, size), pure=False)
    try:
        profiles = [profile for future in futures for profile in future.result()]
    except BaseException:
        client.cancel(futures)
        raise
    return fit_profiles(profiles)


def _directories(source):
    """Where the traces are: absolute paths, or URLs."""
    from .._native import trace_directories

    if is_remote(source):
        return traces_in(source)
    here = os.getcwd()
    return [os.path.join(here, directory) for directory in trace_directories(source)]


def _parts(directories, size):
    return [directories[at : at + size] for at in range(0, len(directories), size)]


def _profiles(directories):
    """What `fit` needs of traces, in parts. A worker of a cluster runs this."""
    size = COPIED if any(map(is_remote, directories)) else len(directories)
    return [_profile(part) for part in _parts(directories, size)]


def _profile(directories):
    from .._native import read_profiles

    with copies(directories) as local:
        return read_profiles(local)
