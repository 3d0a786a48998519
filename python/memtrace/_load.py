"""Opening traces and models."""

import os
from typing import TYPE_CHECKING, Union

import memtrace

if TYPE_CHECKING:
    from ._native import Model, Trace


def load(trace: "Union[str, os.PathLike[str]]") -> "Trace":
    """Opens the trace in the directory `trace`.

    Its tables are attributes (`.operators`, `.allocations`, `.spans`, `.sites`, `.timeline`, …)
    that Polars, DuckDB, pandas and pyarrow take over without a copy; nothing is read before that.
    One that was cut short opens with what was on disk. ValueError: it is no trace, is damaged, or a
    newer memtrace wrote it.

    >>> polars.DataFrame(memtrace.load("memtrace.python.1234").operators)
    """
    return memtrace.Trace(trace)


def model_of(model: "Union[Model, str, os.PathLike[str]]") -> "Model":
    """A model: itself, or the one in a file. TypeError: it is neither."""
    if isinstance(model, (str, os.PathLike)):
        return memtrace.Model.load(os.fspath(model))
    if not hasattr(model, "predict"):
        raise TypeError(f"the model must be a memtrace.Model or its file, not {model!r}")
    return model
