"""Chunks that fit the workers of a Dask cluster, and recordings of what its tasks need.

`recommend` chooses chunks, `map_overlap` chooses them and runs. `declare` and `needs` let tasks
run together only if they fit together; `checked` refuses a computation of which some task cannot
fit. `record` records every task of a cluster and streams it here while it computes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._overlap import map_overlap
    from ._plan import Plan, recommend
    from ._record import Recording, record
    from ._refusal import checked
    from ._resources import declare, needs
    from ._waves import Block, Written

__all__ = [
    "Block",
    "Plan",
    "Recording",
    "Written",
    "checked",
    "declare",
    "map_overlap",
    "needs",
    "recommend",
    "record",
]

#: Imported when it is asked for: every recorded worker imports this package for its plugin, and
#: `dask.array` would take each of them most of a second and tens of megabytes.
_LATER = {
    "Block": "_waves",
    "Plan": "_plan",
    "Recording": "_record",
    "Written": "_waves",
    "checked": "_refusal",
    "declare": "_resources",
    "map_overlap": "_overlap",
    "needs": "_resources",
    "recommend": "_plan",
    "record": "_record",
}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'memtrace.dask' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"{__name__}.{_LATER[name]}")
    except ImportError as error:
        if str(error.name).partition(".")[0] not in ("dask", "numpy"):
            raise
        needed = f"memtrace.dask needs Dask: pip install 'dask[array]' ({error})"
        raise ImportError(needed) from error
    return getattr(module, name)


def __dir__():
    return [*globals(), *_LATER]
