"""Chunks that fit the workers of a Dask cluster, and recordings of what its tasks need.

`recommend` chooses chunks, `map_overlap` chooses them and runs. `declare` and `needs` let tasks
run together only if they fit together; `checked` refuses a computation of which some task cannot
fit. `record` records every task of a cluster and streams it here while it computes.
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError(f"memtrace.dask needs Dask: pip install 'dask[array]' ({error})") from error

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
