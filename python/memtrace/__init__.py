"""memtrace: which operator needs how much memory, and chunk sizes that fit.

`operator` and `span` mark the operators of a program; they cost nothing unless the
program runs under `memtrace -- ...`. `record` runs a function or a piece of source so,
`load` opens what was recorded, `fit` makes a model of it (`fit_table` of figures from
elsewhere), and a `Model` predicts bytes and recommends chunks; `plan` does so for whole
pipelines, and `bound` for functions that were never run. `%load_ext memtrace` brings the
cell magic `%%memtrace`.
"""

from typing import TYPE_CHECKING

from ._span import operator, span

if TYPE_CHECKING:
    from ._bound import bound
    from ._load import load
    from ._native import ChunkChooser, Follower, Model, Table, Trace, fit, fit_table
    from ._plan import plan
    from ._record import ProgramFailed, record

__all__ = [
    "ChunkChooser",
    "Follower",
    "Model",
    "ProgramFailed",
    "Table",
    "Trace",
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
    "ProgramFailed": "_record",
    "bound": "_bound",
    "load": "_load",
    "plan": "_plan",
    "record": "_record",
}
_NATIVE = ("ChunkChooser", "Follower", "Model", "Table", "Trace", "fit", "fit_table")


def __getattr__(name):
    from importlib import import_module

    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    if name not in _NATIVE:
        raise AttributeError(f"module 'memtrace' has no attribute {name!r}")
    try:
        native = import_module(f"{__name__}._native")
    except ImportError as error:
        raise ImportError(
            f"memtrace.{name} needs memtrace's native module, which this installation lacks "
            f"({error}); install memtrace from a wheel, or build it with `maturin develop`"
        ) from error
    return getattr(native, name)


def __dir__():
    return [*globals(), *_LATER, *_NATIVE]


def load_ipython_extension(ipython) -> None:
    """Registers `%%memtrace`: what `%load_ext memtrace` calls."""
    from ._magic import MemtraceMagics

    ipython.register_magics(MemtraceMagics)
