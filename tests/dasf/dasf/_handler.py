"""Which of an object's functions does the work: `_lazy_NAME_cpu` or `_NAME_cpu`."""

from functools import wraps

import dask
from distributed import Client


def task_handler(function):
    """Calls the lazy variant where there is a client or a scheduler of Dask, as DASF does."""

    @wraps(function)
    def handled(self, *args, **kwargs):
        lazy = "_lazy" if _has_client() or dask.config.get("scheduler", None) else ""
        return getattr(self, f"{lazy}_{function.__name__}_cpu")(*args, **kwargs)

    return handled


def _has_client():
    try:
        Client.current()
    except ValueError:
        return False
    return True
