"""Opening traces."""

import os
from typing import TYPE_CHECKING, Union

import memtrace

if TYPE_CHECKING:
    from ._native import Trace


def load(trace: "Union[str, os.PathLike[str]]") -> "Trace":
    """Opens the trace in the directory `trace`.

    Its tables are attributes (`.operators`, `.allocations`, `.spans`, `.sites`, `.timeline`, …)
    that Polars, DuckDB, pandas and pyarrow take over without a copy; nothing is read before that.
    One that was cut short opens with what was on disk. ValueError: it is no trace, is damaged, or a
    newer memtrace wrote it.

    >>> polars.DataFrame(memtrace.load("memtrace.python.1234").operators)
    """
    return memtrace.Trace(trace)
