"""Opening traces and models."""

import os
from typing import TYPE_CHECKING, Union

from .._extension import native

if TYPE_CHECKING:
    from .._native import Model, Trace


def load(trace: "Union[str, os.PathLike[str]]") -> "Trace":
    """Opens a trace.

    Its tables are attributes (`.operators`, `.allocations`, `.spans`, `.sites`, `.timeline`, …)
    that Polars, DuckDB, pandas and pyarrow take over without a copy; nothing is read before that.
    A trace that was cut short opens with what was on disk.

    Args:
        trace: The trace's directory.

    Returns:
        The trace.

    Raises:
        ValueError: It is no trace, is damaged, or another version of memtrace wrote it.

    Examples:
        >>> polars.DataFrame(memtrace.load("memtrace.python.1234").operators)
    """
    return native("Trace")(trace)


def model_of(model: "Union[Model, str, os.PathLike[str]]") -> "Model":
    """A model: itself, or the one in a file. TypeError: it is neither."""
    if isinstance(model, (str, os.PathLike)):
        return native("Model").load(os.fspath(model))
    if not hasattr(model, "predict"):
        raise TypeError(f"the model must be a memtrace.Model or its file, not {model!r}")
    return model
