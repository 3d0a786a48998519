"""Opening traces and models."""

import os
from typing import TYPE_CHECKING, Union

from .._extension import native
from .remote import is_remote, kept_copy, naming, public

if TYPE_CHECKING:
    from .._native import Model, Trace, Traces


def load(trace: "Union[str, os.PathLike[str]]") -> "Union[Trace, Traces]":
    """Opens a trace, or a directory that has several.

    Its tables are attributes (`.operators`, `.allocations`, `.spans`, `.sites`, `.timeline`, …)
    that Polars, DuckDB, pandas and pyarrow take over without a copy; nothing is read before that.
    A trace that was cut short opens with what was on disk. Of several traces, such as those of the
    ranks of a job, there is one picture: `.report()`.

    Args:
        trace: The trace's directory, or one with traces in it. A URL (`s3://bucket/traces`) is
            copied here by fsspec, until this process ends.

    Returns:
        The trace, or the traces if there are several.

    Raises:
        ValueError: It is no trace, is damaged, or another version of memtrace wrote it.
        ImportError: For a URL: fsspec, or what it needs for that URL, is not installed.

    Examples:
        >>> polars.DataFrame(memtrace.load("memtrace.python.1234").operators)
    """
    if not is_remote(trace):
        return _opened(trace)
    copy = kept_copy(trace)
    with naming([(copy, public(trace))]):
        return _opened(copy)


def _opened(directory):
    traces = native("Traces")(directory)
    return traces if len(traces) > 1 else traces[0]


def model_of(model: "Union[Model, str, os.PathLike[str]]") -> "Model":
    """A model: itself, or the one in a file. TypeError: it is neither."""
    if isinstance(model, (str, os.PathLike)):
        return native("Model").load(os.fspath(model))
    if not hasattr(model, "predict"):
        raise TypeError(f"the model must be a memtrace.Model or its file, not {model!r}")
    return model
