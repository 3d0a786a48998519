"""memtrace: which operator needs how much memory, and chunk sizes that fit.

`operator` and `span` mark the operators of a program; they cost nothing unless the
program runs under `memtrace -- ...`. `record` runs a function or a piece of source that way,
`load` opens a recording, `fit` makes a model of recordings (`fit_table` of figures from
elsewhere), and a `Model` predicts bytes and recommends chunks; `plan` does the same for whole
pipelines, and `bound` for functions that were never run. `%load_ext memtrace` adds
the magics `%memtrace` and `%%memtrace`. Notebooks show traces, tables, models and answers as
tables.
"""

from typing import TYPE_CHECKING

from ._span import operator, span

if TYPE_CHECKING:
    from ._native import ChunkChooser, Follower, Law, Model, Table, Trace, Traces, fit_table
    from ._notebook.answers import Forecast, Plan, Prediction
    from ._planning.bound import bound
    from ._planning.fit import fit
    from ._planning.plan import plan
    from ._running.load import load
    from ._running.record import ProgramFailed, record

__all__ = [
    "ChunkChooser",
    "Follower",
    "Forecast",
    "Law",
    "Model",
    "Plan",
    "Prediction",
    "ProgramFailed",
    "Table",
    "Trace",
    "Traces",
    "bound",
    "fit",
    "fit_table",
    "load",
    "operator",
    "plan",
    "record",
    "span",
]

# Loaded at first use: programs that only mark operators need no more than that.
_LATER = {
    "Forecast": "_notebook.answers",
    "Plan": "_notebook.answers",
    "Prediction": "_notebook.answers",
    "ProgramFailed": "_running.record",
    "bound": "_planning.bound",
    "fit": "_planning.fit",
    "load": "_running.load",
    "plan": "_planning.plan",
    "record": "_running.record",
}
_NATIVE = (
    "ChunkChooser",
    "Follower",
    "Law",
    "Model",
    "Table",
    "Trace",
    "Traces",
    "fit_table",
)


def __getattr__(name):
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    if name not in _NATIVE:
        raise AttributeError(f"module 'memtrace' has no attribute {name!r}")
    from ._extension import native

    return native(name)


def __dir__():
    return [*globals(), *_LATER, *_NATIVE]


def load_ipython_extension(ipython) -> None:
    """Registers `%memtrace` and `%%memtrace`; IPython calls it for `%load_ext memtrace`."""
    from ._running.magic import MemtraceMagics

    ipython.register_magics(MemtraceMagics)
