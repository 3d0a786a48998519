"""Recording the tasks of a Dask cluster."""

try:
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(f"memtrace.dask needs Dask: pip install 'dask[distributed]' ({error})") from error

from ._record import Recording, record

__all__ = ["Recording", "record"]
